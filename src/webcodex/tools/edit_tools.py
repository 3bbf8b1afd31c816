"""Declares ``edit_project_files`` (R-54): guarded edits by the Project's Runner, all or none of them.

Never says that nothing was changed once the Runner may have been asked and its answer is not known.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, NoReturn, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator

from webcodex.core import access, handoff_text, ledger, sessions
from webcodex.core.access import Scope
from webcodex.core.json_value import JsonObject
from webcodex.storage import changes
from webcodex.storage.database import Transaction
from webcodex.tools import authority, errors, fields, runner_calls
from webcodex.tools.contract import (
    Annotations,
    Begun,
    Done,
    Effect,
    Ended,
    Evidence,
    Params,
    Result,
    Target,
    Tool,
    ToolError,
    Work,
)
from webcodex.tools.ports import RunnerOutcomeUnknown, RunnerRefused, RunnerTimeout

KIND: Final = "edit_project_files"
FILE_BYTES: Final = 1024 * 1024
TOTAL_BYTES: Final = 3 * 1024 * 1024
UNKNOWN: Final = "outcome_unknown"

_INCOMPLETE: Final = frozenset({"edit_partially_applied", "edit_recovery_diverged"})
_UNPROVEN: Final = frozenset({"internal_error", "edit_outcome_unknown"})
_ADDED: Final = frozenset({"failed", "paths"})  # what R-56 lets a refusal say beside its word
_NEEDED: Final = {"create": "content", "write": "content", "replace": "replacements", "delete": None}

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[
    str, Field(description="At most 1 MiB of UTF-8.", json_schema_extra={"maxLength": FILE_BYTES})
]


class Replacement(Params):
    """A text that occurs exactly ``count`` times, and what stands there afterwards."""

    old: Annotated[str, Field(min_length=1, json_schema_extra={"maxLength": FILE_BYTES})]
    new: Text
    count: Annotated[int, Field(ge=1, description="How often old must occur, exactly.")] = 1


class Edit(Params):
    """One edit of one path; each path stands once in a call."""

    path: Annotated[str, Field(max_length=4096, description="Path relative to the Project's root, with /.")]
    op: Annotated[
        Literal["create", "write", "replace", "delete"],
        Field(description="create and write need content, replace needs replacements, delete neither."),
    ]
    expected_sha256: Annotated[
        Sha256 | None, Field(description="The file's SHA-256 before the edit; null for create.")
    ]
    content: Text | None = None
    replacements: Annotated[list[Replacement] | None, Field(min_length=1, max_length=32)] = None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        given = {name for name in ("content", "replacements") if getattr(self, name) is not None}
        needed = _NEEDED[self.op]
        if given != ({needed} if needed else set()):
            raise ValueError("content goes with create and write, replacements with replace")
        if (self.expected_sha256 is None) is not (self.op == "create"):
            raise ValueError("expected_sha256 is null for create, and only there")
        return self

    @property
    def texts(self) -> list[str]:
        """Returns every text of the edit."""
        pairs = self.replacements or []
        return [self.content or "", *(text for pair in pairs for text in (pair.old, pair.new))]


class EditParams(Params):
    """Which files of a Project change, each from a known state."""

    project: fields.ProjectName
    edits: Annotated[
        list[Edit], Field(min_length=1, max_length=16, description="1 to 16 edits, all or none.")
    ]
    idempotency_key: Annotated[
        str | None,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=128),
        Field(description="With it the same call again changes nothing twice."),
    ] = None
    session_id: fields.SessionName | None = None


class EditedFile(Result):
    """One edited file; null is no file."""

    path: str
    op: Literal["create", "write", "replace", "delete"]
    before_sha256: str | None
    after_sha256: str | None


class EditResult(Result):
    """What was done; a replay tells the first answer again (R-55, R-57)."""

    project: str
    applied: bool
    replayed: bool
    state_changed: bool
    files: list[EditedFile]
    changed_paths: list[str]


def _authorize(tx: Transaction, caller: access.Caller, params: EditParams) -> Target:
    project = authority.project(tx, caller, params.project, changing=True)
    target = Target(project=project)
    if params.session_id is not None:
        target = authority.session(tx, caller, params.session_id, project.canonical)
    if not project.allow_patch:
        raise ToolError("policy_rejected")
    return target


async def _edit(work: Work, params: EditParams) -> Done:
    _refuse_sizes(params.edits)
    try:
        answer = await runner_calls.ask(work, KIND, _body(params))
    except (RunnerOutcomeUnknown, RunnerTimeout):
        _fail_unknown(params)
    except RunnerRefused as refused:
        if refused.code not in errors.WORDS or refused.code == "edit_outcome_unknown":
            _fail_unknown(params)
        raise _refusal(refused) from None
    project = work.target.project
    assert project is not None
    output: JsonObject = {"project": project.canonical, **answer}
    try:
        result = EditResult.model_validate(output)
    except ValidationError:
        _fail_unknown(params)
    return Done(output=output, facts=_paths("changed", result.changed_paths))


def _refuse_sizes(edits: Iterable[Edit]) -> None:
    total = 0
    for edit in edits:
        try:
            edit.path.encode()
            sizes = [len(text.encode()) for text in edit.texts]
        except UnicodeEncodeError:
            raise ToolError("invalid_utf8") from None
        total += sum(sizes)
        if max(sizes) > FILE_BYTES or total > TOTAL_BYTES:
            raise ToolError("edit_too_large")


def _body(params: EditParams) -> dict[str, Any]:
    optional = ("content", "replacements")
    body: dict[str, Any] = {
        "edits": [
            {
                key: value
                for key, value in edit.model_dump().items()
                if key not in optional or value is not None
            }
            for edit in params.edits
        ]
    }
    if params.idempotency_key is not None:
        body["idempotency_key"] = params.idempotency_key
    return body


def _refusal(refused: RunnerRefused) -> ToolError:
    """Returns the Runner's refusal with what R-56 adds to it."""
    added = {key: value for key, value in refused.details.items() if key in _ADDED}
    if refused.code not in _INCOMPLETE:
        return ToolError(refused.code, **added)
    error = ToolError(refused.code, state_changed=True, **added)
    error.facts = _paths("changed", _named(added.get("paths")))
    return error


