"""Edits in a place of their own: how to make them, ask for them, and read what is there afterwards."""

import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.runner.place import Place, registered, soon
from webcodex.runner import edit_tools, failures, kept_answers

NOW = 1_760_000_000
BY = "bootstrap"


def sha256(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def create(path: str, content: str) -> dict[str, Any]:
    return {"path": path, "op": "create", "expected_sha256": None, "content": content}


def write(path: str, before: str | bytes, content: str) -> dict[str, Any]:
    return {"path": path, "op": "write", "expected_sha256": sha256(before), "content": content}


def replace(path: str, before: str | bytes, *pairs: tuple[str, str, int]) -> dict[str, Any]:
    replacements = [{"old": old, "new": new, "count": count} for old, new, count in pairs]
    return {"path": path, "op": "replace", "expected_sha256": sha256(before), "replacements": replacements}


def delete(path: str, before: str | bytes) -> dict[str, Any]:
    return {"path": path, "op": "delete", "expected_sha256": sha256(before)}


def edits_of(place: Place, now: int = NOW) -> edit_tools.Edits:
    """Returns the edits of a Runner that starts now; what an earlier one left is not closed yet."""
    return edit_tools.Edits(
        client_id="my-runner",
        own=place.own(),
        answers=kept_answers.KeptAnswers(place.state_dir),
        clock=lambda: now,
        token=lambda: secrets.token_hex(16),
    )


def asked(*edits: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
    return {"edits": list(edits)} | ({} if key is None else {"idempotency_key": key})


def apply(
    place: Place, folder: Path, *edits: Mapping[str, Any], key: str | None = None, **changes: Any
) -> dict[str, Any]:
    """Returns the answer, or ``{"error": code, "execution": ..., **details}``."""
    return answer_of(edits_of(place), folder, asked(*edits, key=key), **changes)


def answer_of(
    edits: edit_tools.Edits, folder: Path, body: dict[str, Any], by: str = BY, seconds: float = 20.0
) -> dict[str, Any]:
    try:
        return edits.edit(registered(folder), by, body, soon(seconds))
    except failures.RequestFailed as error:
        details = dict(error.failure.details or {})
        return {"error": error.failure.code, "execution": error.execution.value, **details}


def tree(folder: Path) -> dict[str, bytes | None]:
    """Returns everything beneath a folder: the content of each file, None for a directory."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def records(place: Place) -> list[str]:
    """Returns the suffixes of what is kept of edits."""
    return sorted(path.suffix for path in (place.state_dir / "kept-answers").iterdir())
