"""The installation that the examples of the documentation run against."""

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator

import pytest

from tests.repo import examples, tree

INSTALLATION = "tests.journeys.installation"


@pytest.fixture(scope="session")
def run_example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[examples.Block], None]]:
    """Yields what runs one block against a Server and a Runner that live as long as the test session.

    ``tests.journeys.installation.for_examples(folder)`` is a context manager: it starts both for one project
    beneath ``folder`` and gives the environment variables that the examples use.
    """
    if not (tree.ROOT / f"{INSTALLATION.replace('.', '/')}.py").exists():
        pytest.skip("there is no installation to run examples against")
    folder = tmp_path_factory.mktemp("examples")
    path = f"{tree.ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    with importlib.import_module(INSTALLATION).for_examples(folder) as variables:
        environment = {"PATH": path, **variables}
        yield lambda block: examples.run(block, environment, folder)
