"""Declares what ``run_process`` takes and answers, and how a Job is shown (R-60, R-61)."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from webcodex.core import redaction
from webcodex.tools import fields
from webcodex.tools.contract import Params, Result

STDIN_BYTES: Final = 64 * 1024
ARGUMENT_CHARS: Final = 128 * 1024
"""What Linux lets one argument be."""


def _within_stdin_bytes(value: str) -> str:
    if len(value.encode()) > STDIN_BYTES:
        raise ValueError("at most 64 KiB of UTF-8")
    return value


def _without_credential(value: str) -> str:
    if redaction.holds_credential(value):
        raise ValueError("a name without a credential")
    return value


def _names_a_program(value: list[str]) -> list[str]:
    if not value[0]:
        raise ValueError("the first argument is the program")
    for argument in value:
        argument.encode()
    return value


State = Literal[
    "queued",
    "agent_queued",
    "running",
    "stop_requested",
    "recovering",
    "completed",
    "failed",
    "stopped",
    "timed_out",
    "lost",
    "cancelled",
]
Purpose = Literal["work", "validation", "service"]


class RunParams(Params):
    """Which program runs where, for how long and what for."""

    project: fields.ProjectName
    argv: Annotated[
        list[Annotated[str, Field(max_length=ARGUMENT_CHARS)]],
        Field(min_length=1, max_length=256, description="Program and arguments; no shell is added."),
        AfterValidator(_names_a_program),
    ]
    cwd: Annotated[
        str, Field(max_length=4096, description='Start in this directory of the Project; "" is the root.')
    ] = ""
    stdin: Annotated[
        str | None,
        AfterValidator(lambda value: value if value is None else _within_stdin_bytes(value)),
        Field(description="Input, at most 64 KiB of UTF-8; without it there is none."),
    ] = None
    timeout_secs: Annotated[
        int, Field(ge=1, le=3600, description="The process is ended after this time.")
    ] = 60
    purpose: Annotated[
        Purpose, Field(description="validation for tests and checks, service for what keeps running.")
    ] = "work"
    validation_scope: Annotated[
        str | None,
        StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$"),
        AfterValidator(lambda value: value if value is None else _without_credential(value)),
        Field(
            description="With purpose validation: what is checked, such as unit-tests. "
            "Same word, same check: its newest result counts, whatever argv."
        ),
    ] = None
    session_id: fields.SessionName | None = None
    idempotency_key: Annotated[
        str | None,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=128),
        Field(description="With it the same call again is the same Job and starts nothing."),
    ] = None


class JobFacts(Result):
    """A Job without its log; null is unknown, or not yet."""

    job_id: str
    project: str
    purpose: Purpose
    state: State
    exit_code: int | None
    signal: str | None
    created_at: int
    started_at: int | None
    finished_at: int | None
    timeout_secs: int
    update_seq: int
    reason_code: str | None
    recovered_after_server_restart: bool
    recovery_reason_code: str | None


class JobLog(Result):
    """The newest output, stdout and stderr as they came; ``truncated`` says that older text was dropped."""

    tail: str
    first_retained_line: int
    next_line: int
    truncated: bool


class LoggedJob(JobFacts):
    """A Job with its log."""

    log: JobLog


class RunResult(Result):
    """The Job as far as it got; a tail is null where its Runner did not tell the two streams apart."""

    job: LoggedJob
    completed: Annotated[bool, Field(description="False: it still goes on; follow it by observe_jobs.")]
    replayed: bool
    stdout_tail: str | None
    stderr_tail: str | None
