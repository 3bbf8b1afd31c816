"""Opens a file beneath a project's root, and nothing else (R-11, R-12); must never open a path as a whole.

Every name is looked up in a directory that is already held open, without following a link; links are walked
here, name by name. Whatever is swapped meanwhile, no name outside the root is ever resolved.
"""

import enum
import errno
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from webcodex.runner import own_files, path_form, private_files, projects, spelling

MAX_HOPS: Final = 16
_MAX_STEPS: Final = 8192

_HELD: Final[int] = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_SWAPPED: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.EMLINK})
_ROOT_GONE: Final = _SWAPPED | {errno.EACCES, errno.EPERM}
_REASONS: Final = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_found",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.ENAMETOOLONG: "invalid_path",
    errno.ELOOP: "invalid_path",
    errno.EINVAL: "invalid_path",
    errno.ENXIO: "not_file",
    errno.ENODEV: "not_file",
}


class RootReplaced(Exception):
    """The project's root is no longer the directory that was registered (`project_root_replaced`)."""


class Links(enum.Enum):
    """What a walk does at a symbolic link: reads follow it beneath the root, changes never do (R-11)."""

    FOLLOW = enum.auto()
    REFUSE = enum.auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenFile:
    """A regular file held open for reading; `path` is how replies name it."""

    descriptor: int
    status: os.stat_result
    path: str


@contextmanager
def open_root(project: projects.Project) -> Iterator[int]:
    """Holds the project's root directory open until the block ends.

    Raises:
        RootReplaced: it is gone, or another directory than the registered one.
        OSError: it cannot be opened now.

    """
    try:
        descriptor = os.open(project.root, _HELD)
    except OSError as error:
        if error.errno in _ROOT_GONE:
            raise RootReplaced from error
        raise
    try:
        if private_files.Identity.of(os.fstat(descriptor)) != project.identity:
            raise RootReplaced
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_file(
    project: projects.Project, path: str, own: own_files.OwnFiles, links: Links = Links.FOLLOW
) -> Iterator[OpenFile]:
    """Holds the regular file at a project path open for reading until the block ends.

    Raises:
        PathRefused: `invalid_path`, `sensitive_path`, `not_found`, `not_file`, `permission_denied` or
            `io_error`.
        RootReplaced: the root is not the registered one.
        OSError: the root cannot be opened now.

    """
    asked = path_form.parse(path)
    if path_form.is_sensitive(asked):
        raise path_form.PathRefused("sensitive_path")
    with open_root(project) as root:
        walk = _Walk(root, own, links)
        try:
            descriptor = walk.open_final(asked)
        except OSError as error:
            raise path_form.PathRefused(_REASONS.get(error.errno or 0, "io_error")) from error
        finally:
            walk.close()
    try:
        shown = asked if walk.hops else walk.names
        yield OpenFile(descriptor=descriptor, status=os.fstat(descriptor), path="/".join(shown))
    finally:
        os.close(descriptor)


class _Walk:
    """One walk: the directory it stands in, and the true names from the root down to it."""

    def __init__(self, root: int, own: own_files.OwnFiles, links: Links) -> None:
        self.names: list[str] = []
        self.hops = 0
        self._root = root
        self._root_dev = os.fstat(root).st_dev
        self._own = own
        self._links = links
        self._here = os.dup(root)
        self._steps = 0
        self._pending: deque[tuple[str, bool]] = deque()

    def close(self) -> None:
        """Lets go of the directory the walk stands in."""
        os.close(self._here)

    def open_final(self, components: Iterable[str]) -> int:
        """Returns a descriptor of the regular file the components lead to."""
        self._pending = deque((name, False) for name in components)
        while self._pending:
            self._count_step()
            name, linked = self._pending.popleft()
            if name == "..":
                self._step_up()
                continue
            descriptor = self._step_into(name, linked=linked)
            if descriptor is not None:
                return descriptor
        raise path_form.PathRefused("not_file")

    def _step_into(self, name: str, *, linked: bool) -> int | None:
        self._refuse_sensitive(name)
        try:
            status = os.stat(name, dir_fd=self._here, follow_symlinks=False)
        except FileNotFoundError:
            raise path_form.PathRefused("invalid_path" if linked else "not_found") from None
        if stat.S_ISLNK(status.st_mode):
            self._follow(name)
            return None
        true_name = spelling.stored_name(self._here, name, status)
        self._refuse_sensitive(true_name)
        try:
            if stat.S_ISDIR(status.st_mode):
                self._step_down(name, true_name)
                return None
            return self._open_file(name, true_name, status)
        except OSError as error:
            if error.errno not in _SWAPPED:
                raise
            self._pending.appendleft((name, linked))  # swapped since it was looked at: look again
            return None

    def _follow(self, name: str) -> None:
        self.hops += 1
        if self._links is Links.REFUSE or self.hops > MAX_HOPS:
            raise path_form.PathRefused("invalid_path")
        target = os.readlink(name, dir_fd=self._here)
        if not target or target.startswith("/"):
            raise path_form.PathRefused("invalid_path")
        parts = [part for part in target.split("/") if part not in {"", "."}]
        self._pending.extendleft((part, True) for part in reversed(parts))

    def _step_down(self, name: str, true_name: str) -> None:
        below = os.open(name, _HELD, dir_fd=self._here)
        os.close(self._here)
        self._here = below
        self.names.append(true_name)
        status = os.fstat(below)
        if status.st_dev != self._root_dev:
            raise path_form.PathRefused("invalid_path")
        if self._own.holds_directory(private_files.Identity.of(status)):
            raise path_form.PathRefused("sensitive_path")

    def _step_up(self) -> None:
        if not self.names:
            raise path_form.PathRefused("invalid_path")
        way_back = self.names[:-1]
        os.close(self._here)
        self._here = os.dup(self._root)
        self.names = []
        for name in way_back:
            self._count_step()
            self._step_down(name, name)

    def _open_file(self, name: str, true_name: str, status: os.stat_result) -> int:
        if self._pending:
            raise path_form.PathRefused("not_found")
        if not stat.S_ISREG(status.st_mode):
            raise path_form.PathRefused("not_file")
        descriptor = os.open(name, _READ, dir_fd=self._here)
        try:
            self._check_opened(os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        self.names.append(true_name)
        return descriptor

    def _check_opened(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise path_form.PathRefused("not_file")
        if self._own.holds_file(status):
            raise path_form.PathRefused("sensitive_path")

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise path_form.PathRefused("invalid_path")

    def _refuse_sensitive(self, name: str) -> None:
        if path_form.is_sensitive((*self.names[-1:], name)):
            raise path_form.PathRefused("sensitive_path")
