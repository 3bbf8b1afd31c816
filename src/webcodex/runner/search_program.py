"""The program that searches one project's text, run in a process of its own (R-52); standard library only.

The working directory is the project's root, the request stands in the environment, the answer is one JSON
object on standard output. It ends itself soon after its time, even where nobody is left to end it.
"""

import contextlib
import gc
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Final

from webcodex.runner import (
    deadline,
    globs,
    line_patterns,
    own_files,
    path_form,
    places,
    private_files,
    search_files,
    spelling,
    tree_walk,
)

REQUEST: Final = "WEBCODEX_SEARCH"
MAX_MEMORY_BYTES: Final = 1024 * 1024 * 1024
_MAX_VISITS: Final = 2_000_000
_ANY_DEPTH: Final = sys.maxsize
_GRACE_S: Final = 1


class Refused(Exception):
    """The search cannot begin; `reason` is a word of R-51 or R-52."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def main() -> None:
    """Writes the answer to the request in the environment: its `result`, or why it was `refused`."""
    request = json.loads(os.environ[REQUEST])
    gc.disable()
    signal.alarm(request["timeout_secs"] + _GRACE_S)
    with contextlib.suppress(ValueError, OSError):  # macOS takes no such bound
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    try:
        answer: dict[str, Any] = {"result": _answer(request)}
    except (Refused, path_form.PathRefused) as error:
        answer = {"refused": error.reason}
    sys.stdout.write(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    own = _own(request["own"])
    wanted = search_files.Wanted(
        find=_finder(request),
        result_mode=search_files.ResultMode(request["result_mode"]),
        context=request["context"],
        limit=request["limit"],
    )
    root = os.open(".", spelling.LISTED)
    if private_files.Identity.of(os.fstat(root)) != _identity(request["root"]):
        raise Refused("project_root_replaced")
    with places.hold(root, request["path"], own) as place:
        walk = tree_walk.Walk(
            place=place,
            scope=tree_walk.Scope(
                level=globs.root(request["globs"]), depth=_ANY_DEPTH, most_visits=_MAX_VISITS
            ),
            own=own,
            until=deadline.Deadline(at=monotonic() + request["timeout_secs"], given_up=threading.Event()),
        )
        return search_files.search(walk, wanted)


def _finder(request: Mapping[str, Any]) -> line_patterns.Finder:
    compiled = line_patterns.regex if request["pattern_mode"] == "regex" else line_patterns.literal
    try:
        return compiled(request["pattern"], case_sensitive=request["case_sensitive"])
    except (line_patterns.InvalidPattern, MemoryError):
        raise Refused("invalid_pattern") from None


def _own(own: Mapping[str, Any]) -> own_files.OwnFiles:
    return own_files.OwnFiles(
        config_path=Path(own["config_path"]),
        config_identity=_identity(own["config_identity"]),
        directories=tuple(Path(directory) for directory in own["directories"]),
    )


def _identity(pair: list[int]) -> private_files.Identity:
    dev, ino = pair
    return private_files.Identity(dev=dev, ino=ino)
