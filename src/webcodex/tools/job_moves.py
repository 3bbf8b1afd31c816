"""Wakes those who wait for a Job as soon as this Server has stored that it moved (R-63).

A wake is a reason to read the store again and says nothing by itself; another Server's come by polling.
"""

import asyncio
from collections.abc import Collection, Iterable
from typing import Self


class JobMoves:
    """Who waits for which Jobs on this Server."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def tell(self, job_ids: Iterable[str]) -> None:
        """Wakes everybody who waits for one of these Jobs; call it after the commit."""
        for job_id in job_ids:
            for waiting in self._waiting.get(job_id, ()):
                waiting.set()

    def watch(self, job_ids: Collection[str]) -> "Watch":
        """Returns a watch that misses no move from now on; use it as a context."""
        return Watch(self._waiting, frozenset(job_ids))


class Watch:
    """One waiter's view of a few Jobs."""

    def __init__(self, waiting: dict[str, set[asyncio.Event]], job_ids: frozenset[str]) -> None:
        self._waiting = waiting
        self._job_ids = job_ids
        self._moved = asyncio.Event()

    def __enter__(self) -> Self:
        """Begins to watch."""
        for job_id in self._job_ids:
            self._waiting.setdefault(job_id, set()).add(self._moved)
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves nothing behind."""
        for job_id in self._job_ids:
            watching = self._waiting[job_id]
            watching.discard(self._moved)
            if not watching:
                del self._waiting[job_id]

    async def next(self, within_s: float) -> None:
        """Returns once a Job moved since the last time, or after ``within_s`` seconds."""
        try:
            async with asyncio.timeout(max(0.0, within_s)):
                await self._moved.wait()
        except TimeoutError:
            return
        self._moved.clear()
