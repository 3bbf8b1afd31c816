"""Holds the directory at a project path, or the one with the file there, open for walking (R-11)."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from webcodex.runner import own_files, path_form, root_walk, spelling


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
    asked = root_walk.components(path) if path else ()
    try:
        with root_walk.begun(root, own, root_walk.Links.FOLLOW) as walk:
            file = _file(walk.to(asked), own)
            directory = os.open(".", spelling.LISTED, dir_fd=walk.here)
    except OSError as error:
        raise root_walk.refusal(error) from error
    try:
        names = walk.names if file is None else [*walk.names, file]
        yield Place(directory=directory, file=file, shown=asked if walk.hops else tuple(names))
    finally:
        os.close(directory)


def _file(end: root_walk.End | None, own: own_files.OwnFiles) -> str | None:
    """Returns the name of the regular file at the end of a walk; None where that is a directory."""
    if end is None:
        return None
    if end.status is None or end.rest:
        raise path_form.PathRefused("not_found")
    if not stat.S_ISREG(end.status.st_mode):
        raise path_form.PathRefused("invalid_path")
    if own.holds_file(end.status):
        raise path_form.PathRefused("sensitive_path")
    return end.name
