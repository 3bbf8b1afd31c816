"""Remembers users and their tokens; a token is kept only as its hash (C-08)."""

import json
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, func, insert, select, update

from webcodex.core import limits
from webcodex.storage import schema
from webcodex.storage.database import Transaction
from webcodex.storage.statements import Prepared, Row


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """One user of the installation."""

    user_id: str
    username: str
    display_name: str | None
    role: str
    disabled_at: int | None
    created_at: int
    updated_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One credential; ``kind`` is ``pat``, ``agent`` or ``account``."""

    token_id: str
    user_id: str
    kind: str
    name: str
    token_hash: str
    token_prefix: str
    scopes: tuple[str, ...]
    allowed_client_id: str | None
    created_at: int
    last_used_at: int | None
    revoked_at: int | None
    expires_at: int | None


_users: Final = schema.users
_tokens: Final = schema.tokens
_BY_HASH: Final = Prepared(select(_tokens).where(_tokens.c.token_hash == bindparam("token_hash")))
_BY_NAME: Final = Prepared(select(_users).where(_users.c.username == bindparam("username")))
_BY_ID: Final = Prepared(select(_users).where(_users.c.user_id == bindparam("user_id")))


def add_user(tx: Transaction, user: User) -> bool:
    """Stores ``user`` unless its name is taken; says whether it did."""
    if user_named(tx, user.username) is not None:
        return False
    tx.change(insert(_users), _fields(user))
    return True


def user_named(tx: Transaction, username: str) -> User | None:
    """Returns the user of that name, or none."""
    row = tx.one(_BY_NAME, {"username": username})
    return None if row is None else _user(row)


def user(tx: Transaction, user_id: str) -> User | None:
    """Returns the user of that id, or none."""
    row = tx.one(_BY_ID, {"user_id": user_id})
    return None if row is None else _user(row)


def users(tx: Transaction) -> list[User]:
    """Returns the first users by name, at most ``limits.USERS_LISTED``."""
    return [
        _user(row) for row in tx.all(select(_users).order_by(_users.c.username).limit(limits.USERS_LISTED))
    ]


def add_token(tx: Transaction, token: Token) -> None:
    """Stores ``token``."""
    tx.change(insert(_tokens), {**_fields(token), "scopes": json.dumps(token.scopes)})


def token_of_hash(tx: Transaction, token_hash: str) -> tuple[Token, User] | None:
    """Returns the token with that hash and its user, whatever their state, or none."""
    row = tx.one(_BY_HASH, {"token_hash": token_hash})
    owner = None if row is None else user(tx, row.user_id)
    return None if row is None or owner is None else (_token(row), owner)


def tokens(tx: Transaction, user_id: str, kinds: tuple[str, ...]) -> list[Token]:
    """Returns the newest tokens of a user, at most ``limits.TOKENS_LISTED``."""
    listed = (
        select(_tokens)
        .where(_tokens.c.user_id == user_id, _tokens.c.kind.in_(kinds))
        .order_by(_tokens.c.created_at.desc(), _tokens.c.token_id)
        .limit(limits.TOKENS_LISTED)
    )
    return [_token(row) for row in tx.all(listed)]


def token(tx: Transaction, user_id: str, token_id: str, kinds: tuple[str, ...]) -> Token | None:
    """Returns that token of that user, or none."""
    row = tx.one(
        select(_tokens).where(
            _tokens.c.token_id == token_id, _tokens.c.user_id == user_id, _tokens.c.kind.in_(kinds)
        )
    )
    return None if row is None else _token(row)


def revoke(tx: Transaction, token_id: str, revoked_at: int) -> None:
    """Marks a token revoked; the first time stays (M-53)."""
    tx.change(
        update(_tokens)
        .where(_tokens.c.token_id == token_id, _tokens.c.revoked_at.is_(None))
        .values(revoked_at=revoked_at)
    )


def touch(tx: Transaction, token_id: str, now: int) -> None:
    """Notes that a token was used (C-08)."""
    tx.change(update(_tokens).where(_tokens.c.token_id == token_id).values(last_used_at=now))


def owner_of_client(tx: Transaction, client_id: str) -> str | None:
    """Returns the user whose Runner token, revoked or not, names ``client_id`` (M-58)."""
    row = tx.one(
        select(func.min(_tokens.c.user_id)).where(
            _tokens.c.kind == "agent", _tokens.c.allowed_client_id == client_id
        )
    )
    return None if row is None else row[0]


def _fields(record: User | Token) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__slots__}


def _user(row: Row) -> User:
    return User(
        user_id=row.user_id,
        username=row.username,
        display_name=row.display_name,
        role=row.role,
        disabled_at=row.disabled_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _token(row: Row) -> Token:
    return Token(
        token_id=row.token_id,
        user_id=row.user_id,
        kind=row.kind,
        name=row.name,
        token_hash=row.token_hash,
        token_prefix=row.token_prefix,
        scopes=tuple(json.loads(row.scopes)),
        allowed_client_id=row.allowed_client_id,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
        expires_at=row.expires_at,
    )
