"""Tells a Server that starts whether others serve the same store at this moment.

Each connection to PostgreSQL holds a shared lock on its Server's number for as long as it is open, so a
Server that died is gone with its connections. SQLite has one Server by the lock on its data directory.
"""

from typing import Final

from sqlalchemy import text

from webcodex.storage.database import Transaction

POSTGRES: Final = "postgresql"
_SERVING: Final = 0x77637376
"""The first half of each lock's key; it spells wcsv."""

LEAVE: Final = "SELECT pg_advisory_unlock_all()"
"""What a connection says before it closes, since its end may be noticed a little later."""

_OTHERS: Final = text(
    """
    WITH serving AS (
        SELECT pid, objid FROM pg_locks
        WHERE locktype = 'advisory' AND objsubid = 2 AND classid = :serving
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
    SELECT 1 FROM serving WHERE objid NOT IN (SELECT objid FROM serving WHERE pid = pg_backend_pid()) LIMIT 1
    """
)


def hold(number: int) -> str:
    """Returns what a new connection to PostgreSQL says for the Server of that number, 0 to 2**31 - 1."""
    return f"SELECT pg_advisory_lock_shared({_SERVING}, {number})"


def is_alone(tx: Transaction) -> bool:
    """Says whether no other Server serves this store; one that lost every connection is not seen."""
    return tx.engine != POSTGRES or tx.one(_OTHERS, {"serving": _SERVING}) is None
