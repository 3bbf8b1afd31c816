"""Gathers the facts of a Session inside a read transaction; each source fails alone (H-02).

Whatever projects a Session's standing gathers here: the brief and the rows of the console.
"""

from webcodex.core import handoff_facts, limits, sessions
from webcodex.core import messages as core_messages
from webcodex.core.handoff_facts import Count, Fence, HandoffFacts, Missing, OutputCheck, ReportsMissing
from webcodex.core.json_value import JsonObject
from webcodex.storage import jobs, messages, observations, validations
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import StoreError, Transaction
from webcodex.tools.contract import ToolError


def gather(
    tx: Transaction,
    session_id: str,
    *,
    workspace: handoff_facts.WorkspaceFacts,
    wants_validation: bool,
    before: Fence | None,
) -> HandoffFacts:
    """Returns everything a brief is made from; ``before`` is the fence of the time the Runner was asked.

    Raises:
        ToolError: the Session is gone.

    """
    session = stored_sessions.find(tx, session_id)
    if session is None:
        raise ToolError("unknown_session_id")
    changed: frozenset[handoff_facts.Changed] = frozenset()
    if before is not None:
        changed = handoff_facts.changed_between(before, fence(tx, session_id))
    validation, output_check = _proofs(tx, session_id, wants_validation=wants_validation)
    return HandoffFacts(
        session=session,
        ledger=_ledger(tx, session),
        messages=_messages(tx, session_id),
        validation=validation,
        jobs=_jobs(tx, session_id),
        workspace=workspace,
        reports=_reports(tx, session),
        changed=changed,
        output_check=output_check,
    )


def gather_for_row(tx: Transaction, session: sessions.Session) -> HandoffFacts:
    """Returns what the standing of a Session is made from, without the Runner and without its paths (M-46).

    Paths and external reports move no state (H-09, H-15), so a row does not read them.
    """
    validation, _ = _proofs(tx, session.session_id, wants_validation=True)
    return HandoffFacts(
        session=session,
        ledger=handoff_facts.Ledger(),
        messages=_messages(tx, session.session_id),
        validation=validation,
        jobs=_jobs(tx, session.session_id),
        workspace=Missing.WORKSPACE_NOT_REQUESTED,
        reports=(),
    )


def events(tx: Transaction, session_id: str) -> list[JsonObject]:
    """Returns every kept event, oldest first, or none where they cannot be read; ``gather`` tells which."""
    try:
        return tx.attempt(lambda: stored_sessions.newest_events(tx, session_id, limits.SESSION_EVENTS))
    except StoreError:
        return []


def fence(tx: Transaction, session_id: str) -> Fence:
    """Returns what is compared before the Runner is asked and after (H-40)."""
    session = stored_sessions.find(tx, session_id)
    try:
        reports: int | Count = tx.attempt(lambda: observations.count(tx, session_id))
    except StoreError:
        reports = Count.UNREADABLE
    return Fence(
        events_total=0 if session is None else session.last_sequence,
        message_revision=Count.UNREADABLE if session is None else session.message_revision,
        report_count=reports,
    )


def _ledger(tx: Transaction, session: sessions.Session) -> handoff_facts.LedgerFacts:
    try:
        events = tx.attempt(lambda: stored_sessions.events_with_paths(tx, session.session_id))
    except StoreError:
        return Missing.LEDGER
    return handoff_facts.Ledger(
        events=tuple(handoff_facts.path_event(event) for event in events),
        events_evicted=session.last_sequence - session.events_retained,
    )


def _messages(tx: Transaction, session_id: str) -> handoff_facts.MessageFacts:
    try:
        kept = tx.attempt(lambda: messages.retained(tx, session_id))
    except StoreError:
        return Missing.MESSAGES
    return tuple(core_messages.fact(message) for message in kept)


def _jobs(tx: Transaction, session_id: str) -> handoff_facts.JobFacts:
    try:
        return tx.attempt(lambda: jobs.facts(tx, session_id))
    except StoreError:
        return Missing.JOBS


def _proofs(
    tx: Transaction, session_id: str, *, wants_validation: bool
) -> tuple[handoff_facts.ValidationFacts, OutputCheck]:
    """Returns the validation and the newest output check; one unreadable check makes both missing (H-02)."""
    try:
        output_check = tx.attempt(lambda: validations.output_check(tx, session_id))
        if not wants_validation:
            return Missing.VALIDATION_NOT_REQUESTED, output_check
        return tx.attempt(lambda: validations.facts(tx, session_id)), output_check
    except StoreError:
        return Missing.VALIDATION if wants_validation else Missing.VALIDATION_NOT_REQUESTED, OutputCheck()


def _reports(tx: Transaction, session: sessions.Session) -> handoff_facts.ReportFacts:
    project = session.project
    if project is None:
        return ReportsMissing.SESSION_WITHOUT_PROJECT
    try:
        return tuple(tx.attempt(lambda: observations.listed(tx, session.session_id, project)))
    except StoreError:
        return ReportsMissing.STORE
