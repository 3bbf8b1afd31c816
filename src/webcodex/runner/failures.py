"""The words in which a Runner refuses a whole request (R-42, R-50); one item's faults are not here."""

from typing import Final

from webcodex.protocol import calls


class RequestFailed(Exception):
    """A request has no body; `execution` says how far its work got."""

    def __init__(
        self,
        failure: calls.Failure,
        execution: calls.ExecutionState = calls.ExecutionState.NOT_STARTED,
    ) -> None:
        super().__init__(failure.code)
        self.failure = failure
        self.execution = execution


TIMED_OUT: Final = calls.ExecutionState.TIMED_OUT
INVALID_ARGUMENTS: Final = calls.Failure(
    code="invalid_arguments",
    message="The request holds arguments that are not allowed; change them.",
    failure_kind="invalid",
    recovery_kind="fix_input",
)
UNKNOWN_PROJECT: Final = calls.Failure(
    code="unknown_project",
    message="This Runner does not hold that Project; list the Projects.",
    failure_kind="unavailable",
    recovery_kind="reobserve",
)
ROOT_REPLACED: Final = calls.Failure(
    code="project_root_replaced",
    message="The Project's root is no longer the registered directory; have the operator register it again.",
    failure_kind="conflict",
    recovery_kind="user_action",
)
NOT_SERVED: Final = calls.Failure(
    code="agent_capability_unavailable",
    message="This Runner does not serve requests of that kind.",
    failure_kind="unavailable",
    recovery_kind="user_action",
)
TIMEOUT: Final = calls.Failure(
    code="timeout",
    message="The time for this request passed; ask again.",
    failure_kind="unavailable",
    recovery_kind="retry_same",
)
GIT_FAILED: Final = calls.Failure(
    code="git_failed",
    message="Git cannot read this repository; have the operator look at it.",
    failure_kind="unavailable",
    recovery_kind="user_action",
)
INTERNAL: Final = calls.Failure(
    code="internal_error",
    message="The Runner failed; its log names the request.",
    failure_kind="unavailable",
    recovery_kind="user_action",
)
