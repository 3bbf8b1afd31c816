"""Answers `search_project_texts` by a process of its own, which does not outlive its time (R-52)."""

import json
import sys
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final

import webcodex
from webcodex.protocol import fields
from webcodex.runner import (
    bounded_process,
    deadline,
    failures,
    git_safety,
    globs,
    own_files,
    path_form,
    paths,
    projects,
    refusals,
    search_program,
)

AT_ONCE: Final = 2
MAX_PATTERN_BYTES: Final = 1024
MAX_GLOBS: Final = 32
_MAX_OUTPUT_BYTES: Final = 1024 * 1024
_MODES: Final = frozenset({"literal", "regex"})
_RESULT_MODES: Final = frozenset({"matches", "files_with_matches", "count"})
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from webcodex.runner import search_program; search_program.main()"
)
"""Without site-packages, and never with the working directory, which belongs to the project."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What a request asks for."""

    pattern: str
    pattern_mode: str
    path: str
    globs: tuple[str, ...]
    case_sensitive: bool
    context: int
    limit: int
    result_mode: str
    timeout_secs: int


def parse(body: fields.JsonObject) -> Query:
    """Returns the query a request body asks for.

    Raises:
        RequestFailed: `invalid_arguments` or `invalid_pattern`.

    """
    source = fields.Fields(body, "body")
    try:
        query = Query(
            pattern=source.text("pattern", most=fields.MAX_INTEGER, least=0),
            pattern_mode=_word(source, "pattern_mode", _MODES, "literal"),
            path=source.text_or_none("path", most=fields.MAX_INTEGER) or "",
            globs=globs.listed(body.get("globs"), most=MAX_GLOBS),
            case_sensitive=source.boolean_or_none("case_sensitive") is not False,
            context=source.integer_or("context", 0, least=0, most=80),
            limit=source.integer_or("limit", 100, least=1, most=500),
            result_mode=_word(source, "result_mode", _RESULT_MODES, "matches"),
            timeout_secs=source.integer_or("timeout_secs", 30, least=1, most=120),
        )
        globs.root(query.globs)
        if query.path:
            path_form.parse(query.path)
    except path_form.PathRefused as error:
        raise refusals.failure(error.reason) from error
    except (fields.Malformed, globs.InvalidGlob) as error:
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS) from error
    if not 1 <= len(query.pattern.encode()) <= MAX_PATTERN_BYTES:
        raise refusals.failure("invalid_pattern")
    return query


def _word(source: fields.Fields, name: str, words: frozenset[str], default: str) -> str:
    return default if source.whole().get(name) is None else source.word(name, words)


def search(
    project: projects.Project, own: own_files.OwnFiles, body: fields.JsonObject, until: deadline.Deadline
) -> dict[str, Any]:
    """Returns the reply of `search_project_texts` without its project.

    Raises:
        RequestFailed: the body, the path or the pattern is wrong, the root was replaced, or the search was
            killed at its time: what it had found by then is not told.

    """
    query = parse(body)
    ends_at = min(until.at, monotonic() + query.timeout_secs)
    if not until.remaining_s():
        raise failures.RequestFailed(failures.TIMEOUT, failures.TIMED_OUT)
    argv, environment = command(project, own, query)
    with refusals.told(), paths.open_root(project) as root:
        outcome = bounded_process.run(
            argv,
            cwd=git_safety.directory_of(root, project.root),
            environment=environment,
            until=deadline.Deadline(at=ends_at, given_up=until.given_up),
            most_bytes=_MAX_OUTPUT_BYTES,
        )
    if outcome.ending is bounded_process.Ending.TIMED_OUT:
        raise failures.RequestFailed(failures.TIMEOUT, failures.TIMED_OUT)
    return _reply(outcome)


def command(
    project: projects.Project, own: own_files.OwnFiles, query: Query
) -> tuple[list[str], dict[str, str]]:
    """Returns the arguments and the whole environment of the program; it runs in the project's root.

    Other users can read the arguments of a process, and not its environment.
    """
    sources = str(Path(webcodex.__file__).parent.parent)
    argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _START, sources]
    return argv, {search_program.REQUEST: _request(project, own, query)}


def _request(project: projects.Project, own: own_files.OwnFiles, query: Query) -> str:
    return json.dumps(
        {
            **asdict(query),
            "root": astuple(project.identity),
            "own": {
                "config_path": str(own.config_path),
                "config_identity": astuple(own.config_identity),
                "directories": [str(directory) for directory in own.directories],
            },
        },
        ensure_ascii=False,
    )


def _reply(outcome: bounded_process.Outcome) -> dict[str, Any]:
    try:
        answer = fields.decode(outcome.output.decode())
    except ValueError as error:
        raise failures.RequestFailed(failures.INTERNAL) from error
    refused = answer.get("refused")
    if refused == "project_root_replaced":
        raise failures.RequestFailed(failures.ROOT_REPLACED)
    if refused is not None:
        raise refusals.failure(refused)
    result: dict[str, Any] = answer["result"]
    return result
