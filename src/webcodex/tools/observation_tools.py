"""Declares the two tools of external reports (50.1): a claim is stored and listed, never judged."""

from typing import Annotated, Final, Literal

from pydantic import Field

from webcodex.core import access, evidence
from webcodex.core import observations as core_observations
from webcodex.core.access import Scope
from webcodex.core.json_value import JsonObject
from webcodex.core.observations import Refusal, Report
from webcodex.storage import observations
from webcodex.storage.database import StoreError, Transaction
from webcodex.tools import authority, fields
from webcodex.tools.contract import (
    Annotations,
    Audience,
    Done,
    Effect,
    Params,
    Recording,
    Result,
    Target,
    Tool,
    ToolError,
    Work,
)

INT32: Final = 2**31


class RecordParams(Params):
    """One external report (O-01)."""

    project: fields.CanonicalProject
    session_id: fields.CanonicalSession
    adapter_id: fields.Digest
    event_id: fields.Digest
    observed_tool: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$", description="Name of the tool that was used.")
    ]
    exit_code: Annotated[
        int | None,
        Field(ge=-INT32, lt=INT32, description="Reported exit code; absent means the outcome is unknown."),
    ] = None


class ListParams(Params):
    """The Session whose reports are listed."""

    project: fields.CanonicalProject
    session_id: fields.CanonicalSession


class ObservationShown(Result):
    """One stored report (O-08)."""

    adapter_id: str
    event_id: str
    tool: str
    exit_code: int | None
    recorded_at: int
    status: Literal["unknown", "reported_success", "reported_failure"]


class Coverage(Result):
    """What is known of the source's order: never complete (O-07)."""

    complete: Literal[False]
    reason: Literal["source_sequence_unavailable", "read_unavailable"]
    ordering: Literal["server_recorded_at_then_identity"]


class RecordResult(Result):
    """The stored report; ``inserted`` is false for an exact replay (O-05)."""

    session_id: str
    project: str
    provenance: Literal["external_report"]
    inserted: bool
    observation: ObservationShown


class ListResult(Result):
    """Every retained report of the Session (O-06)."""

    session_id: str
    project: str
    provenance: Literal["external_report"]
    coverage: Coverage
    observations: list[ObservationShown]


def _authorize(tx: Transaction, caller: access.Caller, params: RecordParams | ListParams) -> Target:
    return authority.session(tx, caller, params.session_id, params.project, canonical=True)


async def _record(work: Work, params: RecordParams) -> Done:
    report = Report(
        session_id=params.session_id,
        project=params.project,
        adapter_id=params.adapter_id,
        event_id=params.event_id,
        tool=params.observed_tool,
        exit_code=params.exit_code,
    )
    try:
        stored, inserted = await work.services.database.write(
            lambda tx: observations.record(tx, report, work.services.now())
        )
    except observations.Refused as refused:
        raise _refusal(refused.reason) from None
    except StoreError:
        raise _uncertain() from None
    return Done(
        output={**_heading(params), "inserted": inserted, "observation": core_observations.shown(stored)}
    )


async def _list(work: Work, params: ListParams) -> Done:
    stored = await work.services.database.read(
        lambda tx: observations.listed(tx, params.session_id, params.project)
    )
    shown = [core_observations.shown(observation) for observation in stored]
    return Done(output={**_heading(params), "coverage": evidence.external_coverage(), "observations": shown})


def _heading(params: RecordParams | ListParams) -> JsonObject:
    return {
        "session_id": params.session_id,
        "project": params.project,
        "provenance": evidence.EXTERNAL_REPORT,
    }


def _refusal(reason: Refusal) -> ToolError:
    if reason is Refusal.CONFLICT:
        return ToolError(reason.value, failure_kind="conflict")
    if reason is Refusal.CAPACITY:
        advice = "No report can be removed; continue in a new Workflow Session and report there."
        return ToolError(reason.value, failure_kind="capacity", recovery=advice)
    return ToolError(reason.value)


def _uncertain() -> ToolError:
    return ToolError(
        "external_observation_storage_uncertain",
        state_changed=None,
        failure_kind="outcome_unknown",
        retry_same_event_identity=True,
        recovery="Send the same report again; an exact replay is never stored twice.",
    )


def _record_unavailable() -> ToolError:
    kind = "external_observation_store_unavailable"
    return ToolError(kind, recovery_kind="retry_same", retry_same_event_identity=True)


TOOLS: Final = (
    Tool(
        name="record_external_observation",
        category="observations",
        summary="Store one bounded external report: the claim that a tool was used elsewhere.",
        params=RecordParams,
        result=RecordResult,
        scopes=(Scope.SESSION_COLLABORATE,),
        audience=Audience.ADAPTER,
        recording=Recording.NONE,
        effect=Effect.COLLABORATE,
        annotations=Annotations(read_only=False),
        value_word="invalid_external_observation",
        authorize=_authorize,
        store_failure=_record_unavailable,
        handler=_record,
    ),
    Tool(
        name="list_external_observations",
        category="observations",
        summary="List a Workflow Session's external reports: claims with incomplete coverage, no verdicts.",
        params=ListParams,
        result=ListResult,
        scopes=(Scope.RUNTIME_READ,),
        recording=Recording.NONE,
        value_words={"project": "session_project_mismatch", "session_id": "invalid_session_id"},
        authorize=_authorize,
        store_failure=lambda: ToolError("external_observation_store_unavailable"),
        handler=_list,
    ),
)
