"""Counts the short references of each authority group (S-02, C-16)."""

from typing import Final, Literal

from sqlalchemy import insert, select, update

from webcodex.storage import schema
from webcodex.storage.database import Transaction

_FIRST: Final = {"last_session_ref": 0, "last_project_ref": 0}


def next_number(
    tx: Transaction, authority: str, counter: Literal["last_session_ref", "last_project_ref"]
) -> int:
    """Returns the group's next number, from 1, never given twice."""
    table = schema.authorities
    column = table.c[counter]
    row = tx.one(select(column).where(table.c.authority == authority).with_for_update())
    if row is None:
        tx.change(insert(table), {"authority": authority, **_FIRST})
    number = 1 if row is None else int(row[0]) + 1
    tx.change(update(table).where(table.c.authority == authority).values({counter: number}))
    return number
