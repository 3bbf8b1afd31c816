"""Shows a stored Session as the tools answer it (30.1)."""

from webcodex.core import sessions
from webcodex.core.json_value import JsonObject


def shown(session: sessions.Session, number: int) -> JsonObject:
    """Returns the public fields of a Session whose reference has that number."""
    return {
        "session_id": session.session_id,
        "session_ref": f"~s{number}",
        "project": session.project,
        "title": session.title,
        "mode": session.mode.value,
        "guards": session.guards.shown(),
        "lifecycle": session.lifecycle.value,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
    }
