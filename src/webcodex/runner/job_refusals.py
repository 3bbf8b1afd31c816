"""The words in which a Runner refuses to start, stop or show a Job (R-57, R-60, R-63)."""

from typing import Final

from webcodex.protocol import calls
from webcodex.runner import failures

UNKNOWN: Final = calls.ExecutionState.OUTCOME_UNKNOWN

_FAILURES: Final = {
    code: calls.Failure(code=code, message=message, failure_kind=kind, recovery_kind=recovery)
    for code, kind, recovery, message in (
        (
            "job_capacity_full",
            "capacity",
            "wait",
            "As many Jobs run or wait to be taken note of as may; try again when one has ended.",
        ),
        (
            "invalid_cwd",
            "invalid",
            "fix_input",
            "The working directory is no directory that a process may start in; name another.",
        ),
        (
            "process_spawn_failed",
            "invalid",
            "fix_input",
            "The program could not be started, so nothing ran; name one that exists and can be executed.",
        ),
        (
            "policy_rejected",
            "invalid",
            "user_action",
            "The operator's policy refuses this; ask for less, or have the operator change the policy.",
        ),
        (
            "idempotency_conflict",
            "conflict",
            "fix_input",
            "The same key or Job was used with another request; take a new key.",
        ),
        (
            "idempotency_capacity",
            "capacity",
            "wait",
            "As many keys are kept as may be; try again later, or without a key.",
        ),
        (
            "runner_unavailable",
            "unavailable",
            "wait",
            "The Runner can start nothing now: it is stopping, or its machine has no room; try again later.",
        ),
        ("job_not_found", "invalid", "fix_input", "This Runner does not hold that Job; list the Jobs."),
    )
}


def refuse(
    code: str, execution: calls.ExecutionState = calls.ExecutionState.NOT_STARTED
) -> failures.RequestFailed:
    """Returns the refusal of a request for one of the words above."""
    return failures.RequestFailed(_FAILURES[code], execution)


def unproven() -> failures.RequestFailed:
    """Returns the answer where it cannot be told whether a Job was started."""
    return failures.RequestFailed(failures.INTERNAL, UNKNOWN)
