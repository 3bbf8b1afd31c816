"""Answers `git_status`: branch, head and what is changed, conflicted, ahead and behind (R-52)."""

import os
import stat
from collections.abc import Sequence
from typing import Any, Final

from webcodex.protocol import fields
from webcodex.runner import bounded_process, deadline, failures, git_safety, paths, projects

MAX_ENTRIES: Final = 200
_ENTRIES_ROOM_BYTES: Final = 192 * 1024
_MAX_OUTPUT_BYTES: Final = 4 * 1024 * 1024
_STATUS: Final = (
    "status",
    "--porcelain=v2",
    "--branch",
    "-z",
    "--untracked-files=normal",
    "--ignore-submodules=all",
    "--ahead-behind",
)
_FIELDS: Final = {"1": 7, "2": 8, "u": 9}
"""How many fields of a record, after its kind, stand before the path."""


def git_status(project: projects.Project, git: str, until: deadline.Deadline) -> dict[str, Any]:
    """Returns the reply of `get_git_status` without its project.

    Only a repository with its ``.git`` in the Project's root counts; one around the Project does not.
    `conflicted` is None where the list was too long to be read to the end of its conflicts.

    Raises:
        RequestFailed: the root was replaced, the deadline passed, or Git failed.

    """
    try:
        with paths.open_root(project) as root:
            if not _is_repository(root):
                return _nothing_known("non_git_project")
            directory = git_safety.directory_of(root, project.root)
            repository = git_safety.Repository(git, directory, until)
            # A rename is found by comparing contents, which a partial clone would have to fetch.
            renames = "--no-renames" if repository.is_partial else "--find-renames"
            outcome = repository.run([*_STATUS, renames], most_bytes=_MAX_OUTPUT_BYTES)
        with paths.open_root(project):
            return _facts(outcome)
    except paths.RootReplaced as error:
        raise failures.RequestFailed(failures.ROOT_REPLACED) from error
    except git_safety.GitLate as error:
        raise failures.RequestFailed(failures.TIMEOUT, failures.TIMED_OUT) from error
    except (git_safety.GitFailed, OSError) as error:
        raise failures.RequestFailed(failures.GIT_FAILED) from error


def _is_repository(root: int) -> bool:
    try:
        mode = os.stat(".git", dir_fd=root, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            os.stat(".git/HEAD", dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def _nothing_known(reason_code: str) -> dict[str, Any]:
    facts = dict.fromkeys(("branch", "head", "dirty", "conflicted", "ahead", "behind"))
    return {"available": False, "reason_code": reason_code, **facts, "entries": [], "truncated": False}


def _facts(outcome: bounded_process.Outcome) -> dict[str, Any]:
    exited = outcome.ending is bounded_process.Ending.EXITED
    if exited and outcome.exit_code != 0:
        raise git_safety.GitFailed("Git status failed")
    headers, listed = _parse(outcome.output.decode(errors="replace").split("\0")[:-1])
    ahead, behind = _ahead_behind(headers.get("branch.ab"))
    entries, left_out = _bounded([entry for _, entry in listed])
    return {
        "available": True,
        "reason_code": None,
        "branch": _unless(headers.get("branch.head"), "(detached)"),
        "head": _unless(headers.get("branch.oid"), "(initial)"),
        "dirty": bool(listed),
        "conflicted": _conflicted({kind for kind, _ in listed}, exited=exited),
        "ahead": ahead,
        "behind": behind,
        "entries": entries,
        "truncated": left_out or not exited,
    }


def _parse(records: Sequence[str]) -> tuple[dict[str, str], list[tuple[str, dict[str, str]]]]:
    """Returns the branch facts, and each entry with its kind; what follows a rename is its old path."""
    headers: dict[str, str] = {}
    listed: list[tuple[str, dict[str, str]]] = []
    following = iter(records)
    for record in following:
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, headers[name] = rest.partition(" ")
        elif kind == "2":
            listed.append((kind, {**_entry(rest, _FIELDS[kind]), "orig_path": next(following, "")}))
        elif kind in _FIELDS:
            listed.append((kind, _entry(rest, _FIELDS[kind])))
        elif kind == "?":
            listed.append((kind, {"path": rest, "index": "?", "worktree": "?"}))
    return headers, listed


def _unless(value: str | None, placeholder: str) -> str | None:
    return None if value == placeholder else value


def _ahead_behind(counts: str | None) -> tuple[int | None, int | None]:
    if counts is None:
        return None, None
    ahead, behind = counts.split(" ")
    return int(ahead), -int(behind)


def _conflicted(kinds: set[str], *, exited: bool) -> bool | None:
    """Says whether anything is unmerged; Git lists conflicts after changes and before untracked files."""
    if "u" in kinds:
        return True
    return False if exited or "?" in kinds else None


def _entry(rest: str, fields_before_path: int) -> dict[str, str]:
    parts = rest.split(" ", fields_before_path)
    if len(parts) <= fields_before_path:
        raise git_safety.GitFailed("Git status is in an unknown form")
    return {"path": parts[fields_before_path], "index": parts[0][:1], "worktree": parts[0][1:2]}


def _bounded(entries: list[dict[str, str]]) -> tuple[list[dict[str, str]], bool]:
    kept: list[dict[str, str]] = []
    room_bytes = _ENTRIES_ROOM_BYTES
    for entry in entries:
        room_bytes -= fields.encoded_bytes(entry) + 1
        if len(kept) == MAX_ENTRIES or room_bytes < 0:
            return kept, True
        kept.append(entry)
    return kept, False
