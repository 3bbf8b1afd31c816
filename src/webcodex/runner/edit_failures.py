"""The words in which edits are refused or end short (R-56)."""

from collections.abc import Mapping
from typing import Any, Final

from webcodex.protocol import calls
from webcodex.runner import failures

_COMPLETED: Final = calls.ExecutionState.COMPLETED
_UNKNOWN: Final = calls.ExecutionState.OUTCOME_UNKNOWN

_WORDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "edit_precondition_failed": (
        "A file is not as the edit expects; read the files again.",
        "conflict",
        "reobserve",
    ),
    "edit_text_not_found": (
        "A text to replace does not occur often enough; name one that does.",
        "invalid",
        "fix_input",
    ),
    "edit_text_ambiguous": (
        "A text to replace occurs more often than stated; name a longer one or its count.",
        "invalid",
        "fix_input",
    ),
    "edit_too_large": ("The edits are larger than allowed; make them smaller.", "invalid", "fix_input"),
    "duplicate_edit_path": (
        "Two edits name one path, or one beneath the other; name each path once.",
        "invalid",
        "fix_input",
    ),
    "invalid_path": (
        "A path is no path of this Project, leaves it or leads over a link; name one beneath its root.",
        "invalid",
        "fix_input",
    ),
    "sensitive_path": (
        "A path may hold secrets and is not edited; go on without it.",
        "invalid",
        "fix_input",
    ),
    "not_file": ("A path leads to something that is no regular file; name a file.", "invalid", "fix_input"),
    "path_conflict": (
        "A name is already there in another spelling; use the stored one.",
        "conflict",
        "fix_input",
    ),
    "invalid_utf8": ("A file to replace text in is not UTF-8; write it as a whole.", "invalid", "fix_input"),
    "path_changed": (
        "A path came to lead elsewhere while it was edited; read the files again.",
        "conflict",
        "reobserve",
    ),
    "permission_denied": (
        "The Runner may not read or change a path; have the operator look at it.",
        "unavailable",
        "user_action",
    ),
    "io_error": (
        "The files could not be written and are as before; have the operator look at the disk.",
        "unavailable",
        "user_action",
    ),
    "policy_rejected": (
        "The Project does not allow edits; have the operator allow them.",
        "unavailable",
        "user_action",
    ),
    "idempotency_conflict": (
        "The idempotency key stands for another request; use a new one.",
        "conflict",
        "fix_input",
    ),
    "idempotency_capacity": (
        "Too many idempotency keys are kept; wait, or ask without one.",
        "capacity",
        "wait",
    ),
    "edit_outcome_unknown": (
        "Whether the files were changed is unknown; compare their hashes before doing anything else.",
        "outcome_unknown",
        "reconcile",
    ),
    "edit_partially_applied": (
        "Some files were changed by somebody else meanwhile and left so; compare each with its backup.",
        "conflict",
        "reconcile",
    ),
    "edit_recovery_diverged": (
        "After an interruption some files could not be put back; compare each with its backup.",
        "conflict",
        "reconcile",
    ),
}
_ENDED: Final = frozenset({"edit_partially_applied", "edit_recovery_diverged"})
WORDS: Final = frozenset(_WORDS)


def failure(word: str, details: Mapping[str, Any] | None = None) -> calls.Failure:
    """Returns what is said for a word of R-56."""
    message, failure_kind, recovery_kind = _WORDS[word]
    return calls.Failure(
        code=word,
        message=message,
        failure_kind=failure_kind,
        recovery_kind=recovery_kind,
        details=details,
    )


def refused(word: str, details: Mapping[str, Any] | None = None) -> failures.RequestFailed:
    """Returns the refusal of a request that changed nothing and left nothing behind."""
    return failures.RequestFailed(failure(word, details))


def ended(word: str, details: Mapping[str, Any]) -> failures.RequestFailed:
    """Returns the end of a request whose outcome is known: not all was done, nor all undone."""
    assert word in _ENDED
    return failures.RequestFailed(failure(word, details), _COMPLETED)


def unknown(paths: list[str]) -> failures.RequestFailed:
    """Returns the end of a request that may have changed these paths."""
    return failures.RequestFailed(failure("edit_outcome_unknown", {"paths": paths}), _UNKNOWN)


def still_open(paths: list[str]) -> failures.RequestFailed:
    """Returns the refusal of a request because an earlier edit of these paths is not closed yet."""
    return refused("edit_outcome_unknown", {"paths": paths})


def recorded(end: failures.RequestFailed) -> dict[str, Any]:
    """Returns how the end of a request is kept for its replays."""
    failure = end.failure
    return {"error": {"code": failure.code, "details": dict(failure.details or {})}}


def replayed(kept: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer of a replay: what was answered first, and that nothing changed this time (G-07).

    Raises:
        RequestFailed: that was how it ended.

    """
    if "error" in kept:
        raise ended(kept["error"]["code"], kept["error"]["details"])
    return {**kept, "replayed": True, "state_changed": False}


def first(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer of a request that was carried out now."""
    return {**answer, "replayed": False}
