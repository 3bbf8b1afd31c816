"""Ends what a dead supervisor or a dead Runner left, and nothing else (R-65, R-66).

Every signal goes to a process that a durable record names by pid and start time, to what descends from it, or
to the group it led; never to a name.
"""

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final

from webcodex.protocol import fields
from webcodex.runner import supervisor

PATIENCE_S: Final = 10.0
"""How long the supervisors of a dead Runner are left to end their trees by themselves (R-66)."""

_HARD_WITHIN_S: Final = 2.0
_LOOK_S: Final = 0.05
_MAX_MARK: Final = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What is durable of one tree; the child's group has the number of its pid."""

    supervisor_pid: int
    supervisor_mark: str
    child_pid: int | None = None
    child_mark: str | None = None

    @classmethod
    def read(cls, source: fields.Fields) -> "Recorded":
        """Reads the record in `source`."""
        return cls(
            supervisor_pid=source.integer("supervisor_pid", least=1),
            supervisor_mark=source.text("supervisor_mark", most=_MAX_MARK, least=0),
            child_pid=source.integer_or_none("child_pid"),
            child_mark=source.text_or_none("child_mark", most=_MAX_MARK),
        )


def end_trees(trees: Sequence[Recorded], *, patience_s: float = PATIENCE_S) -> None:
    """Returns once nothing recorded of these trees is left, as far as a hard end can bring that about.

    Supervisors that still run are waited for up to `patience_s` in all, then ended, their descendants first.
    """
    until = monotonic() + patience_s
    while (lingering := _lingering(trees)) and monotonic() < until:
        sleep(_LOOK_S)
    for tree in lingering:
        _end_all(_below, tree)
        _end_all(_itself, tree)
    for tree in trees:
        end_group(tree)


def end_group(tree: Recorded) -> None:
    """Returns once the recorded child and its group are gone, as far as a hard end can bring that about."""
    _end_all(_group, tree)


def _end_all(select: Callable[[supervisor.Table, Recorded], list[int]], tree: Recorded) -> None:
    until = monotonic() + _HARD_WITHIN_S
    while (left := select(supervisor.process_table(), tree)) and monotonic() < until:
        for pid in left:
            supervisor.end_process(pid, signal.SIGKILL)
        sleep(_LOOK_S)


def _lingering(trees: Sequence[Recorded]) -> list[Recorded]:
    table = supervisor.process_table()
    return [tree for tree in trees if _itself(table, tree)]


def _itself(table: supervisor.Table, tree: Recorded) -> list[int]:
    found = table.get(tree.supervisor_pid)
    is_it = found is not None and not found.is_dead and found.mark == tree.supervisor_mark
    return [tree.supervisor_pid] if is_it else []


def _below(table: supervisor.Table, tree: Recorded) -> list[int]:
    return supervisor.descendants(table, tree.supervisor_pid) if _itself(table, tree) else []


def _group(table: supervisor.Table, tree: Recorded) -> list[int]:
    """Returns the group's members where its number is proven to be that group's still.

    While a group has a member its number is nobody else's. So a leader with another start time leads another
    group, and without a leader only members of this boot that are not older than it belong to it.
    """
    if not tree.child_pid or not tree.child_mark:
        return []
    members = [pid for pid, each in table.items() if each.group == tree.child_pid and not each.is_dead]
    leader = table.get(tree.child_pid)
    if leader is not None:
        return members if leader.mark == tree.child_mark else []
    return [pid for pid in members if _is_not_older(table[pid].mark, tree.child_mark)]


def _is_not_older(mark: str, than: str) -> bool:
    ticks, _, boot = mark.partition("@")
    than_ticks, _, than_boot = than.partition("@")
    return bool(boot) and boot == than_boot and int(ticks) >= int(than_ticks)
