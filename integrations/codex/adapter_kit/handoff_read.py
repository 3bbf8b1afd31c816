"""Asks the Server for the handoff of one exact Session; it reads and changes nothing (A-40, A-42)."""

from adapter_kit import brief_check, json_text, refusal
from adapter_kit import server_client as client

SECONDS = 6.0
"""The longest one request may take (A-40, A-54)."""

NOTE = (
    "Saved context only. Check the project's rules, files, Git status, Jobs and unknown operations "
    "before continuing."
)
"""What a reader is told beside a handoff (A-41)."""

_PATH = "/api/tools/call"
_TOOL = "get_session_handoff_state"


def read(
    server_url: str, authorization: str, project: str, session_id: str, deadline: client.Deadline
) -> "dict[str, object]":
    """The parts of the handoff, every check of A-40 from 3 to 10 passed; exactly one request was sent.

    Raises:
        Refused: with the reason; a read that fails proves nothing about the Session.
    """
    request = {"tool": _TOOL, "params": {"project": project, "session_id": session_id}}
    try:
        status, body = client.post(
            server_url, _PATH, authorization, json_text.encode(request), deadline.within(SECONDS)
        )
    except client.Oversized:
        raise refusal.Refused("oversized_handoff_response") from None
    except client.TransportFailure:
        raise refusal.Refused("handoff_read_unconfirmed") from None
    return brief_check.checked(status, body, project, session_id)
