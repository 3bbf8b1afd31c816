"""Makes the changes of one edit, step by step (R-55, steps 3 to 5); undoing them is `edit_undo`'s.

Each step yields its name once its effect is made, so that an interruption between any two can be shown.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from webcodex.runner import (
    edit_failures,
    edit_intent,
    edit_plan,
    edit_request,
    edit_seats,
    exclusive_rename,
    own_files,
    path_form,
    private_files,
    root_walk,
    write_places,
)

_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""What a file system says that makes no further name for a file."""

_CHUNK_BYTES: Final = 1024 * 1024


def steps(
    root: int,
    intent: edit_intent.Intent,
    changes: Sequence[edit_plan.Change],
    own: own_files.OwnFiles,
    seats: edit_seats.Seats,
) -> Iterator[str]:
    """Makes every change, durably; `seats` says at any moment how far it came.

    Raises:
        RequestFailed: something was not as it was when the edits were checked.
        PathRefused: a path came to lead elsewhere.
        OSError: something could not be written.

    """
    yield from _make_folders(root, intent, own, seats)
    for target in intent.targets:
        seats.targets.append(_seat(root, target, own))
    pairs = list(zip(changes, seats.targets, strict=True))
    for change, seat in pairs:
        if change.content is not None:
            _write_temporary(seat, change)
            yield f"temporary {seat.target.path}"
    for change, seat in pairs:
        if change.before is not None:
            _keep_original(seat, change)
            yield f"backup {seat.target.path}"
    yield from _sync(seats)
    for index, (change, seat) in enumerate(pairs):
        _check_again(root, index, change, seat, own)
    yield "checked again"
    for _, seat in pairs:
        yield from _change(seat)
    yield from _sync(seats)


def _make_folders(
    root: int, intent: edit_intent.Intent, own: own_files.OwnFiles, seats: edit_seats.Seats
) -> Iterator[str]:
    for names in intent.made:
        with _told():
            parent = write_places.descend(root, names[:-1], own)
        try:
            os.mkdir(names[-1], dir_fd=parent)
        except FileExistsError as error:
            os.close(parent)
            raise path_form.PathRefused("path_changed") from error
        except OSError:
            os.close(parent)
            raise
        seats.folders.append(edit_seats.Folder(parent=parent, name=names[-1]))
        yield f"folder {'/'.join(names)}"


def _seat(root: int, target: edit_intent.Target, own: own_files.OwnFiles) -> edit_seats.Seat:
    with _told():
        directory = write_places.descend(root, target.names[:-1], own)
    return edit_seats.Seat(target=target, directory=directory)


def _write_temporary(seat: edit_seats.Seat, change: edit_plan.Change) -> None:
    assert seat.directory is not None
    assert change.content is not None
    status = change.place.status
    mode = 0o666 if status is None else 0o600
    descriptor = os.open(seat.target.temporary, _WRITE, mode, dir_fd=seat.directory)
    with os.fdopen(descriptor, "wb") as file:
        file.write(change.content)
        file.flush()
        if status is not None:
            _take_over(descriptor, status)
        os.fsync(descriptor)


def _take_over(descriptor: int, status: os.stat_result) -> None:
    """Gives a written file the mode bits of the old one, and its owner where this user may.

    The bits that lend the rights of an owner stay with that owner.
    """
    own, mode = os.fstat(descriptor), stat.S_IMODE(status.st_mode)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.fchown(descriptor, status.st_uid, status.st_gid)
        except PermissionError:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
    os.fchmod(descriptor, mode)


def _keep_original(seat: edit_seats.Seat, change: edit_plan.Change) -> None:
    name, backup, directory = seat.target.names[-1], seat.target.backup, seat.directory
    assert directory is not None
    expected = change.place.identity
    assert expected is not None
    try:
        os.link(name, backup, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError as error:
        raise path_form.PathRefused("path_changed") from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _copy(directory, name, backup, expected)
        return
    if write_places.identity_at(directory, backup) != expected:
        raise path_form.PathRefused("path_changed")


def _copy(directory: int, name: str, backup: str, expected: private_files.Identity) -> None:
    with _told():
        source = os.open(name, root_walk.READ, dir_fd=directory)
    try:
        status = os.fstat(source)
        if private_files.Identity.of(status) != expected:
            raise path_form.PathRefused("path_changed")
        with os.fdopen(os.open(backup, _WRITE, 0o600, dir_fd=directory), "wb") as file:
            while chunk := os.read(source, _CHUNK_BYTES):
                file.write(chunk)
            file.flush()
            _take_over(file.fileno(), status)
            os.fsync(file.fileno())
    finally:
        os.close(source)


def _check_again(
    root: int, index: int, change: edit_plan.Change, seat: edit_seats.Seat, own: own_files.OwnFiles
) -> None:
    """Refuses a target that is no longer what was checked (step 4)."""
    assert seat.directory is not None
    asked, seen = "/".join(change.place.asked), change.place.identity
    with _told(), write_places.look(root, asked, own, seen) as (place, directory):
        held = os.fstat(seat.directory)
        if place.names != change.place.names or place.way[: len(change.place.way)] != change.place.way:
            raise path_form.PathRefused("path_changed")
        if private_files.Identity.of(os.fstat(directory)) != private_files.Identity.of(held):
            raise path_form.PathRefused("path_changed")
        if place.status is None:
            if change.before is not None:
                raise _differs(index, change, "missing", None)
            return
        found, status = edit_plan.found_at(directory, place.names[-1])
    if change.before is None:
        raise _differs(index, change, "exists", found.sha256)
    if found.sha256 != change.before:
        raise _differs(index, change, "sha_mismatch", found.sha256)
    if private_files.Identity.of(status) != seen:
        raise path_form.PathRefused("path_changed")


def _differs(index: int, change: edit_plan.Change, reason: str, actual: str | None) -> Exception:
    failed = {"index": index, "path": change.path, "reason": reason, "actual_sha256": actual}
    return edit_failures.refused("edit_precondition_failed", {"failed": [failed]})


def _change(seat: edit_seats.Seat) -> Iterator[str]:
    """Makes the one change of a target; nothing that came to be there meanwhile is replaced by a new file."""
    target, directory = seat.target, seat.directory
    name = target.names[-1]
    seat.may_be_changed = True
    if target.op == edit_request.Op.DELETE:
        os.unlink(name, dir_fd=directory)
    elif target.op == edit_request.Op.CREATE:
        assert directory is not None
        try:
            is_linked = put_new(directory, target.temporary, name)
        except FileExistsError as error:
            seat.may_be_changed = False
            raise path_form.PathRefused("path_changed") from error
        if is_linked:
            yield f"linked {target.path}"
            os.unlink(target.temporary, dir_fd=directory)
    else:
        os.rename(target.temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    yield f"changed {target.path}"


def put_new(directory: int, name: str, new: str) -> bool:
    """Puts a file under a name where nothing stands; says whether it has its old name still.

    Raises:
        FileExistsError: something stands there.
        OSError: it cannot be put there.

    """
    try:
        os.link(name, new, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        exclusive_rename.rename(directory, name, new)
        return False
    return True


def _sync(seats: edit_seats.Seats) -> Iterator[str]:
    for folder in seats.folders:
        os.fsync(folder.parent)
    for directory in seats.directories():
        os.fsync(directory)
    yield "directories synced"


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turns what is suddenly missing or a link within the block into `path_changed`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise path_form.PathRefused("path_changed") from error
    except path_form.PathRefused as error:
        raise path_form.PathRefused("path_changed") from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise path_form.PathRefused("path_changed") from error
