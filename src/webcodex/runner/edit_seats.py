"""Holds the directories that one edit works in, live or after an interruption; must never change a file."""

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from webcodex.runner import edit_intent, own_files, path_form, write_places

_IN_THE_WAY: Final = frozenset({errno.ENOTDIR, errno.ELOOP, errno.EMLINK})


@dataclass(kw_only=True, slots=True)
class Seat:
    """One target and its directory, held open; None where nothing leads there any more."""

    target: edit_intent.Target
    directory: int | None
    is_blocked: bool = False
    """A link or a file stands in the way, so nothing can be said about the target."""

    may_be_changed: bool = False
    """The change of the target was begun, or it is unknown how far its edit came."""


@dataclass(kw_only=True, slots=True)
class Folder:
    """One directory that the edit made, or may have made, by its name in its parent, held open."""

    parent: int
    name: str


@dataclass(kw_only=True, slots=True)
class Seats:
    """What one edit holds open."""

    targets: list[Seat] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)

    def close(self) -> None:
        """Lets everything go."""
        for seat in self.targets:
            if seat.directory is not None:
                os.close(seat.directory)
        for folder in self.folders:
            os.close(folder.parent)
        self.targets.clear()
        self.folders.clear()

    def directories(self) -> Iterator[int]:
        """Yields the directory of each target, each directory once."""
        seen: set[tuple[int, int]] = set()
        for seat in self.targets:
            if seat.directory is not None:
                status = os.fstat(seat.directory)
                if (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    yield seat.directory


@contextlib.contextmanager
def found_again(root: int, intent: edit_intent.Intent, own: own_files.OwnFiles) -> Iterator[Seats]:
    """Holds what an interrupted edit worked in, as far as its names still lead there without a link.

    Raises:
        OSError: a directory cannot be opened now.

    """
    seats = Seats()
    try:
        for target in intent.targets:
            seats.targets.append(_found(root, target, own))
        for names in intent.made:
            with contextlib.suppress(path_form.PathRefused):
                parent = _directory(root, names[:-1], own)
                if parent is not None:
                    seats.folders.append(Folder(parent=parent, name=names[-1]))
        yield seats
    finally:
        seats.close()


def _found(root: int, target: edit_intent.Target, own: own_files.OwnFiles) -> Seat:
    try:
        directory = _directory(root, target.names[:-1], own)
    except path_form.PathRefused:
        return Seat(target=target, directory=None, is_blocked=True, may_be_changed=True)
    return Seat(target=target, directory=directory, may_be_changed=True)


def _directory(root: int, names: tuple[str, ...], own: own_files.OwnFiles) -> int | None:
    try:
        return write_places.descend(root, names, own)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _IN_THE_WAY:
            raise path_form.PathRefused("invalid_path") from error
        raise
