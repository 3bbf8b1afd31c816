"""Declares the tools that look at a whole Project: its files, their text, Git's facts, its changes (R-52).

Nothing here changes anything; what is said is what the Project's Runner saw when it was asked.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from webcodex.core import access, ledger
from webcodex.core.access import Scope
from webcodex.core.json_value import JsonObject
from webcodex.storage.database import Transaction
from webcodex.tools import authority, fields, runner_calls
from webcodex.tools.contract import Done, Params, Result, Target, Tool, Work
from webcodex.tools.ports import RunnerRefused

_PATTERN_BYTES: Final = 1024


def _within_pattern_bytes(value: str) -> str:
    if not 1 <= len(value.encode()) <= _PATTERN_BYTES:
        raise ValueError("1 to 1,024 bytes")
    return value


Place = Annotated[
    str, Field(max_length=4096, description='Start at this path in the Project, with /; "" is the root.')
]
Glob = Annotated[str, Field(min_length=1, max_length=512)]
Cursor = Annotated[
    str | None,
    Field(pattern=r"^[A-Za-z0-9_-]{1,5632}$", description="next_cursor of the page before this one."),
]
GLOBS: Final = "Only paths that match one, such as src/**/*.py or *.{c,h}; !glob leaves out."
UNNAMEABLE: Final = "Left out because their names are no project paths, such as ones that are not UTF-8."


class ListParams(Params):
    """Where to list, how deep, and which page."""

    project: fields.ProjectName
    path: Place = ""
    globs: list[Glob] = Field(default_factory=list, max_length=20, description=GLOBS)
    depth: Annotated[int, Field(ge=1, le=16, description="How many levels below path.")] = 4
    limit: Annotated[int, Field(ge=1, le=1000, description="At most this many entries.")] = 200
    cursor: Cursor = None


class Entry(Result):
    """One file, directory or link; a link is never followed."""

    path: str
    type: Literal["file", "dir", "symlink"]
    size: Annotated[int | None, Field(description="Bytes of a file.")]


class ListResult(Result):
    """One page in byte order of the paths; ``.git`` is never in it."""

    project: str
    entries: list[Entry]
    returned: int
    truncated: bool
    next_cursor: str | None
    omitted_sensitive: Annotated[
        int, Field(description="Left out of this page because they may hold secrets.")
    ]
    omitted_unnameable: Annotated[int | None, Field(description=UNNAMEABLE)] = None


class SearchParams(Params):
    """What to look for, where, and how much to tell of it."""

    project: fields.ProjectName
    pattern: Annotated[
        str,
        AfterValidator(_within_pattern_bytes),
        Field(description="Text, or a Python regular expression, within one line; 1 to 1,024 bytes."),
    ]
    pattern_mode: Literal["literal", "regex"] = "literal"
    path: Place = ""
    globs: list[Glob] = Field(default_factory=list, max_length=32, description=GLOBS)
    case_sensitive: bool = True
    context: Annotated[int, Field(ge=0, le=80, description="Lines before and after each match.")] = 0
    limit: Annotated[int, Field(ge=1, le=500, description="At most this many matches, files or counts.")] = (
        100
    )
    result_mode: Annotated[
        Literal["matches", "files_with_matches", "count"],
        Field(description="Tell matching lines, files, or how many lines match in each file."),
    ] = "matches"
    timeout_secs: Annotated[int, Field(ge=1, le=120, description="The search is ended after this time.")] = 30


class Match(Result):
    """One matching line; every text is at most 512 bytes of its line."""

    path: str
    line: int
    text: str
    before: list[str]
    after: list[str]


class Count(Result):
    """How many lines of one file match."""

    path: str
    count: int


class SearchResult(Result):
    """What was found, in byte order of the paths; the list is that of the result mode."""

    project: str
    matches: list[Match] | None = None
    files: list[str] | None = None
    counts: list[Count] | None = None
    truncated: Annotated[bool, Field(description="More matches, or files that were not searched.")]
    searched_files: int
    skipped_files: Annotated[int, Field(description="Binary, not UTF-8, over 16 MiB, or not readable.")]
    omitted_sensitive: Annotated[int, Field(description="Not searched because they may hold secrets.")]


class StatusParams(Params):
    """Which Project."""

    project: fields.ProjectName


class StatusEntry(Result):
    """One path that Git lists, with its index and worktree letters."""

    path: str
    index: str
    worktree: str
    orig_path: str | None = None


class StatusResult(Result):
    """Git's facts; null is unknown. Without a repository, or where Git fails, none is available."""

    project: str
    available: bool
    reason_code: Literal["non_git_project"] | None
    branch: str | None
    head: str | None
    dirty: bool | None
    conflicted: bool | None
    ahead: int | None
    behind: int | None
    entries: list[StatusEntry]
    truncated: bool


class ChangesParams(Params):
    """Which changes, and which page of them."""

    project: fields.ProjectName
    path: Place = ""
    context: Annotated[int, Field(ge=0, le=10, description="Unchanged lines around each change.")] = 3
    cursor: Cursor = None


