"""Whether the block of external reports in a brief is exactly what H-14 and O-08 allow."""

from adapter_kit import shapes

_KEYS = (
    "status",
    "reason_code",
    "provenance",
    "coverage",
    "total",
    "returned",
    "truncated",
    "unknown_count",
    "observations",
)
_ITEM_KEYS = ("adapter_id", "event_id", "tool", "exit_code", "recorded_at", "status")
_REASONS = ("session_project_unavailable", "store_unavailable", "projection_unavailable")
_ORDERING = "server_recorded_at_then_identity"
_HEX = "0123456789abcdef"
_KEY_CHARS = 64
_TOOL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"
_TOOL_CHARS = 64
_RETAINED = 256
_SHOWN = 5
_INT32 = 2**31


def is_valid(block: object) -> bool:
    """Whether the block may be shown as a Server's account of external reports."""
    if not isinstance(block, dict) or not shapes.is_closed(block, _KEYS):
        return False
    if block["provenance"] != "external_report":
        return False
    if block["status"] == "available":
        return _is_available(block)
    return block["status"] == "unavailable" and _is_unavailable(block)


def _is_unavailable(block: "dict[str, object]") -> bool:
    nulls = ("total", "returned", "truncated", "unknown_count", "observations")
    return (
        block["reason_code"] in _REASONS
        and _is_incomplete(block["coverage"], "read_unavailable")
        and all(block[key] is None for key in nulls)
    )


def _is_available(block: "dict[str, object]") -> bool:
    total, shown, unknown = block["total"], block["observations"], block["unknown_count"]
    if (
        block["reason_code"] is not None
        or not _is_incomplete(block["coverage"], "source_sequence_unavailable")
        or not isinstance(total, int)
        or not shapes.is_whole(total, 0, _RETAINED)
        or not isinstance(shown, list)
        or not all(_is_observation(item) for item in shown)
    ):
        return False
    returned = min(_SHOWN, total)
    unknown_shown = sum(item["status"] == "unknown" for item in shown)
    return (
        len(shown) == returned
        and shapes.is_whole(block["returned"], returned, returned)
        and block["truncated"] is (returned < total)
        and shapes.is_whole(unknown, unknown_shown, unknown_shown + total - returned)
        and _is_in_order(shown)
    )


def _is_incomplete(coverage: object, reason: str) -> bool:
    return (
        isinstance(coverage, dict)
        and shapes.is_closed(coverage, ("complete", "reason", "ordering"))
        and coverage["complete"] is False
        and coverage["reason"] == reason
        and coverage["ordering"] == _ORDERING
    )


def _is_observation(item: object) -> bool:
    if not isinstance(item, dict) or not shapes.is_closed(item, _ITEM_KEYS):
        return False
    code = item["exit_code"]
    return (
        shapes.is_made_of(item["adapter_id"], _HEX, _KEY_CHARS, _KEY_CHARS)
        and shapes.is_made_of(item["event_id"], _HEX, _KEY_CHARS, _KEY_CHARS)
        and shapes.is_made_of(item["tool"], _TOOL, 1, _TOOL_CHARS)
        and (code is None or shapes.is_whole(code, -_INT32, _INT32 - 1))
        and shapes.is_whole(item["recorded_at"], 1)
        and item["status"] == _status(code)
    )


def _status(exit_code: object) -> str:
    if exit_code is None:
        return "unknown"
    return "reported_success" if exit_code == 0 else "reported_failure"


def _is_in_order(shown: "list[dict[str, object]]") -> bool:
    """Whether the reports stand oldest first, each once."""
    places = [(item["recorded_at"], item["adapter_id"], item["event_id"]) for item in shown]
    identities = {place[1:] for place in places}
    return places == sorted(places) and len(identities) == len(places)
