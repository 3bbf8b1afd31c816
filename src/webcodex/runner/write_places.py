"""Finds where an edit leads, without any link in the way (R-11, write column); must never change anything.

What is found can be compared with a second look: the true names, and which directories and which file they
were.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from webcodex.runner import own_files, path_form, private_files, root_walk, spelling


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


@contextmanager
def look(
    root: int, path: str, own: own_files.OwnFiles, seen: private_files.Identity | None = None
) -> Iterator[tuple[Place, int]]:
    """Holds the innermost existing directory of a path until the block ends, and says where the path leads.

    A file of the identity `seen` was found before not to be the Runner's own.

    Raises:
        PathRefused: `invalid_path`, `sensitive_path`, `not_file`, or `not_found` beneath a file.
        OSError: a name cannot be looked at.

    """
    asked = root_walk.components(path)
    with root_walk.begun(root, own, root_walk.Links.REFUSE) as walk:
        end = walk.to(asked)
        if end is None:
            raise path_form.PathRefused("not_file")
        if end.status is not None:
            _check_file(end, end.status, own, seen)
        place = Place(
            asked=asked,
            names=(*walk.names, end.name, *end.rest),
            way=tuple(walk.way),
            status=end.status,
        )
        yield place, walk.here


def descend(root: int, names: Sequence[str], own: own_files.OwnFiles) -> int:
    """Returns a descriptor of the directory that true names lead to, over no link; it can be synchronised.

    Raises:
        PathRefused: `invalid_path` or `sensitive_path`.
        OSError: it is not there, no directory, or cannot be opened.

    """
    with root_walk.begun(root, own, root_walk.Links.REFUSE) as walk:
        for name in names:
            walk.step_down(name, name)
        return os.open(".", spelling.LISTED, dir_fd=walk.here)


def identity_at(directory: int, name: str) -> private_files.Identity | None:
    """Returns which file a name stands for, links not followed; None when nothing is there."""
    try:
        return private_files.Identity.of(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None


def _check_file(
    end: root_walk.End,
    status: os.stat_result,
    own: own_files.OwnFiles,
    seen: private_files.Identity | None,
) -> None:
    if end.rest:
        raise path_form.PathRefused("not_found")
    if not stat.S_ISREG(status.st_mode):
        raise path_form.PathRefused("not_file")
    if private_files.Identity.of(status) != seen and own.holds_file(status):
        raise path_form.PathRefused("sensitive_path")
