"""The Server, the Runner and the project that most host tests share."""

from collections.abc import Iterator

import pytest

from tests.hosts import machine


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[machine.Machine]:
    """Yields a machine that lives as long as the test session; a test leaves it as it was."""
    with machine.running(tmp_path_factory.mktemp("desk")) as running:
        yield running
