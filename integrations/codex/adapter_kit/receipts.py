"""What the Server's answer to one report proves: recorded exactly so, refused for good, or neither."""

from adapter_kit import json_text, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from adapter_kit import reports

_REFUSALS = ("external_observation_conflict", "external_observation_capacity", "session_closed")


def require_acknowledged(answer: bytes, event: "reports.Event") -> None:
    """The Server has stored exactly this report, now or before (A-33).

    Raises:
        Refused: ``invalid_recording_response`` or ``recording_not_acknowledged``.
    """
    result = _object(answer)
    output = result.get("output")
    observation = output.get("observation") if isinstance(output, dict) else None
    if not isinstance(output, dict) or not isinstance(observation, dict):
        raise refusal.Refused("invalid_recording_response")
    if (
        result.get("success") is not True
        or output.get("project") != event["project"]
        or output.get("session_id") != event["session_id"]
        or output.get("provenance") != "external_report"
        or observation.get("tool") != event["observed_tool"]
        or observation.get("adapter_id") != event["adapter_id"]
        or observation.get("event_id") != event["event_id"]
        or observation.get("exit_code", "absent") != event["exit_code"]
    ):
        raise refusal.Refused("recording_not_acknowledged")


def refusal_kind(answer: bytes) -> str | None:
    """The word with which the Server refused the report for good, or None if it did not (A-32)."""
    try:
        result = _object(answer)
    except refusal.Refused:
        return None
    output = result.get("output")
    kind = output.get("error_kind") if isinstance(output, dict) else None
    return kind if result.get("success") is False and kind in _REFUSALS else None


def _object(answer: bytes) -> dict[str, object]:
    try:
        result = json_text.decode(answer)
    except ValueError:
        raise refusal.Refused("invalid_recording_response") from None
    if not isinstance(result, dict):
        raise refusal.Refused("invalid_recording_response")
    return result