def _named(paths: object) -> list[str]:
    listed = paths if isinstance(paths, list) else []
    found = [item.get("path") if isinstance(item, Mapping) else item for item in listed]
    return [path for path in found if isinstance(path, str)]


def _fail_unknown(params: EditParams) -> NoReturn:
    targets = [edit.path for edit in params.edits]
    error = ToolError(
        "edit_outcome_unknown",
        state_changed=None,
        failure_kind=UNKNOWN,
        execution_state=UNKNOWN,
        paths=targets,
    )
    error.facts = {"failure_kind": UNKNOWN, "execution_state": UNKNOWN}
    raise error from None


def _paths(name: str, paths: Iterable[str]) -> JsonObject:
    """Returns what an event says of the paths; one that may not be shown is counted (S-12, S-24)."""
    unique = list(dict.fromkeys(paths))
    shown = [path for path in unique if handoff_text.is_shown_path(path)]
    told = ledger.path_facts(name, shown)
    if len(shown) == len(unique):
        return told
    return {f"{name}_paths": [], **told, f"{name}_total": len(unique), "paths_truncated": True}


def _begun(tx: Transaction, begun: Begun) -> None:
    project = begun.target.project
    assert project is not None
    changes.begin(tx, call_id=begun.call_id, project=project.canonical, at=begun.at)


def _ended(tx: Transaction, ended: Ended) -> JsonObject:
    """Raises the Project's counter for changed paths or an unknown outcome, and names its targets (S-42)."""
    facts = ended.facts
    # A fault of ours may have struck after the Runner was asked.
    is_unknown = facts.get("execution_state") == UNKNOWN or facts.get("error_kind") in _UNPROVEN
    raises = is_unknown or "changed_paths" in facts or facts.get("error_kind") in _INCOMPLETE
    project = ended.begun.target.project
    assert project is not None
    changes.end(tx, call_id=ended.begun.call_id, project=project.canonical, raises=raises)
    if not is_unknown:
        return {}
    targets = [edit.path for edit in ended.begun.params.edits]
    return {"execution_state": UNKNOWN, **_paths("observed", targets)}


def _unended(tx: Transaction, begun: Begun) -> None:
    """Raises the counter of a call whose end is not stored, as a restart would (S-42)."""
    changes.end_unknown(tx, call_id=begun.call_id)


def _summary(params: EditParams) -> str:
    ops = [edit.op for edit in params.edits]
    return ", ".join(f"{ops.count(op)} {op}" for op in dict.fromkeys(ops))


TOOLS: Final = (
    Tool(
        name="edit_project_files",
        category="projects",
        summary=(
            "Create, write, replace text in or delete up to 16 files of a Project, all or none of them; "
            "each edit names the SHA-256 that the file must have before it."
        ),
        params=EditParams,
        result=EditResult,
        scopes=(Scope.PROJECT_WRITE,),
        effect=Effect.WRITE,
        annotations=Annotations(read_only=False, destructive=True, idempotent=False),
        demand=sessions.Demand(writes_files=True),
        value_words={"session_id": "invalid_session_id"},
        describe_input=lambda params: {"input_summary": _summary(params)},
        authorize=_authorize,
        evidence=Evidence(begun=_begun, ended=_ended, unended=_unended),
        handler=_edit,
    ),
)
