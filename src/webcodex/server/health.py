"""Says whether the process answers and whether its store does (M-59); no detail, no credential."""

import asyncio
from typing import Final

from sqlalchemy import select

from webcodex.core import limits
from webcodex.server import answers
from webcodex.storage.database import Database, StoreError, Transaction

_ALIVE: Final = answers.of(200, {"status": "ok"})
_READY: Final = answers.of(200, {"status": "ready"})
_UNAVAILABLE: Final = answers.of(503, {"status": "unavailable"})


class Health:
    """Answers ``/healthz`` and ``/readyz``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._probe: asyncio.Task[bool] | None = None

    async def alive(self) -> answers.Answer:
        """Returns 200: whoever reads it, the process answers."""
        return _ALIVE

    async def ready(self) -> answers.Answer:
        """Returns 200 when a store transaction succeeds within 2 s, else 503.

        Those who ask at the same time share one transaction, so asking costs the store nothing more.
        """
        if self._probe is None or self._probe.done():
            self._probe = asyncio.get_running_loop().create_task(self._store_answers())
        try:
            async with asyncio.timeout(limits.READY_WAIT_S):
                is_ready = await asyncio.shield(self._probe)
        except TimeoutError:
            is_ready = False
        return _READY if is_ready else _UNAVAILABLE

    async def _store_answers(self) -> bool:
        try:
            await self._database.write(_nothing)
        except StoreError:
            return False
        return True


def _nothing(tx: Transaction) -> None:
    tx.one(select(1))
