"""Declares the tools that read a Project: which there are, and bounded file ranges (C-15, R-51)."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from webcodex.core import access, ledger
from webcodex.core.access import Scope
from webcodex.core.json_value import Json, JsonObject
from webcodex.storage import projects
from webcodex.storage.database import Transaction
from webcodex.tools import authority, fields, runner_calls
from webcodex.tools.contract import Done, Params, Recording, Result, Target, Tool, Work


class ListProjectsParams(Params):
    """Nothing: a caller sees what it sees."""


class ProjectShown(Result):
    """One visible Project."""

    project: str
    project_ref: str
    client_id: str
    name: str | None
    path: str
    allow_patch: bool
    connected: bool


class ListProjectsResult(Result):
    """The Projects visible to the caller, by canonical id."""

    projects: list[ProjectShown]
    returned: int
    truncated: bool


class FileRange(Params):
    """One range of one file."""

    path: Annotated[str, Field(max_length=4096, description="Path relative to the Project's root, with /.")]
    start_line: Annotated[int, Field(ge=1, description="First line, from 1.")] = 1
    limit: Annotated[int, Field(ge=1, le=2000, description="At most this many lines.")] = 2000
    expected_sha256: Annotated[
        str | None, Field(pattern=r"^[0-9a-f]{64}$", description="Refuse the range if the file differs.")
    ] = None


class ReadFilesParams(Params):
    """One to eight ranges of one Project."""

    project: fields.ProjectName
    items: Annotated[list[FileRange], Field(min_length=1, max_length=8, description="1 to 8 file ranges.")]
    with_line_numbers: Annotated[bool, Field(description="Number the lines.")] = False


class RangeText(Result):
    """The text of one range; ``sha256`` covers the whole file's bytes."""

    text: str
    format: Literal["plain", "numbered"]
    path: str
    sha256: str
    start_line: int
    limit: int
    total_lines: int
    returned_lines: int
    end_line: int | None
    has_more: bool
    next_start_line: int | None


class RangeError(Result):
    """Why one range was not read."""

    reason: str
    sha256: str | None = None


class RangeRead(Result):
    """One item of the answer, in the order asked; a refused path is not repeated."""

    index: int
    path: str | None
    success: bool
    error: RangeError | None
    output: RangeText | None


class ReadFilesResult(Result):
    """Whole items until the budget; one bad item does not fail the call (R-51)."""

    project: str
    requested_count: int
    returned_count: int
    succeeded_count: int
    failed_count: int
    items: list[RangeRead]
    output_truncated: bool
    next_index: int | None


async def _list_projects(work: Work, _params: ListProjectsParams) -> Done:
    caller, database = work.caller, work.services.database
    visible, refs = await database.read(lambda tx: _seen(tx, caller))
    if any(project.canonical not in refs for project in visible):
        refs = await database.write(lambda tx: _with_refs(tx, caller, visible))
    shown: list[Json] = [
        {
            "project": project.canonical,
            "project_ref": refs[project.canonical],
            "client_id": project.client_id,
            "name": project.name,
            "path": project.path,
            "allow_patch": project.allow_patch,
            "connected": work.services.runners.is_connected(project.client_id),
        }
        for project in visible
    ]
    return Done(
        output={"projects": shown, "returned": len(shown), "truncated": len(shown) == projects.LISTED}
    )


def _seen(tx: Transaction, caller: access.Caller) -> tuple[list[projects.Project], dict[str, str]]:
    return projects.visible(tx, caller), projects.known_refs(tx, caller.authority)


def _with_refs(tx: Transaction, caller: access.Caller, visible: list[projects.Project]) -> dict[str, str]:
    return {
        project.canonical: projects.mint_ref(tx, caller.authority, project.canonical) for project in visible
    }


def _authorize_read(tx: Transaction, caller: access.Caller, params: ReadFilesParams) -> Target:
    return Target(project=authority.project(tx, caller, params.project, changing=False))


async def _read_files(work: Work, params: ReadFilesParams) -> Done:
    project = work.target.project
    if project is None:
        raise AssertionError("read_files is authorised with a Project")
    body: dict[str, Any] = params.model_dump(exclude={"project"}, exclude_none=True)
    answer = await runner_calls.ask(work, "read_files", body)
    return Done(
        output={"project": project.canonical, **answer},
        facts=ledger.path_facts("observed", _read_paths(answer)),
    )


def _read_paths(answer: JsonObject) -> list[str]:
    items = answer.get("items")
    if not isinstance(items, list):
        return []
    return [item["path"] for item in items if isinstance(item, dict) and item.get("success") is True]


TOOLS: Final = (
    Tool(
        name="list_projects",
        category="projects",
        summary="List the Projects visible to this credential, with their canonical ids.",
        params=ListProjectsParams,
        result=ListProjectsResult,
        scopes=(Scope.PROJECT_READ,),
        recording=Recording.NONE,
        handler=_list_projects,
    ),
    Tool(
        name="read_files",
        category="projects",
        summary="Read 1 to 8 bounded line ranges of a Project's files, each with its whole-file SHA-256.",
        params=ReadFilesParams,
        result=ReadFilesResult,
        scopes=(Scope.PROJECT_READ,),
        authorize=_authorize_read,
        describe_input=lambda params: {"input_summary": f"{len(params.items)} file ranges"},
        handler=_read_files,
    ),
)
