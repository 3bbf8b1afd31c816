"""Holds the directory at a project path open for walking (R-11); must never open a path as a whole.

Every component is opened in the directory held before it, without following a link. A link is replaced by
its target's components, and the way is taken again from the root: whatever is swapped meanwhile, no name
outside the root is ever resolved. What is not regular file or directory is no place.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from webcodex.runner import own_files, path_form, private_files, spelling

MAX_HOPS: Final = 16
_MAX_STEPS: Final = 4096

_HELD: Final[int] = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_REASONS: Final = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_found",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.ENAMETOOLONG: "invalid_path",
    errno.ELOOP: "invalid_path",
    errno.EINVAL: "invalid_path",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A held directory, or one regular file in it; `shown` is how replies name the place."""

    directory: int
    file: str | None
    shown: tuple[str, ...]


@contextmanager
def hold(root: int, path: str, own: own_files.OwnFiles) -> Iterator[Place]:
    """Holds the place at a project path beneath an open root until the block ends; "" is the root itself.

    Raises:
        PathRefused: `invalid_path`, `sensitive_path`, `not_found`, `permission_denied` or `io_error`.

    """
    asked = path_form.parse(path) if path else ()
    if path_form.is_sensitive(asked):
        raise path_form.PathRefused("sensitive_path")
    try:
        way = _Way(root, own)
        names, is_file = way.resolve(asked)
        directory = way.open_directory(names[:-1] if is_file else names, spelling.LISTED)
    except OSError as error:
        raise path_form.PathRefused(_REASONS.get(error.errno or 0, "io_error")) from error
    try:
        shown = asked if way.hops else tuple(names)
        yield Place(directory=directory, file=names[-1] if is_file else None, shown=shown)
    finally:
        os.close(directory)


class _Way:
    """The way from the root to one place, without links once it is resolved."""

    def __init__(self, root: int, own: own_files.OwnFiles) -> None:
        self.hops = 0
        self._root = root
        self._device = os.fstat(root).st_dev
        self._own = own
        self._steps = 0

    def resolve(self, components: Sequence[str]) -> tuple[list[str], bool]:
        """Returns the true names that lead to the place, and whether it is a regular file."""
        names: list[str] = []
        pending = deque((name, False) for name in components)
        while pending:
            name, is_linked = pending.popleft()
            if name == "..":
                if not names:
                    raise path_form.PathRefused("invalid_path")
                names.pop()
                continue
            mode = self._look(names, name, is_linked=is_linked)
            if stat.S_ISLNK(mode):
                pending.extendleft((part, True) for part in reversed(self._target(names, name)))
                continue
            if stat.S_ISREG(mode) and not pending:
                return [*names, self._stored_name(names, name)], True
            if not stat.S_ISDIR(mode):
                raise path_form.PathRefused("not_found" if pending else "invalid_path")
            names.append(self._stored_name(names, name))
        return names, False

    def open_directory(self, names: Sequence[str], flags: int = _HELD) -> int:
        """Returns a descriptor of the directory that true names lead to."""
        here = os.open(".", flags if not names else _HELD, dir_fd=self._root)
        try:
            for number, name in enumerate(names, 1):
                self._count_step()
                below = os.open(name, flags if number == len(names) else _HELD, dir_fd=here)
                os.close(here)
                here = below
                self._check(here)
        except BaseException:
            os.close(here)
            raise
        return here

    def _check(self, directory: int) -> None:
        status = os.fstat(directory)
        if status.st_dev != self._device:
            raise path_form.PathRefused("invalid_path")
        if self._own.holds_directory(private_files.Identity.of(status)):
            raise path_form.PathRefused("sensitive_path")

    def _look(self, names: Sequence[str], name: str, *, is_linked: bool) -> int:
        """Returns the mode of what a directory holds under `name`; a link that leads nowhere is refused."""
        _refuse_sensitive(names, name)
        holder = self.open_directory(names)
        try:
            status = os.stat(name, dir_fd=holder, follow_symlinks=False)
        except FileNotFoundError:
            raise path_form.PathRefused("invalid_path" if is_linked else "not_found") from None
        finally:
            os.close(holder)
        if stat.S_ISREG(status.st_mode) and self._own.holds_file(status):
            raise path_form.PathRefused("sensitive_path")
        return status.st_mode

    def _target(self, names: Sequence[str], name: str) -> list[str]:
        self.hops += 1
        if self.hops > MAX_HOPS:
            raise path_form.PathRefused("invalid_path")
        holder = self.open_directory(names)
        try:
            target = os.readlink(name, dir_fd=holder)
        finally:
            os.close(holder)
        if not target or target.startswith("/"):
            raise path_form.PathRefused("invalid_path")
        return [part for part in target.split("/") if part not in {"", "."}]

    def _stored_name(self, names: Sequence[str], name: str) -> str:
        """Returns how the file system itself spells `name`, where it takes other spellings for the same."""
        holder = self.open_directory(names)
        try:
            status = os.stat(name, dir_fd=holder, follow_symlinks=False)
            true_name = spelling.stored_name(holder, name, status)
        finally:
            os.close(holder)
        _refuse_sensitive(names, true_name)
        return true_name

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise path_form.PathRefused("invalid_path")


def _refuse_sensitive(names: Sequence[str], name: str) -> None:
    if path_form.is_sensitive((*names[-1:], name)):
        raise path_form.PathRefused("sensitive_path")
