"""Knows which recorded calls run now in this Server (G-52).

A restart ends them all, so nothing of it is stored; calls of another Server over the same store are not seen.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from webcodex.storage.database import Database

_RUNNING: Final[WeakKeyDictionary[Database, dict[str, tuple[str, frozenset[str]]]]] = WeakKeyDictionary()


@contextmanager
def noted(database: Database, call_id: str, tool_name: str, sessions: Collection[str]) -> Iterator[None]:
    """Counts the call among those that run on ``sessions`` for as long as the block runs."""
    running = _RUNNING.setdefault(database, {})
    running[call_id] = tool_name, frozenset(sessions)
    try:
        yield
    finally:
        del running[call_id]


def count(database: Database, sessions: Collection[str], *, apart_from: Collection[str]) -> int:
    """Returns how many calls run on any of ``sessions``, those of the tools in ``apart_from`` left out."""
    running = tuple(_RUNNING.get(database, {}).values())  # a reader may be in another thread
    return sum(name not in apart_from and not named.isdisjoint(sessions) for name, named in running)
