"""Lists which files differ from HEAD and which are untracked, in byte order of their paths (R-52)."""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from webcodex.runner import bounded_process, git_safety

_MAX_LIST_BYTES: Final = 32 * 1024 * 1024
_MAX_ID_BYTES: Final = 128
_STATUS: Final = (
    "-c",
    "diff.orderFile=/dev/null",
    "--literal-pathspecs",
    "status",
    "--porcelain=v2",
    "-z",
    "--untracked-files=all",
    "--ignore-submodules=all",
    "--no-renames",
)
_BEFORE_PATH: Final = {"1": 7, "u": 9}
"""How many fields of a record, after its kind, stand before the path."""

_ABSENT: Final = "000000"


class Status(enum.StrEnum):
    """How a file differs from HEAD."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    TYPE_CHANGED = "type_changed"
    CONFLICTED = "conflicted"
    UNTRACKED = "untracked"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One file that differs."""

    path: str
    status: Status

    @property
    def key(self) -> str:
        """Sorts by path; a file that is both deleted and untracked stands twice."""
        return f"{self.path}\0{self.status.value}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """What differs; a path that is not UTF-8 is only counted."""

    changes: Sequence[Change]
    unnameable: int
    is_whole: bool


def read(repository: git_safety.Repository, path: Sequence[str]) -> Listed:
    """Returns what differs at or beneath a path of the repository; () is all of it.

    Raises:
        GitFailed: Git cannot say.
        GitLate: the deadline passed.

    """
    pathspec = ["--", "/".join(path)] if path else []
    outcome = repository.run([*_STATUS, *pathspec], most_bytes=_MAX_LIST_BYTES)
    is_whole = outcome.ending is bounded_process.Ending.EXITED
    if is_whole and outcome.exit_code != 0:
        raise git_safety.GitFailed("Git status failed")
    changes: list[Change] = []
    unnameable = 0
    for record in outcome.output.split(b"\0")[:-1]:
        try:
            changes += _changes(record.decode())
        except UnicodeDecodeError:
            unnameable += 1
    return Listed(
        changes=sorted(changes, key=lambda change: change.key), unnameable=unnameable, is_whole=is_whole
    )


def base(repository: git_safety.Repository) -> str:
    """Returns the id of what the working tree is compared with: HEAD, or nothing where no commit is yet.

    Raises:
        GitFailed: Git cannot say.
        GitLate: the deadline passed.

    """
    for arguments in (
        ("rev-parse", "--verify", "--quiet", "HEAD^{commit}"),
        ("hash-object", "-t", "tree", "--stdin"),
    ):
        outcome = repository.run(arguments, most_bytes=_MAX_ID_BYTES)
        if outcome.ending is bounded_process.Ending.EXITED and outcome.exit_code == 0:
            return outcome.output.decode().strip()
    raise git_safety.GitFailed("HEAD cannot be read")


def _changes(record: str) -> Iterator[Change]:
    kind, _, rest = record.partition(" ")
    if kind == "?":
        # A repository of its own inside this one is listed as a directory and not entered.
        yield Change(path=rest.removesuffix("/"), status=Status.UNTRACKED)
    elif kind in _BEFORE_PATH:
        parts = rest.split(" ", _BEFORE_PATH[kind])
        if len(parts) <= _BEFORE_PATH[kind]:
            raise git_safety.GitFailed("Git status is in an unknown form")
        status = Status.CONFLICTED if kind == "u" else _status(in_head=parts[2], in_tree=parts[4])
        if status is not None:
            yield Change(path=parts[-1], status=status)


def _status(*, in_head: str, in_tree: str) -> Status | None:
    """Returns how a file differs by its modes; None where it is in neither."""
    if in_head == _ABSENT:
        return None if in_tree == _ABSENT else Status.ADDED
    if in_tree == _ABSENT:
        return Status.DELETED
    return Status.MODIFIED if in_head[:2] == in_tree[:2] else Status.TYPE_CHANGED
