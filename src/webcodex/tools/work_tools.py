"""Declares ``work_on_project`` (S-60): creates a Session for an instruction, or resumes exactly one."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from webcodex.core import access, ids, ledger, redaction, sessions
from webcodex.core.access import Scope
from webcodex.core.json_value import JsonObject
from webcodex.storage import projects
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.storage.projects import Project
from webcodex.tools import authority, fields, goal_gathering, session_results, workspace
from webcodex.tools.contract import (
    Annotations,
    Done,
    Effect,
    Params,
    Target,
    Tool,
    ToolError,
    Work,
)

GUIDANCE: Final = {
    "standard": (
        "Read before you change, and check the workspace before trusting a handoff. "
        "Outcomes that are not proven stay unknown: observe them, never repeat them. "
        "Name this session_id in later calls so that the work stays together, "
        "and close the Session only when the user says that the work is over."
    ),
    "minimal": "Name this session_id in later calls. Unknown outcomes are observed, never repeated.",
}


class WorkParams(Params):
    """An instruction for one Project, named by id or by Runner and path."""

    instruction: fields.Instruction
    project: fields.ProjectName | None = None
    client_id: Annotated[
        str | None, Field(pattern=r"^[A-Za-z0-9._-]{1,80}$", description="Runner of the Project at path.")
    ] = None
    path: Annotated[
        str | None, Field(min_length=1, max_length=4096, description="Absolute root of a registered Project.")
    ] = None
    session_id: Annotated[
        str | None, Field(max_length=136, description="Resume exactly this active Session.")
    ] = None
    mode: Annotated[Literal["checkout", "worktree"], Field(description="Only checkout is served.")] = (
        "checkout"
    )
    base_ref: Annotated[
        str | None, Field(min_length=1, max_length=1024, description="With mode worktree only.")
    ] = None
    guidance_profile: Annotated[
        Literal["standard", "minimal"], Field(description="How much advice the answer holds.")
    ] = "standard"
    include_extension_catalog: Annotated[bool, Field(description="Has no effect here.")] = False

    @model_validator(mode="after")
    def _names_one_target(self) -> Self:
        by_path = self.client_id is not None and self.path is not None
        has_half = (self.client_id is None) is not (self.path is None)
        if has_half or by_path is (self.project is not None):
            raise ValueError("name either project, or client_id and path")
        if self.base_ref is not None and self.mode != "worktree":
            raise ValueError("base_ref goes with mode worktree")
        return self


def new_session(
    work: Work,
    *,
    project: str | None,
    title: redaction.Kept,
    mode: sessions.Mode = sessions.Mode.NORMAL,
    guards: sessions.Guards | None = None,
) -> sessions.Session:
    """Returns a Session of the caller's group that nothing has happened in yet."""
    now = work.services.now()
    return sessions.Session(
        session_id=ids.mint("wc_sess_", work.services.entropy(ids.ENTROPY_BYTES)),
        authority=work.caller.authority,
        project=project,
        title=title.text,
        title_redacted=title.redacted,
        mode=mode,
        guards=guards or sessions.Guards(),
        lifecycle=sessions.Lifecycle.ACTIVE,
        created_at=now,
        updated_at=now,
        latest_instruction=None,
        latest_instruction_redacted=False,
        last_sequence=0,
        events_retained=0,
        meaningful_tool_calls=0,
    )


def _authorize(tx: Transaction, caller: access.Caller, params: WorkParams) -> Target:
    if params.project is None:
        project = _at_path(tx, caller, params)
    elif params.session_id is None:
        project = authority.project(tx, caller, params.project, changing=True)
    else:
        project = None
    if params.session_id is None:
        return Target(project=project)
    is_named = ids.is_session_id(params.session_id) or ids.session_ref_number(params.session_id) is not None
    if not is_named:
        raise ToolError("invalid_resume_session_id")
    wanted = params.project if project is None else project.canonical
    target = authority.session(tx, caller, params.session_id, wanted)
    if target.session is None or target.project is None:
        raise ToolError("session_project_mismatch")
    return target


def _at_path(tx: Transaction, caller: access.Caller, params: WorkParams) -> Project:
    found = projects.rooted(tx, caller, params.client_id or "", params.path or "")
    if len(found) > 1:
        raise ToolError("ambiguous_project")
    if not found:
        raise ToolError("unknown_project")
    return found[0]


async def _work(work: Work, params: WorkParams) -> Done:
    project = work.target.project
    if project is None:
        raise AssertionError("work_on_project is authorised with a Project")
    if params.mode == "worktree":
        raise ToolError("agent_capability_unavailable")
    session, number, project_ref, goals = await work.services.database.write(
        lambda tx: _begin(tx, work, project, params)
    )
    found = await workspace.read(work)
    output: JsonObject = {
        "session_id": session.session_id,
        "session_ref": f"~s{number}",
        "project": project.canonical,
        "project_ref": project_ref,
        "continuation": _continuation(work),
        "mode": "checkout",
        "lifecycle": session.lifecycle.value,
        "title": session.title,
        "guards": session.guards.shown(),
        "guidance": {"profile": params.guidance_profile, "text": GUIDANCE[params.guidance_profile]},
        "workspace": workspace.shown(found),
    }
    if goals is not None:
        output["goal_reentry"] = goals
    return Done(output=output)


def _begin(
    tx: Transaction, work: Work, project: Project, params: WorkParams
) -> tuple[sessions.Session, int, str, JsonObject | None]:
    kept = redaction.instruction(params.instruction)
    session = _resumed_or_new(tx, work, project, kept)
    now = work.services.now()
    event = ledger.Event(
        event_id=ids.mint("evt_", work.services.entropy(ids.ENTROPY_BYTES)),
        kind=ledger.Kind.TASK_INSTRUCTION,
        at=now,
        facts={
            "tool_name": "work_on_project",
            "instruction": {
                "text": kept.text,
                "redacted": kept.redacted,
                "mode": params.mode,
                "guards": session.guards.shown(),
                "continuation": _continuation(work),
            },
        },
    )
    stored_sessions.instruct(tx, session.session_id, kept.text, is_redacted=kept.redacted)
    session = stored_sessions.append(tx, session, [event], now=now)
    number = stored_sessions.ref_number(tx, session.session_id)
    is_resumed = work.target.session is not None
    goals = goal_gathering.identities(tx, work.caller, session.session_id) if is_resumed else None
    return session, number, projects.mint_ref(tx, work.caller.authority, project.canonical), goals


def _resumed_or_new(tx: Transaction, work: Work, project: Project, kept: redaction.Kept) -> sessions.Session:
    if work.target.session is None:
        session = new_session(work, project=project.canonical, title=kept)
        stored_sessions.add(tx, session)
        return session
    locked = stored_sessions.lock(tx, work.target.session.session_id)
    if locked is None or not locked.is_active:
        raise ToolError("invalid_resume_session_id")
    return locked


def _continuation(work: Work) -> str:
    return "created" if work.target.session is None else "resumed_explicitly"


WORK_ON_PROJECT: Final = Tool(
    name="work_on_project",
    category="sessions",
    summary="Begin work on a Project in a new Workflow Session, or resume exactly one by its session_id.",
    params=WorkParams,
    result=session_results.WorkResult,
    scopes=(Scope.RUNTIME_READ,),
    optional_scopes=(Scope.COMMUNICATION_READ,),
    effect=Effect.COLLABORATE,
    annotations=Annotations(read_only=False, idempotent=False),
    writes_own_events=True,
    value_words={"instruction": "invalid_coding_instruction", "session_id": "invalid_resume_session_id"},
    authorize=_authorize,
    handler=_work,
)
