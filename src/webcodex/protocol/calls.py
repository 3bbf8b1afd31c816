"""One request of the Server and its answer (R-41, R-42); must never know how the work is done."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from webcodex.protocol import bounds, fields, records


class ExecutionState(enum.StrEnum):
    """How far the work of a request got (R-42)."""

    NOT_STARTED = "not_started"
    OUTCOME_UNKNOWN = "outcome_unknown"
    TIMED_OUT = "timed_out"
    COMPLETED = "completed"


class Effect(enum.StrEnum):
    """Whether losing the answer to a request leaves something unknown behind (R-45)."""

    READ = "read"
    CHANGE = "change"


_EFFECTS: Final[Mapping[str, Effect]] = {
    "read_files": Effect.READ,
    "list_project_files": Effect.READ,
    "search_project_texts": Effect.READ,
    "git_status": Effect.READ,
    "workspace_changes": Effect.READ,
    "edit_project_files": Effect.CHANGE,
    "check_outputs": Effect.READ,
    "start_process_job": Effect.CHANGE,
    "stop_job": Effect.CHANGE,
    "job_snapshot": Effect.READ,
    "coding_agent": Effect.CHANGE,
}
REQUEST_KINDS: Final = frozenset(_EFFECTS)


def effect_of(kind: str, body: fields.JsonObject) -> Effect:
    """Whether a request of `kind` may change something; a coding agent is only read by `observe` (R-43)."""
    if kind == "coding_agent" and body.get("operation") == "observe":
        return Effect.READ
    return _EFFECTS.get(kind, Effect.CHANGE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """S→R: one piece of work; `budget_ms` counts from its receipt on the Runner's clock (R-41)."""

    TYPE: ClassVar = "request"
    request_id: str
    connection_id: str
    kind: str
    budget_ms: int
    requested_by: str
    created_at: int
    body: fields.JsonObject
    project_id: str | None = field(default=None, metadata=records.OMIT_NONE)

    @classmethod
    def read(cls, source: fields.Fields) -> "Request":
        """Reads the request in `source`, of any kind word: an unserved one is answered, not closed upon."""
        project_id = source.text_or_none("project_id", most=128)
        return cls(
            request_id=source.matching("request_id", bounds.IDENTITY),
            connection_id=source.matching("connection_id", bounds.IDENTITY),
            kind=source.text("kind", most=64),
            budget_ms=source.integer("budget_ms", most=bounds.MAX_BUDGET_MS),
            requested_by=source.text("requested_by", most=256),
            created_at=source.integer("created_at"),
            body=source.object("body"),
            project_id=None if project_id is None else source.matching("project_id", bounds.PROJECT_ID),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why a request has no body (R-42); `details` is what some codes add, such as the paths of R-56."""

    code: str
    message: str
    failure_kind: str
    recovery_kind: str
    details: fields.JsonObject | None = field(default=None, metadata=records.OMIT_NONE)

    @classmethod
    def read(cls, source: fields.Fields) -> "Failure":
        """Reads the failure in `source`."""
        return cls(
            code=source.text("code", most=64),
            message=source.text("message", most=512),
            failure_kind=source.text("failure_kind", most=64),
            recovery_kind=source.text("recovery_kind", most=64),
            details=source.object_or_none("details"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """R→S: the answer to one request: a body or an error, never both (R-42)."""

    TYPE: ClassVar = "result"
    request_id: str
    connection_id: str
    runner_instance_id: str
    duration_ms: int
    command_execution_state: ExecutionState
    body: fields.JsonObject | None
    error: Failure | None

    @classmethod
    def read(cls, source: fields.Fields) -> "Result":
        """Reads the result in `source`."""
        body = source.object_or_none("body")
        failed = source.object_or_none("error") is not None
        if (body is None) is not failed:
            raise fields.Malformed("result holds both or neither of body and error")
        return cls(
            request_id=source.matching("request_id", bounds.IDENTITY),
            connection_id=source.matching("connection_id", bounds.IDENTITY),
            runner_instance_id=source.matching("runner_instance_id", bounds.IDENTITY),
            duration_ms=source.integer("duration_ms"),
            command_execution_state=ExecutionState(
                source.word("command_execution_state", frozenset(ExecutionState))
            ),
            body=body,
            error=Failure.read(source.nested("error")) if failed else None,
        )
