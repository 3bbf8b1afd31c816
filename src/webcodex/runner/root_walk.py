"""Walks from a project's root to where a path leads (R-11, R-13); must never open a path as a whole.

Every name is looked up in a directory that is already held open, without following a link; links are walked
here, name by name. Whatever is swapped meanwhile, no name outside the root is ever resolved.
"""

import enum
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
_MAX_STEPS: Final = 8192

HELD: Final[int] = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

SWAPPED: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.EMLINK})
"""What opening a name says that has stood for something else a moment ago."""

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


class Links(enum.Enum):
    """What a walk does at a symbolic link: reads follow it beneath the root, changes never do (R-11)."""

    FOLLOW = enum.auto()
    REFUSE = enum.auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """A name that leads to no directory: where a walk ends that does not end in one."""

    name: str
    """How the file system itself spells it; as asked where nothing is there."""

    status: os.stat_result | None
    """What stands there; None when nothing does."""

    rest: tuple[str, ...]
    """The names asked for beneath it."""


def components(path: str) -> tuple[str, ...]:
    """Returns the components of a project path that may be walked.

    Raises:
        PathRefused: `invalid_path` or `sensitive_path`.

    """
    asked = path_form.parse(path)
    if path_form.is_sensitive(asked):
        raise path_form.PathRefused("sensitive_path")
    return asked


def refusal(error: OSError) -> path_form.PathRefused:
    """Returns the refusal of a path for what the file system says of it."""
    return path_form.PathRefused(_REASONS.get(error.errno or 0, "io_error"))


@contextmanager
def begun(root: int, own: own_files.OwnFiles, links: Links) -> Iterator["Walk"]:
    """Yields a walk that stands in the root, and lets go of its directory when the block ends."""
    walk = Walk(root, own, links)
    try:
        yield walk
    finally:
        os.close(walk.here)


class Walk:
    """One walk: the directory it stands in, held open as `here`, and how it came there."""

    def __init__(self, root: int, own: own_files.OwnFiles, links: Links) -> None:
        self.names: list[str] = []
        """The true names from the root down to `here`."""
        self.way: list[private_files.Identity] = []
        """Which directories those are."""
        self.hops = 0
        self._root = root
        self._device = os.fstat(root).st_dev
        self._own = own
        self._links = links
        self._steps = 0
        self.here = os.dup(root)

    def to(self, asked: Sequence[str]) -> End | None:
        """Stands in the last directory on the way; returns what is asked for in it, None for itself.

        Raises:
            PathRefused: `invalid_path` or `sensitive_path`.
            OSError: a name cannot be looked at.

        """
        pending = deque((name, False) for name in asked)
        while pending:
            self._count_step()
            name, is_linked = pending.popleft()
            if name == "..":
                self._step_up()
                continue
            self._refuse_sensitive(name)
            try:
                status = os.stat(name, dir_fd=self.here, follow_symlinks=False)
            except FileNotFoundError:
                if is_linked:
                    raise path_form.PathRefused("invalid_path") from None
                return End(name=name, status=None, rest=tuple(rest for rest, _ in pending))
            if stat.S_ISLNK(status.st_mode):
                pending.extendleft((part, True) for part in reversed(self._target(name)))
                continue
            true_name = spelling.stored_name(self.here, name, status)
            self._refuse_sensitive(true_name)
            if not stat.S_ISDIR(status.st_mode):
                return End(name=true_name, status=status, rest=tuple(rest for rest, _ in pending))
            try:
                self.step_down(name, true_name)
            except OSError as error:
                if error.errno not in SWAPPED:
                    raise
                pending.appendleft((name, is_linked))  # swapped since it was looked at: look again
        return None

    def step_down(self, name: str, true_name: str) -> None:
        """Stands in the directory `name`, which is no link.

        Raises:
            PathRefused: `invalid_path` or `sensitive_path`.
            OSError: it is not there, no directory, or cannot be opened.

        """
        below = os.open(name, HELD, dir_fd=self.here)
        os.close(self.here)
        self.here = below
        status = os.fstat(below)
        if status.st_dev != self._device:
            raise path_form.PathRefused("invalid_path")
        identity = private_files.Identity.of(status)
        if self._own.holds_directory(identity):
            raise path_form.PathRefused("sensitive_path")
        self.names.append(true_name)
        self.way.append(identity)

    def _step_up(self) -> None:
        if not self.names:
            raise path_form.PathRefused("invalid_path")
        way_back = self.names[:-1]
        root = os.dup(self._root)
        os.close(self.here)
        self.here = root
        self.names.clear()
        self.way.clear()
        for name in way_back:
            self._count_step()
            self.step_down(name, name)

    def _target(self, name: str) -> list[str]:
        """Returns the components of a link's target."""
        self.hops += 1
        if self._links is Links.REFUSE or self.hops > MAX_HOPS:
            raise path_form.PathRefused("invalid_path")
        target = os.readlink(name, dir_fd=self.here)
        if not target or target.startswith("/"):
            raise path_form.PathRefused("invalid_path")
        return [part for part in target.split("/") if part not in {"", "."}]

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise path_form.PathRefused("invalid_path")

    def _refuse_sensitive(self, name: str) -> None:
        if path_form.is_sensitive((*self.names[-1:], name)):
            raise path_form.PathRefused("sensitive_path")
