"""Remembers how often each Project may have been changed, and which change calls have no end yet (S-42)."""

from typing import Final

from sqlalchemy import bindparam, delete, insert, select, update

from webcodex.storage import presence, schema_evidence
from webcodex.storage.database import Transaction
from webcodex.storage.statements import Prepared

_counters: Final = schema_evidence.project_changes
_open: Final = schema_evidence.open_changes
_COUNTER: Final = Prepared(select(_counters.c.counter).where(_counters.c.project == bindparam("project")))
_LOCKED: Final = Prepared(
    select(_counters.c.counter).where(_counters.c.project == bindparam("project")).with_for_update()
)
_BEGIN: Final = Prepared(insert(_open))
_PROJECT: Final = Prepared(select(_open.c.project).where(_open.c.call_id == bindparam("call_id")))
_END: Final = Prepared(delete(_open).where(_open.c.call_id == bindparam("id")))
_ADD: Final = Prepared(insert(_counters))
_RAISE: Final = Prepared(
    update(_counters).where(_counters.c.project == bindparam("of")).values(counter=_counters.c.counter + 1)
)


def begin(tx: Transaction, *, call_id: str, project: str, at: int) -> None:
    """Leaves the call stored as a change whose end is not known; ``at`` is Unix s."""
    tx.change(_BEGIN, {"call_id": call_id, "project": project, "started_at": at})


def end(tx: Transaction, *, call_id: str, project: str, raises: bool) -> None:
    """Leaves the call ended; its Project's counter is one higher when the call may have changed it.

    It is raised also when the start of another Server has raised it for this call: a validation may have
    begun in between.
    """
    tx.change(_END, {"id": call_id})
    if raises:
        _raise(tx, project)


def end_unknown(tx: Transaction, *, call_id: str) -> None:
    """Leaves a call whose end was not stored ended and counted; one that has ended is not counted again."""
    begun = tx.one(_PROJECT, {"call_id": call_id})
    if begun is not None:
        end(tx, call_id=call_id, project=begun.project, raises=True)


def counter(tx: Transaction, project: str) -> int:
    """Returns how often the Project may have been changed; 0 for one that never was."""
    row = tx.one(_COUNTER, {"project": project})
    return 0 if row is None else int(row.counter)


def settle_unfinished(tx: Transaction) -> int:
    """Counts every change call without an end as one that may have changed its Project; returns how many.

    Right only while no call of this Server runs. Beside other Servers the calls stay open, since any may be
    one of theirs.
    """
    is_alone = presence.is_alone(tx)
    unfinished = tx.all(select(_open.c.call_id, _open.c.project).order_by(_open.c.project, _open.c.call_id))
    for row in unfinished:
        _raise(tx, row.project)
        if is_alone:
            tx.change(_END, {"id": row.call_id})
    return len(unfinished)


def _raise(tx: Transaction, project: str) -> None:
    if tx.one(_LOCKED, {"project": project}) is None:
        tx.change(_ADD, {"project": project, "counter": 1})
    else:
        tx.change(_RAISE, {"of": project})
