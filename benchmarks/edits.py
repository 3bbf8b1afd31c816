"""Measures one edit of sixteen files, undoable until its commit, against plainly writing and syncing them."""

import hashlib
import os
import secrets
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from webcodex.runner import deadline, edit_tools, kept_answers, own_files, private_files, projects

FILES: Final = 16
SIZE_BYTES: Final = 8192
ROUNDS: Final = 15


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve()
        for folder in ("state", "edited", "plain", "own"):
            (base / folder).mkdir(mode=0o700)
        edits, project = _edits(base), _project(base / "edited")
        edited: list[float] = []
        plain: list[float] = []
        for number in range(ROUNDS):
            edited.append(_edit(edits, project, number))
            plain.append(_write(base / "plain", number))
    edited_ms, plain_ms = (sorted(times)[ROUNDS // 2] * 1000 for times in (edited, plain))
    return [
        (
            f"edit of {FILES} files, all or nothing",
            f"{edited_ms:.1f} ms",
            f"write and fsync of {FILES} files: {plain_ms:.1f} ms",
            f"{edited_ms / plain_ms:.1f} times it; target 3",
        )
    ]


def _edits(base: Path) -> edit_tools.Edits:
    config = base / "own" / "runner.toml"
    config.touch(mode=0o600)
    return edit_tools.Edits(
        client_id="bench",
        own=own_files.OwnFiles(
            config_path=config,
            config_identity=private_files.Identity.of(config.stat()),
            directories=(base / "state", base / "own"),
        ),
        answers=kept_answers.KeptAnswers(base / "state"),
        clock=lambda: int(time.time()),
        token=lambda: secrets.token_hex(16),
    )


def _project(folder: Path) -> projects.Project:
    for index in range(FILES):
        (folder / f"{index}.txt").write_bytes(_content(-1))
    return projects.Project(
        id="bench",
        root=str(folder),
        identity=private_files.Identity.of(folder.stat()),
        name=None,
        kind=None,
        description=None,
        allow_patch=True,
        disabled=False,
    )


def _content(number: int) -> bytes:
    return f"{number:8}".encode() * (SIZE_BYTES // 8)


def _edit(edits: edit_tools.Edits, project: projects.Project, number: int) -> float:
    before = hashlib.sha256(_content(number - 1)).hexdigest()
    content = _content(number).decode()
    asked = [
        {"path": f"{index}.txt", "op": "write", "expected_sha256": before, "content": content}
        for index in range(FILES)
    ]
    until = deadline.Deadline(at=time.monotonic() + 30, given_up=threading.Event())
    began = time.perf_counter()
    edits.edit(project, "bench", {"edits": asked, "idempotency_key": f"k{number}"}, until)
    return time.perf_counter() - began


def _write(folder: Path, number: int) -> float:
    began = time.perf_counter()
    for index in range(FILES):
        with (folder / f"{index}.txt").open("wb") as file:
            file.write(_content(number))
            file.flush()
            os.fsync(file.fileno())
    return time.perf_counter() - began


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
