"""Checks what a named Session or Project is to the caller, in the order of C-16 and C-20."""

from webcodex.core import access, ids, sessions
from webcodex.storage import projects
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.storage.projects import Project
from webcodex.tools.contract import Target, ToolError


def session(
    tx: Transaction, caller: access.Caller, name: str, project: str | None = None, *, canonical: bool = False
) -> Target:
    """Returns the Session that ``name`` selects, with its Project, if it is the caller's (C-20).

    With ``canonical`` no reference is accepted, since its meaning depends on the credential (S-02, C-16).

    Raises:
        ToolError: the first check that fails.

    """
    found = _existing(tx, caller, name, canonical=canonical)
    own = None
    if found.project is not None:
        own = projects.find(tx, caller, found.project)
        if own is None:
            raise ToolError("unknown_project")
    is_named = project is None or project == found.project
    if not is_named and (canonical or not _selects(tx, caller, project, own)):
        raise ToolError("session_project_mismatch")
    if found.authority != caller.authority:
        raise ToolError("session_authority_denied")
    return Target(session=found, project=own)


def _existing(tx: Transaction, caller: access.Caller, name: str, *, canonical: bool) -> sessions.Session:
    number = None if canonical else ids.session_ref_number(name)
    if number is not None:
        resolved = stored_sessions.of_ref(tx, caller.authority, number)
        if resolved is None:
            raise ToolError("unknown_session_ref")
        name = resolved
    elif not ids.is_session_id(name):
        raise ToolError("invalid_session_id")
    found = stored_sessions.find(tx, name)
    if found is None:
        raise ToolError("unknown_session_id")
    return found


def _selects(tx: Transaction, caller: access.Caller, name: str | None, own: Project | None) -> bool:
    number = ids.project_ref_number(name or "")
    if number is None or own is None:
        return False
    return projects.of_ref(tx, caller.authority, number) == own.canonical


def project(tx: Transaction, caller: access.Caller, name: str, *, changing: bool) -> Project:
    """Returns the visible Project that ``name`` selects (C-16).

    Raises:
        ToolError: unknown, ambiguous, or a short name where something would change.

    """
    number = ids.project_ref_number(name)
    canonical = projects.of_ref(tx, caller.authority, number) if number is not None else name
    if canonical is not None and canonical.startswith("agent:"):
        found = projects.find(tx, caller, canonical)
        if found is None:
            raise ToolError("unknown_project")
        return found
    if number is not None:
        raise ToolError("unknown_project")
    if changing:
        raise ToolError("invalid_project")
    matching = projects.named(tx, caller, name)
    if len(matching) > 1:
        raise ToolError("ambiguous_project")
    if not matching:
        raise ToolError("unknown_project")
    return matching[0]
