"""Remembers how often each Project may have been changed, and which change calls have no end yet (S-42)."""

from typing import Final

from sqlalchemy import bindparam, delete, insert, select, update

from webcodex.storage import schema_evidence
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
    update(_counters)
    .where(_counters.c.project == bindparam("of"))
    .values(counter=_counters.c.counter + bindparam("by"))
)


def begin(tx: Transaction, *, call_id: str, project: str, at: int) -> None:
    """Leaves the call stored as a change whose end is not known; ``at`` is Unix s."""
    tx.change(_BEGIN, {"call_id": call_id, "project": project, "started_at": at})


def end(tx: Transaction, *, call_id: str, raises: bool) -> None:
    """Leaves the call ended; its Project's counter is one higher when the call may have changed it.

    A call that has ended already raises nothing again.
    """
    begun = tx.one(_PROJECT, {"call_id": call_id})
    if begun is None:
        return
    tx.change(_END, {"id": call_id})
    if raises:
        _raise(tx, begun.project, by=1)


def counter(tx: Transaction, project: str) -> int:
    """Returns how often the Project may have been changed; 0 for one that never was."""
    row = tx.one(_COUNTER, {"project": project})
    return 0 if row is None else int(row.counter)


def settle_unfinished(tx: Transaction) -> int:
    """Ends every change call without an end as one that may have changed its Project; returns how many.

    Right only while no call runs, as when the Server starts.
    """
    unfinished = tx.all(select(_open.c.call_id).order_by(_open.c.project, _open.c.call_id))
    for row in unfinished:
        end(tx, call_id=row.call_id, raises=True)
    return len(unfinished)


def _raise(tx: Transaction, project: str, *, by: int) -> None:
    if tx.one(_LOCKED, {"project": project}) is None:
        tx.change(_ADD, {"project": project, "counter": by})
    else:
        tx.change(_RAISE, {"of": project, "by": by})
