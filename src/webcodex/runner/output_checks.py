"""Answers `check_outputs`: which files a piece of work left behind, and what they hold (S-46)."""

import hashlib
import os
from time import monotonic
from typing import Any, Final

from webcodex.protocol import fields
from webcodex.runner import deadline, failures, own_files, path_form, paths, projects

MAX_PATHS: Final = 16
MAX_PATH_BYTES: Final = 512
MAX_FILE_BYTES: Final = 256 * 1024 * 1024
WITHIN_S: Final = 20.0
"""How long all paths of one request may take together."""

_CHUNK_BYTES: Final = 1024 * 1024


class _Unavailable(Exception):
    """The file is not readable to its end, in time, within its bound and as one content."""


def parse(body: fields.JsonObject) -> tuple[str, ...]:
    """Returns the paths a request body names.

    Raises:
        RequestFailed: `invalid_arguments`.

    """
    asked = body.get("paths")
    if not isinstance(asked, list) or not 1 <= len(asked) <= MAX_PATHS:
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS)
    if not all(isinstance(path, str) and 1 <= len(path.encode()) <= MAX_PATH_BYTES for path in asked):
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS)
    return tuple(asked)


def check_outputs(
    project: projects.Project,
    own: own_files.OwnFiles,
    body: fields.JsonObject,
    until: deadline.Deadline,
) -> dict[str, Any]:
    """Returns `items`, one for each path in order; blocks while it reads.

    What is not read to its end within 20 s in all, or by the deadline, or is written to meanwhile, is
    `unavailable`.

    Raises:
        RequestFailed: the body is wrong.

    """
    asked = parse(body)
    within = deadline.Deadline(at=min(until.at, monotonic() + WITHIN_S), given_up=until.given_up)
    return {"items": [_item(project, own, path, within) for path in asked]}


def _item(
    project: projects.Project, own: own_files.OwnFiles, path: str, until: deadline.Deadline
) -> dict[str, Any]:
    status, size_bytes, sha256 = "unavailable", None, None
    try:
        if until.remaining_s():
            with paths.open_file(project, path, own) as file:
                size_bytes, sha256 = _read(file, until)
                status = "verified"
    except path_form.PathRefused as error:
        status = "missing" if error.reason == "not_found" else "unavailable"
    except (_Unavailable, paths.RootReplaced, OSError):
        status = "unavailable"
    return {"path": path, "status": status, "size": size_bytes, "sha256": sha256}


def _read(file: paths.OpenFile, until: deadline.Deadline) -> tuple[int, str]:
    """Returns how many bytes an open file holds and their hash."""
    if file.status.st_size > MAX_FILE_BYTES:
        raise _Unavailable
    digest, read_bytes = hashlib.sha256(), 0
    while chunk := os.read(file.descriptor, _CHUNK_BYTES):
        read_bytes += len(chunk)
        if read_bytes > MAX_FILE_BYTES or not until.remaining_s():
            raise _Unavailable
        digest.update(chunk)
    after = os.fstat(file.descriptor)
    if read_bytes != after.st_size or after.st_mtime_ns != file.status.st_mtime_ns:
        raise _Unavailable  # it was written to meanwhile, and may never have held what was read
    return read_bytes, digest.hexdigest()
