"""What a host says at ``SessionStart`` and ``UserPromptSubmit``; the prompt is never looked at (A-54)."""

from adapter_kit import limits, paths, refusal, reports, shapes

TYPE_CHECKING = False
if TYPE_CHECKING:
    Payload = dict[str, object]

SESSION_START = "SessionStart"
PROMPT = "UserPromptSubmit"
_EVENTS = (SESSION_START, PROMPT)
_IDENTITY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"


def parsed(data: bytes) -> "Payload | None":
    """The payload of a handled event, or None for another event, which is ignored.

    Raises:
        Refused: ``oversized_hook_payload`` or ``invalid_hook_payload``.
    """
    return reports.payload_of(data, _EVENTS, "oversized_hook_payload")


def conversation(payload: "Payload") -> str:
    """The local conversation's id.

    Raises:
        Refused: ``local_session_identity_required``.
    """
    found = payload.get("session_id")
    if not shapes.is_made_of(found, _IDENTITY, 1, limits.IDENTITY_CHARS):
        raise refusal.Refused("local_session_identity_required")
    return str(found)


def is_not_kept(payload: "Payload") -> bool:
    """Whether the host keeps no transcript of this conversation, as of an adapter's own title thread."""
    return "transcript_path" in payload and payload["transcript_path"] is None


def directory(path: object) -> str:
    """The resolved form of an existing absolute directory.

    Raises:
        Refused: ``canonical_directory_required``.
    """
    try:
        if isinstance(path, str) and paths.is_absolute(path) and paths.is_directory(path):
            place = paths.resolved(path)
            place.encode("utf-8")  # evidence that names it must have a UTF-8 form
            return place
    except (OSError, ValueError):  # UnicodeEncodeError is a ValueError
        pass
    raise refusal.Refused("canonical_directory_required")


def canonical_directory(path: str) -> str:
    """The path, which is an existing directory written in its resolved form (A-52).

    Raises:
        Refused: ``canonical_directory_required``.
    """
    if directory(path) != path:
        raise refusal.Refused("canonical_directory_required")
    return path
