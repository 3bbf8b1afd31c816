"""Whether a Server's answer is the handoff that was asked for; the checks of A-40 from 3 to 10, in order.

A part that breaks its contract fails the whole read with one fixed word; nothing of it is shown.
"""

from adapter_kit import (
    acceptance_check,
    external_reports_check,
    goal_context_check,
    json_text,
    refusal,
    shapes,
)

_BRIEF_BYTES = 8192
_OK = range(200, 300)
_TOOL_FAILURE = 400


def checked(status: int, body: bytes, project: str, session_id: str) -> "dict[str, object]":
    """The brief and, where they were sent, the goal context and the acceptance; other keys are dropped.

    Raises:
        Refused: with the word of the first check that fails.
    """
    output = _output(status, body)
    brief = _identified(output, project, session_id)
    if not _has_basis(brief.get("basis")):
        raise refusal.Refused("handoff_basis_missing")
    if not external_reports_check.is_valid(brief.get("external_observations")):
        raise refusal.Refused("handoff_external_observations_missing")
    if not _is_deterministic(brief):
        raise refusal.Refused("handoff_contract_invalid")
    parts: dict[str, object] = {"handoff_brief": brief}
    goal_context = output.get("goal_context")
    if goal_context is not None:
        if not goal_context_check.is_valid(goal_context):
            raise refusal.Refused("handoff_goal_context_invalid")
        parts["goal_context"] = goal_context
    if "acceptance" in output:  # null is a breach, not an absence (H-36)
        if not acceptance_check.is_valid(output["acceptance"]):
            raise refusal.Refused("handoff_acceptance_invalid")
        parts["acceptance"] = output["acceptance"]
    return parts


def _output(status: int, body: bytes) -> "dict[str, object]":
    try:
        result = json_text.decode(body)
    except ValueError:
        raise refusal.Refused("handoff_read_unconfirmed") from None
    if not isinstance(result, dict):
        raise refusal.Refused("handoff_read_unconfirmed")
    is_refused = status == _TOOL_FAILURE and result.get("success") is False
    if status not in _OK and not is_refused:
        raise refusal.Refused("handoff_read_unconfirmed")
    output = result.get("output")
    if is_refused or result.get("success") is not True or not isinstance(output, dict):
        raise refusal.Refused("handoff_read_failed")
    return output


def _identified(output: "dict[str, object]", project: str, session_id: str) -> "dict[str, object]":
    brief = output.get("handoff_brief")
    session = brief.get("session") if isinstance(brief, dict) else None
    if (
        output.get("project") != project
        or output.get("session_id") != session_id
        or not isinstance(brief, dict)
        or not isinstance(session, dict)
        or session.get("session_id") != session_id
    ):
        raise refusal.Refused("handoff_identity_mismatch")
    return brief


def _has_basis(basis: object) -> bool:
    return (
        isinstance(basis, dict)
        and isinstance(basis.get("complete"), bool)
        and isinstance(basis.get("reason_codes"), list)
        and basis["complete"] is (basis["reason_codes"] == [])
    )


def _is_deterministic(brief: "dict[str, object]") -> bool:
    return (
        shapes.is_whole(brief.get("version"), 1, 1)
        and brief.get("deterministic") is True
        and brief.get("llm_summary") is False
        and shapes.is_smaller_than(brief, _BRIEF_BYTES)
    )
