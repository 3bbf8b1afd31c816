"""Whether an acceptance is exactly what a reader may accept (H-36); it stays advisory whatever it says."""

from adapter_kit import shapes

_KEYS = ("version", "advisory", "state", "reason_codes", "source_freshness", "evidence")
_ITEM_KEYS = ("kind", "ref", "status", "at")
_KINDS = ("validation", "task_output", "job", "run", "message", "external_observation", "workspace")
_BYTES = 4096
_CODES = 16
_CODE_CHARS = 64
_ITEMS = 16
_REF_CHARS = 200
_STATUS_CHARS = 32
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_CODE = _LOWER + "0123456789_"
_CODES_BY_STATE = {
    "unknown": ("ledger_unavailable",),
    "blocked": (
        "workspace_conflict",
        "blocking_jobs",
        "recovering_jobs",
        "validation_failed",
        "open_risks",
        "outputs_missing",
        "outputs_unavailable",
    ),
    "in_progress": ("active_runs", "validation_stale", "validation_not_run", "outputs_stale"),
    "needs_attention": (
        "open_questions",
        "open_todos",
        "open_guidance",
        "basis_incomplete",
        "validation_inconclusive",
        "validation_not_requested",
        "runs_uncertain",
    ),
    "ready_for_review": (),
}
"""The states of H-33, highest class first, with the codes of each; annotations belong to none."""


def is_valid(acceptance: object) -> bool:
    """Whether the acceptance may be shown; an unlisted code of the right form is accepted."""
    return (
        isinstance(acceptance, dict)
        and shapes.is_closed(acceptance, _KEYS)
        and shapes.is_whole(acceptance["version"], 1, 1)
        and acceptance["advisory"] is True
        and acceptance["source_freshness"] == "unproven"
        and _are_codes(acceptance["reason_codes"])
        and _is_state(acceptance["state"], acceptance["reason_codes"])
        and shapes.is_counted(acceptance["evidence"], _ITEMS, _is_item)
        and _is_each_once(acceptance["evidence"]["items"])
        and shapes.is_smaller_than(acceptance, _BYTES + 1)
    )


def _are_codes(codes: object) -> bool:
    return (
        isinstance(codes, list)
        and len(codes) <= _CODES
        and all(shapes.is_made_of(code, _CODE, 1, _CODE_CHARS) and code[0] in _LOWER for code in codes)
        and codes == sorted(set(codes))
    )


def _is_state(state: object, codes: "list[str]") -> bool:
    """Whether the state is listed and no code that is known belongs to a higher class."""
    if not isinstance(state, str) or state not in _CODES_BY_STATE:
        return False
    states = list(_CODES_BY_STATE)
    higher = states[: states.index(state)]
    return not any(code in _CODES_BY_STATE[above] for above in higher for code in codes)


def _is_item(item: object) -> bool:
    return (
        isinstance(item, dict)
        and shapes.is_closed(item, _ITEM_KEYS)
        and item["kind"] in _KINDS
        and shapes.is_text(item["ref"], _REF_CHARS)
        and not shapes.has_control(item["ref"])
        and shapes.is_text(item["status"], _STATUS_CHARS)
        and (item["at"] is None or type(item["at"]) is int)
    )


def _is_each_once(items: "list[dict[str, object]]") -> bool:
    return len({(item["kind"], item["ref"]) for item in items}) == len(items)
