"""Finds where an edit leads, without any link in the way (R-11, write column); must never change anything.

Every name is looked up in a directory that is already held open. What is found can be compared with a second
look: the true names, and which directories and which file they were.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from webcodex.runner import own_files, path_form, private_files, spelling

READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK})


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a path leads: `names` as stored, as far as they exist; `way` has the directories that exist."""

    asked: tuple[str, ...]
    names: tuple[str, ...]
    way: tuple[private_files.Identity, ...]
    status: os.stat_result | None
    """What stands at the end of `names`; None when nothing does."""

    @property
    def missing(self) -> tuple[tuple[str, ...], ...]:
        """The directories that would have to be made, each by its names from the root, outermost first."""
        return tuple(self.names[:depth] for depth in range(len(self.way) + 1, len(self.names)))

    @property
    def identity(self) -> private_files.Identity | None:
        """Which file stands there; None when nothing does."""
        return None if self.status is None else private_files.Identity.of(self.status)


@contextlib.contextmanager
def look(
    root: int, path: str, own: own_files.OwnFiles, seen: private_files.Identity | None = None
) -> Iterator[tuple[Place, int]]:
    """Holds the innermost existing directory of a path until the block ends, and says where the path leads.

    A file of the identity `seen` was found before not to be the Runner's own.

    Raises:
        PathRefused: `invalid_path`, `sensitive_path`, `not_file`, or `not_found` beneath a file.
        OSError: a directory cannot be opened.

    """
    asked = path_form.parse(path)
    if path_form.is_sensitive(asked):
        raise path_form.PathRefused("sensitive_path")
    if not asked:
        raise path_form.PathRefused("not_file")
    walk = _Walk(root, own, seen)
    try:
        yield walk.to(asked), walk.here
    finally:
        os.close(walk.here)


def descend(root: int, names: Sequence[str], own: own_files.OwnFiles) -> int:
    """Returns a descriptor of the directory that true names lead to, over no link.

    Raises:
        PathRefused: `invalid_path` or `sensitive_path`.
        OSError: it is not there, no directory, or cannot be opened.

    """
    walk = _Walk(root, own)
    try:
        for name in names:
            walk.step_down(name, name)
    except BaseException:
        os.close(walk.here)
        raise
    return walk.here


def identity_at(directory: int, name: str) -> private_files.Identity | None:
    """Returns which file a name stands for, links not followed; None when nothing is there."""
    try:
        return private_files.Identity.of(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None


class _Walk:
    """One walk: the directory it stands in, and how it came there."""

    def __init__(
        self, root: int, own: own_files.OwnFiles, seen: private_files.Identity | None = None
    ) -> None:
        self.names: list[str] = []
        self.way: list[private_files.Identity] = []
        self._own = own
        self._seen = seen
        self._device = os.fstat(root).st_dev
        self.here = os.open(".", spelling.LISTED, dir_fd=root)

    def to(self, asked: tuple[str, ...]) -> Place:
        """Stands in the innermost existing directory, and returns where the path leads."""
        status: os.stat_result | None = None
        for number, name in enumerate(asked, 1):
            status = self._status(name)
            if status is None:
                self.names += asked[number - 1 :]
                break
            true_name = spelling.stored_name(self.here, name, status)
            if path_form.is_sensitive((*self.names[-1:], true_name)):
                raise path_form.PathRefused("sensitive_path")
            if number < len(asked):
                self._enter(name, true_name, status)
            else:
                self._check_file(status)
                self.names.append(true_name)
        return Place(asked=asked, names=tuple(self.names), way=tuple(self.way), status=status)

    def step_down(self, name: str, true_name: str) -> None:
        """Stands in the directory `name`."""
        below = os.open(name, spelling.LISTED, dir_fd=self.here)
        os.close(self.here)
        self.here = below
        status = os.fstat(below)
        if status.st_dev != self._device:
            raise path_form.PathRefused("invalid_path")
        if self._own.holds_directory(private_files.Identity.of(status)):
            raise path_form.PathRefused("sensitive_path")
        self.names.append(true_name)
        self.way.append(private_files.Identity.of(status))

    def _status(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.here, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _enter(self, name: str, true_name: str, status: os.stat_result) -> None:
        if stat.S_ISLNK(status.st_mode):
            raise path_form.PathRefused("invalid_path")
        if not stat.S_ISDIR(status.st_mode):
            raise path_form.PathRefused("not_found")
        try:
            self.step_down(name, true_name)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            raise path_form.PathRefused("path_changed") from error

    def _check_file(self, status: os.stat_result) -> None:
        if stat.S_ISLNK(status.st_mode):
            raise path_form.PathRefused("invalid_path")
        if not stat.S_ISREG(status.st_mode):
            raise path_form.PathRefused("not_file")
        if private_files.Identity.of(status) != self._seen and self._own.holds_file(status):
            raise path_form.PathRefused("sensitive_path")
