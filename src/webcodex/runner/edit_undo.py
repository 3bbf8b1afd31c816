"""Puts the targets of one edit back, newest first, as far as nobody else has changed them (R-55).

It goes by the bytes it finds, so it may be interrupted and begun again. What is neither as before nor as the
edit made it is left as it is, with its backup.
"""

import contextlib
import enum
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from webcodex.runner import edit_apply, edit_plan, edit_seats, path_form, write_places


class State(enum.StrEnum):
    """What stands at a target's path once the undo is over."""

    OLD = "old"
    NEW = "new"
    ABSENT = "absent"
    OTHER = "other"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How one target ended; `backup` is the path where its original was left."""

    path: str
    state: State
    backup: str | None
    is_left: bool
    """It is not as before, and the edit may be why."""

    def shown(self) -> dict[str, Any]:
        """Returns the outcome as R-56 reports it."""
        return {"path": self.path, "state": self.state.value, "backup": self.backup}


def steps(seats: edit_seats.Seats, outcomes: list[Outcome]) -> Iterator[str]:
    """Puts back what can be, and adds an outcome for each target in the order of the edits.

    Raises:
        OSError: what the edit made could not be removed, or not durably; the undo has to be begun again.

    """
    for seat in reversed(seats.targets):
        outcomes.insert(0, _undone(seat))
        yield f"undone {seat.target.path}"
    for folder in reversed(seats.folders):
        with contextlib.suppress(OSError):  # others may have put something into it
            os.rmdir(folder.name, dir_fd=folder.parent)
        yield f"folder {folder.name} removed"
    for directory in seats.directories():
        os.fsync(directory)
    for folder in seats.folders:
        os.fsync(folder.parent)
    yield "undo synced"


def sweep(seats: edit_seats.Seats) -> Iterator[str]:
    """Removes every backup once its edit is committed (step 7); one that is gone already is fine.

    Raises:
        OSError: a backup could not be removed.

    """
    for seat in seats.targets:
        if seat.directory is not None and seat.target.before is not None:
            _remove(seat.directory, seat.target.backup)
            yield f"swept {seat.target.path}"
    for directory in seats.directories():
        os.fsync(directory)


def _undone(seat: edit_seats.Seat) -> Outcome:
    target = seat.target
    state = _state(seat)
    if seat.directory is not None:
        _remove(seat.directory, target.temporary)
        if state is State.NEW and seat.may_be_changed and _put_back(seat):
            state = State.OLD
    if state is State.OLD or not seat.may_be_changed:
        if seat.directory is not None:
            _remove(seat.directory, target.backup)
        return Outcome(path=target.path, state=state, backup=None, is_left=False)
    backup = target.backup_path if _has_backup(seat) else None
    if state is State.NEW and target.after is None:
        state = State.ABSENT
    return Outcome(path=target.path, state=state, backup=backup, is_left=True)


def _state(seat: edit_seats.Seat) -> State:
    """Returns what stands there; `OLD` and `NEW` include absence where that is what they mean."""
    if seat.is_blocked:
        return State.UNREADABLE
    try:
        found = None if seat.directory is None else _sha256(seat.directory, seat.target.names[-1])
    except (path_form.PathRefused, edit_plan.TooLong):
        return State.OTHER
    except OSError as error:
        return State.OTHER if error.errno == errno.ELOOP else State.UNREADABLE
    if found == seat.target.before:
        return State.OLD
    if found == seat.target.after:
        return State.NEW
    return State.ABSENT if found is None else State.OTHER


def _put_back(seat: edit_seats.Seat) -> bool:
    """Says whether the original stands there again."""
    target, directory = seat.target, seat.directory
    assert directory is not None
    name = target.names[-1]
    try:
        if target.before is None:
            os.unlink(name, dir_fd=directory)
            return True
        if _sha256(directory, target.backup) != target.before:
            return False
        if target.after is None:
            edit_apply.put_new(directory, target.backup, name)
        else:
            os.rename(target.backup, name, src_dir_fd=directory, dst_dir_fd=directory)
    except (OSError, path_form.PathRefused, edit_plan.TooLong):
        return False
    return True


def _has_backup(seat: edit_seats.Seat) -> bool:
    if seat.directory is None:
        return False
    try:
        os.stat(seat.target.backup, dir_fd=seat.directory, follow_symlinks=False)
    except OSError:
        return False
    return True


def _sha256(directory: int, name: str) -> str | None:
    """Returns the hash of what stands under a name; None when nothing does."""
    try:
        return edit_plan.found_at(directory, name)[0].sha256
    except FileNotFoundError:
        return None


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:
        if write_places.identity_at(directory, name) is not None:  # read-only refuses what is not there, too
            raise