class ChangedFile(Result):
    """One file that differs from HEAD or is untracked; null is unknown, or withheld."""

    path: str
    status: Literal["added", "modified", "deleted", "type_changed", "conflicted", "untracked"]
    additions: int | None
    deletions: int | None
    binary: Annotated[bool | None, Field(description="Git compares it as binary, as every file over 16 MiB.")]
    withheld: Annotated[bool, Field(description="The content may hold secrets, or has no project path.")]
    diff: Annotated[
        str | None, Field(description="At most 64 KiB of a unified diff; U+FFFD where it is not UTF-8.")
    ]
    diff_truncated: Annotated[bool | None, Field(description="The diff goes on after what is shown.")] = None


class ChangesResult(Result):
    """One page in byte order of the paths; not available without a repository that is the Project's own."""

    project: str
    available: bool
    files: list[ChangedFile]
    truncated: bool
    next_cursor: str | None
    omitted_unnameable: Annotated[int | None, Field(description="Left out: their names are not UTF-8.")] = (
        None
    )


Asked = ListParams | SearchParams | StatusParams | ChangesParams


def _authorize(tx: Transaction, caller: access.Caller, params: Asked) -> Target:
    return Target(project=authority.project(tx, caller, params.project, changing=False))


async def _ask(work: Work, kind: str, params: Asked, budget_s: float | None = None) -> JsonObject:
    body: dict[str, Any] = params.model_dump(exclude={"project"}, exclude_none=True)
    return {"project": _name(work), **await runner_calls.ask(work, kind, body, budget_s=budget_s)}


def _name(work: Work) -> str:
    project = work.target.project
    assert project is not None
    return project.canonical


async def _list(work: Work, params: ListParams) -> Done:
    return Done(output=await _ask(work, "list_project_files", params))


async def _search(work: Work, params: SearchParams) -> Done:
    output = await _ask(work, "search_project_texts", params, budget_s=params.timeout_secs)
    shown = [*_rows(output, "matches"), *_rows(output, "counts")]
    files = output.get("files")
    paths = [*(files if isinstance(files, list) else []), *(row.get("path") for row in shown)]
    return Done(output=output, facts=_observed(paths))


async def _status(work: Work, params: StatusParams) -> Done:
    try:
        output = await _ask(work, "git_status", params)
    except RunnerRefused as refused:
        if refused.code != "git_failed":
            raise
        output = {"project": _name(work), **_NOTHING_KNOWN}
    return Done(output=output, facts=dict(_GIT))


async def _changes(work: Work, params: ChangesParams) -> Done:
    output = await _ask(work, "workspace_changes", params)
    paths = [row.get("path") for row in _rows(output, "files") if row.get("diff") is not None]
    return Done(output=output, facts={**_GIT, **_observed(paths)})


def _rows(output: JsonObject, name: str) -> Iterator[Mapping[str, Any]]:
    rows = output.get(name)
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            yield row


def _observed(paths: list[Any]) -> JsonObject:
    """Returns the paths whose content was read and told (S-12)."""
    return ledger.path_facts("observed", [path for path in paths if isinstance(path, str)])


_GIT: Final[Mapping[str, bool]] = {"git_like": True}
_NOTHING_KNOWN: Final[JsonObject] = {
    "available": False,
    **dict.fromkeys(("reason_code", "branch", "head", "dirty", "conflicted", "ahead", "behind")),
    "entries": [],
    "truncated": False,
}
_VALUE_WORDS: Final = {"path": "invalid_path"}

TOOLS: Final = (
    Tool(
        name="list_project_files",
        category="projects",
        summary="List files, directories and links beneath a path of a Project, page by page.",
        params=ListParams,
        result=ListResult,
        scopes=(Scope.PROJECT_READ,),
        value_words=_VALUE_WORDS,
        authorize=_authorize,
        describe_input=lambda params: {
            "input_summary": f"up to {params.limit} entries, depth {params.depth}, {len(params.globs)} globs"
        },
        handler=_list,
    ),
    Tool(
        name="search_project_texts",
        category="projects",
        summary="Search the text of a Project's files, line by line, for a text or a regular expression.",
        params=SearchParams,
        result=SearchResult,
        scopes=(Scope.PROJECT_READ,),
        value_words={**_VALUE_WORDS, "pattern": "invalid_pattern"},
        authorize=_authorize,
        describe_input=lambda params: {
            "input_summary": f"{params.pattern_mode} search, {params.result_mode}, {len(params.globs)} globs"
        },
        handler=_search,
    ),
    Tool(
        name="get_git_status",
        category="projects",
        summary="Read a Project's Git branch and head, and what is changed, conflicted, ahead and behind.",
        params=StatusParams,
        result=StatusResult,
        scopes=(Scope.PROJECT_READ,),
        authorize=_authorize,
        describe_input=lambda _params: {"input_summary": "Git status", **_GIT},
        handler=_status,
    ),
    Tool(
        name="read_workspace_changes",
        category="projects",
        summary="Read what differs from HEAD in a Project and what is untracked, with bounded diffs.",
        params=ChangesParams,
        result=ChangesResult,
        scopes=(Scope.PROJECT_READ,),
        value_words=_VALUE_WORDS,
        authorize=_authorize,
        describe_input=lambda params: {
            "input_summary": f"changes, {params.context} lines of context",
            **_GIT,
        },
        handler=_changes,
    ),
)
