"""Ties each test to the requirements it proves, by the ids of docs/spec."""

from collections.abc import Callable
from typing import TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])


def requirement(*ids: str) -> Callable[[Test], Test]:
    """Marks a test as evidence for the given requirement ids, such as ``O-12``."""
    return pytest.mark.requirement(*ids)
