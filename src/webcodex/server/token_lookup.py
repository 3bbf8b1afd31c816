"""Finds who holds a token, by its hash, on a connection of the event loop's own.

Nothing is kept between two requests, so each sees every change, also one that another process made (C-08).
One indexed SELECT costs less here than handing it to a thread, and in WAL it never waits for the writer.
"""

import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import bindparam, select
from sqlalchemy.dialects import sqlite

from webcodex.core import limits
from webcodex.storage import schema
from webcodex.storage.database import StoreUnavailable


class Holder(NamedTuple):
    """One stored token and its user, whatever their state; times in Unix s, scopes as stored."""

    token_id: str
    kind: str
    scopes: str
    client_id: str | None
    last_used_at: int | None
    revoked_at: int | None
    expires_at: int | None
    user_id: str
    username: str
    role: str
    disabled_at: int | None

    def is_valid(self, now: int) -> bool:
        """Says whether the token may still be used at ``now`` (C-08)."""
        expired = self.expires_at is not None and self.expires_at <= now
        return not expired and self.revoked_at is None and self.disabled_at is None


_tokens: Final = schema.tokens.c
_users: Final = schema.users.c
_BY_HASH: Final = str(
    select(
        _tokens.token_id,
        _tokens.kind,
        _tokens.scopes,
        _tokens.allowed_client_id,
        _tokens.last_used_at,
        _tokens.revoked_at,
        _tokens.expires_at,
        _users.user_id,
        _users.username,
        _users.role,
        _users.disabled_at,
    )
    .join(schema.users, _users.user_id == _tokens.user_id)
    .where(_tokens.token_hash == bindparam("token_hash"))
    .compile(dialect=sqlite.dialect())
)


class TokenLookup:
    """Reads the tokens of one SQLite file; used on one thread."""

    def __init__(self, path: Path) -> None:
        """Opens ``path``, which is a database at the present schema."""
        self._connection = sqlite3.connect(
            path, isolation_level=None, timeout=limits.STORE_LOCK_WAIT_S, check_same_thread=False
        )
        self._connection.execute("PRAGMA query_only=ON").close()

    def find(self, token_hash: str) -> Holder | None:
        """Returns the holder of the token with that hash, as stored at this moment, or none.

        Raises:
            StoreUnavailable: the file could not be read.

        """
        try:
            rows = self._connection.execute(_BY_HASH, (token_hash,)).fetchall()
        except sqlite3.Error:
            raise StoreUnavailable("the tokens cannot be read") from None
        return Holder._make(rows[0]) if rows else None

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()
