"""What the host writes to a hook: drained first, bounded, and read for identity alone (A-04, A-23).

Tool input and output pass through here unread; nothing but identity leaves this module.
"""

import _thread
import sys
import time

from adapter_kit import config as configuration
from adapter_kit import json_text, limits, paths, refusal, reports

if sys.platform == "win32":
    import nt as system
else:
    import posix as system

TYPE_CHECKING = False
if TYPE_CHECKING:
    Payload = dict[str, object]

_STDIN = 0
_HANDLED_EVENT = "PostToolUse"


def drained(seconds: float = limits.STDIN_SECONDS) -> bytes:
    """All of stdin, or its first ``STDIN_KEPT_BYTES`` if there is more; the rest is read and dropped (A-04).

    A thread reads, since no pipe can be read with a time-out on every platform.

    Raises:
        Refused: ``invalid_hook_payload`` if stdin has not ended in ``seconds``.
    """
    found: list[bytes] = []
    ended = _thread.allocate_lock()
    ended.acquire()
    _thread.start_new_thread(_drain, (found, ended))
    if not ended.acquire(timeout=seconds) or not found:
        raise refusal.Refused("invalid_hook_payload")
    return found[0]


def drop() -> None:
    """What a host may be writing is read and dropped, so that its write does not break; a terminal is not."""
    if system.isatty(_STDIN):
        return
    try:
        drained()
    except refusal.Refused:
        return


def _drain(found: list[bytes], ended: "_thread.LockType") -> None:
    kept = b""
    try:
        while True:
            try:
                part = system.read(_STDIN, limits.RECEIVE_BYTES)
            except BlockingIOError:  # a host may hand over a pipe that does not block
                time.sleep(limits.LOCK_POLL_SECONDS)
                continue
            if not part:
                break
            kept += part[: limits.STDIN_KEPT_BYTES - len(kept)]
        found.append(kept)
    except OSError:  # stdin is closed: there is no document
        pass
    finally:
        ended.release()


def parsed(data: bytes) -> "Payload | None":
    """The payload of a ``PostToolUse``, or None for another event, which is ignored (A-23 #1, #2).

    Raises:
        Refused: ``input_too_large`` or ``invalid_hook_payload``.
    """
    if len(data) > limits.MAX_BYTES:
        raise refusal.Refused("input_too_large")
    try:
        payload = json_text.decode(data)
    except ValueError:
        raise refusal.Refused("invalid_hook_payload") from None
    if not isinstance(payload, dict) or not isinstance(payload.get("hook_event_name"), str):
        raise refusal.Refused("invalid_hook_payload")
    return payload if payload["hook_event_name"] == _HANDLED_EVENT else None


def reported(payload: "Payload", config: configuration.Config) -> "reports.Event":
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
    if not isinstance(tool, str) or not reports.is_tool_name(tool):
        raise refusal.Refused("invalid_tool_name")
    return reports.event(config, tool_use_id, tool)


def _leads_to(cwd: object, root: str) -> bool:
    if not isinstance(cwd, str) or not configuration.is_plain_text(cwd) or not paths.is_absolute(cwd):
        return False
    try:
        return cwd == root or paths.resolved(cwd) == root
    except (OSError, ValueError):
        return False
