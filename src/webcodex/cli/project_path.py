"""Turns what somebody typed into the canonical root of a project, and says what it made of it."""

import os
from dataclasses import dataclass
from pathlib import Path

from webcodex.cli import refusal


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """A directory by its canonical path, with what its owner may want to know about it."""

    root: Path
    notes: tuple[str, ...]


def chosen(typed: str, data_dir: Path) -> Chosen:
    """Returns the project that ``typed`` leads to.

    Raises:
        Refused: it is no directory, cannot be used, or would hold WebCodex's own private files.

    """
    given = Path(typed).expanduser()
    try:
        root = given.resolve(strict=True)
    except FileNotFoundError:
        raise refusal.Refused(f"There is no directory {given}. Name an existing project.") from None
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not a path"
        raise refusal.Refused(f"{given} cannot be used as a project: {why}.") from None
    if not root.is_dir():
        raise refusal.Refused(f"{root} is not a directory. Name the directory that holds the project.")
    if not os.access(root, os.R_OK | os.X_OK):
        raise refusal.Refused(f"{root} cannot be read by this user. Change its permissions, or name another.")
    if not _is_plain(str(root)):
        raise refusal.Refused("The project's path holds characters that are not plain text. Rename it first.")
    if _is_within(data_dir, root) or _is_within(root, data_dir):
        raise refusal.Refused(
            f"{root} and the data directory {data_dir} must lie outside each other, so that nobody who reads "
            "the project reads credentials.\nChoose another data directory with --data DIR."
        )
    return Chosen(root=root, notes=tuple(_notes(given, root)))


def _notes(given: Path, root: Path) -> list[str]:
    notes = []
    if os.path.normpath(Path.cwd() / given) != str(root):
        notes.append(f"{given} leads to {root}; the Project is registered by that path.")
    elif not given.is_absolute():
        notes.append(f"{given} is {root}.")
    if not (root / ".git").exists():
        notes.append(
            f"{root} is not the top of a Git repository. That works, without Git status and changes."
        )
    return notes


def _is_plain(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return path.isprintable()


def _is_within(path: Path, directory: Path) -> bool:
    return path == directory or directory in path.parents
