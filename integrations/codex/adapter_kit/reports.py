"""One report: read from the payload, made, kept in a file, checked, and acknowledged (A-23 to A-26, A-33).

A report is bound to the configuration it was made under; no other configuration can send it elsewhere.
"""

import sys

from adapter_kit import config as configuration
from adapter_kit import json_text, limits, paths, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Event = dict[str, str | None]
    Payload = dict[str, object]

_HANDLED_EVENT = "PostToolUse"
_HASH_CHARS = "0123456789abcdef"
_HASH_LENGTH = 64
_TOOL_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"
_TOOL_LENGTH_MAX = 64
_REFUSALS = ("external_observation_conflict", "external_observation_capacity", "session_closed")
_EVENT_KEYS = {"project", "session_id", "adapter_id", "event_id", "observed_tool", "exit_code"}


def _hash_module() -> "Any":
    try:
        return __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:
        import hashlib  # loads all of OpenSSL

        return hashlib


_sha256 = _hash_module().sha256


def digest(content: bytes) -> str:
    """The SHA-256 of the content, in lower case hex."""
    return str(_sha256(content).hexdigest())


def association(config: configuration.Config) -> str:
    """What binds a report to its Server, Project, root, Session and conversation (A-26)."""
    parts = (
        config.server_url,
        config.project,
        config.project_root,
        config.workflow_session_id,
        config.local_session_id,
    )
    return digest(json_text.encode(parts))


def parsed(data: bytes) -> "Payload | None":
    """The payload of a ``PostToolUse``, or None for another event, which is ignored (A-23 #1, #2).

    Raises:
        Refused: ``input_too_large`` or ``invalid_hook_payload``.
    """
    return payload_of(data, (_HANDLED_EVENT,), "input_too_large")


def payload_of(data: bytes, events: "tuple[str, ...]", oversized: str) -> "Payload | None":
    """The payload of one of these events, or None for another.

    Raises:
        Refused: ``oversized`` is the reason if it is too long, else ``invalid_hook_payload``.
    """
    if len(data) > limits.MAX_BYTES:
        raise refusal.Refused(oversized)
    try:
        payload = json_text.decode(data)
    except ValueError:
        raise refusal.Refused("invalid_hook_payload") from None
    if not isinstance(payload, dict) or not isinstance(payload.get("hook_event_name"), str):
        raise refusal.Refused("invalid_hook_payload")
    return payload if payload["hook_event_name"] in events else None


def reported(payload: "Payload", config: configuration.Config) -> "Event":
    """The report of the tool call in the payload, every identity check passed in order (A-23 #4 to #7).

    Raises:
        Refused: with the reason of the first check that fails.
    """
    if payload.get("session_id") != config.local_session_id:
        raise refusal.Refused("local_session_mismatch")
    if not _leads_to(payload.get("cwd"), config.project_root):
        raise refusal.Refused("project_root_mismatch")
    tool_use_id, tool = payload.get("tool_use_id"), payload.get("tool_name")
    if (
        not isinstance(tool_use_id, str)
        or not configuration.is_plain_text(tool_use_id)
        or len(tool_use_id) > limits.IDENTITY_CHARS
    ):
        raise refusal.Refused("missing_tool_identity")
    if not isinstance(tool, str) or not is_tool_name(tool):
        raise refusal.Refused("invalid_tool_name")
    return _event(config, tool_use_id, tool)


def file_name(bound_to: str, event_id: str) -> str:
    """The name under which a report with this association waits (A-26)."""
    return digest((bound_to + event_id).encode()) + ".json"


def is_file_name(name: str) -> bool:
    """Whether a file of this name is a report, as far as the name tells (A-30)."""
    return name.endswith(".json") and is_digest(name[:-5])


def is_digest(value: object) -> bool:
    """Whether the value is 64 lower case hex digits (O-01)."""
    return isinstance(value, str) and len(value) == _HASH_LENGTH and not value.strip(_HASH_CHARS)


def is_tool_name(value: object) -> bool:
    """Whether the value may be reported as a tool name (O-01)."""
    return isinstance(value, str) and 1 <= len(value) <= _TOOL_LENGTH_MAX and not value.strip(_TOOL_CHARS)


def stored(bound_to: str, reported: "Event") -> bytes:
    """What the outbox keeps of a report (A-26)."""
    return json_text.encode({"association": bound_to, "event": reported})


def checked(data: bytes, name: str, config: configuration.Config) -> "Event":
    """The report that the file ``name`` holds, if it may be sent under this configuration (A-31).

    Raises:
        Refused: ``invalid_pending_file``, ``pending_association_mismatch``, ``invalid_pending_observation``.
    """
    try:
        content = json_text.decode(data)
    except ValueError:
        raise refusal.Refused("invalid_pending_file") from None
    if not isinstance(content, dict) or content.keys() != {"association", "event"}:
        raise refusal.Refused("invalid_pending_file")
    if content["association"] != association(config):
        raise refusal.Refused("pending_association_mismatch")
    found = content["event"]
    if (
        not isinstance(found, dict)
        or found.keys() != _EVENT_KEYS
        or found["project"] != config.project
        or found["session_id"] != config.workflow_session_id
        or found["adapter_id"] != _adapter_id(config)
        or not is_digest(found["event_id"])
        or not is_tool_name(found["observed_tool"])
        or found["exit_code"] is not None
        or name != file_name(content["association"], found["event_id"])
    ):
        raise refusal.Refused("invalid_pending_observation")
    return found


def require_acknowledged(answer: bytes, event: "Event") -> None:
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


def _leads_to(cwd: object, root: str) -> bool:
    if not isinstance(cwd, str) or not configuration.is_plain_text(cwd) or not paths.is_absolute(cwd):
        return False
    try:
        return cwd == root or paths.resolved(cwd) == root
    except (OSError, ValueError):
        return False


def _event(config: configuration.Config, tool_use_id: str, tool: str) -> "Event":
    """The report of one tool call of the configured conversation; its outcome is never known (A-24)."""
    return {
        "project": config.project,
        "session_id": config.workflow_session_id,
        "adapter_id": _adapter_id(config),
        "event_id": digest(f"codex-tool\0{config.local_session_id}\0{tool_use_id}".encode()),
        "observed_tool": tool,
        "exit_code": None,
    }


def _adapter_id(config: configuration.Config) -> str:
    return digest(f"codex-session\0{config.local_session_id}".encode())


def _object(answer: bytes) -> dict[str, object]:
    try:
        result = json_text.decode(answer)
    except ValueError:
        raise refusal.Refused("invalid_recording_response") from None
    if not isinstance(result, dict):
        raise refusal.Refused("invalid_recording_response")
    return result
