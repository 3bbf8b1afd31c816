"""Opens a file beneath a project's root, and nothing else (R-11 read column, R-12)."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from webcodex.runner import own_files, path_form, private_files, projects, root_walk

_ROOT_GONE: Final = root_walk.SWAPPED | {errno.EACCES, errno.EPERM}


class RootReplaced(Exception):
    """The project's root is no longer the directory that was registered (`project_root_replaced`)."""


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
        descriptor = os.open(project.root, root_walk.HELD)
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
    project: projects.Project,
    path: str,
    own: own_files.OwnFiles,
    links: root_walk.Links = root_walk.Links.FOLLOW,
) -> Iterator[OpenFile]:
    """Holds the regular file at a project path open for reading until the block ends.

    Raises:
        PathRefused: `invalid_path`, `sensitive_path`, `not_found`, `not_file`, `permission_denied` or
            `io_error`.
        RootReplaced: the root is not the registered one.
        OSError: the root cannot be opened now.

    """
    asked = root_walk.components(path)
    with open_root(project) as root, root_walk.begun(root, own, links) as walk:
        try:
            descriptor, name = _open(walk, asked)
        except OSError as error:
            raise root_walk.refusal(error) from error
        shown = asked if walk.hops else (*walk.names, name)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise path_form.PathRefused("not_file")
        if own.holds_file(status):
            raise path_form.PathRefused("sensitive_path")
        yield OpenFile(descriptor=descriptor, status=status, path="/".join(shown))
    finally:
        os.close(descriptor)


def _open(walk: root_walk.Walk, asked: tuple[str, ...]) -> tuple[int, str]:
    """Returns a descriptor of what a path leads to, which was a regular file a moment ago, and its name."""
    while True:
        end = walk.to(asked)
        if end is None:
            raise path_form.PathRefused("not_file")
        if end.status is None or end.rest:
            raise path_form.PathRefused("not_found")
        if not stat.S_ISREG(end.status.st_mode):
            raise path_form.PathRefused("not_file")
        try:
            return os.open(end.name, root_walk.READ, dir_fd=walk.here), end.name
        except OSError as error:
            if error.errno not in root_walk.SWAPPED:
                raise
            asked = (end.name,)  # swapped since it was looked at: look again
