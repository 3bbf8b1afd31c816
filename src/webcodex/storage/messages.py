"""Remembers Session messages and which delivery keys were used (30.4, S-64)."""

import json
from dataclasses import replace
from typing import Final

from sqlalchemy import bindparam, delete, insert, select, update

from webcodex.core import messages as core_messages
from webcodex.core.handoff_facts import MessageKind, MessageStatus
from webcodex.core.messages import Draft, Message
from webcodex.core.sessions import Session
from webcodex.storage import schema
from webcodex.storage.database import Transaction
from webcodex.storage.statements import Prepared, Row

_table: Final = schema.session_messages
_deliveries: Final = schema.message_deliveries
_OF_SESSION: Final = Prepared(
    select(_table)
    .where(_table.c.session_id == bindparam("session_id"))
    .order_by(_table.c.position)
    .limit(core_messages.RETAINED)
)
_DELIVERY: Final = Prepared(
    select(_deliveries).where(
        _deliveries.c.session_id == bindparam("session_id"),
        _deliveries.c.delivery_key == bindparam("delivery_key"),
    )
)
_REVISED: Final = Prepared(
    update(schema.sessions)
    .where(schema.sessions.c.session_id == bindparam("id"))
    .values(
        messages_posted=schema.sessions.c.messages_posted + bindparam("posted"),
        message_revision=schema.sessions.c.message_revision + 1,
        updated_at=bindparam("now"),
    )
)


class Refused(Exception):
    """The message is not stored or changed; ``error_kind`` says why."""

    def __init__(self, error_kind: str) -> None:
        super().__init__(error_kind)
        self.error_kind = error_kind


def retained(tx: Transaction, session_id: str) -> list[Message]:
    """Returns the retained messages of a Session, oldest first."""
    return [_message(row) for row in tx.all(_OF_SESSION, {"session_id": session_id})]


def delivered(tx: Transaction, session_id: str, delivery_key: str, draft: Draft) -> str | None:
    """Returns the id of the message that was posted under this key before, or none (S-64).

    Raises:
        Refused: another payload was.

    """
    row = tx.one(_DELIVERY, {"session_id": session_id, "delivery_key": delivery_key})
    if row is None:
        return None
    if row.payload_hash != core_messages.payload_hash(draft):
        raise Refused("idempotency_conflict")
    return str(row.message_id)


def post(
    tx: Transaction, session: Session, draft: Draft, *, message_id: str, delivery_key: str | None, now: int
) -> Message:
    """Stores a message, supersedes the one it names, evicts one where there is no room (S-16, S-18).

    Raises:
        Refused: an unknown or unfit message is named, or none may leave.

    """
    kept = retained(tx, session.session_id)
    replaced = _check_references(kept, draft)
    try:
        leaving = core_messages.leaving(kept)
    except core_messages.AtCapacity:
        raise Refused("session_message_capacity") from None
    if leaving is not None:
        tx.change(delete(_table).where(_table.c.message_id == leaving.message_id))
    message = Message(
        session_id=session.session_id,
        message_id=message_id,
        position=session.messages_posted + 1,
        draft=draft,
        status=MessageStatus.OPEN,
        created_at=now,
        resolved_at=None,
        resolution=None,
        resolution_redacted=False,
        superseded_by=None,
    )
    tx.change(insert(_table), _row(message))
    if replaced is not None:
        by_id = _table.c.message_id == replaced.message_id
        tx.change(update(_table).where(by_id).values(superseded_by=message_id))
    if delivery_key is not None:
        tx.change(
            insert(_deliveries),
            {
                "session_id": session.session_id,
                "delivery_key": delivery_key,
                "payload_hash": core_messages.payload_hash(draft),
                "message_id": message_id,
            },
        )
    tx.change(_REVISED, {"id": session.session_id, "posted": 1, "now": now})
    return message


def resolve(
    tx: Transaction, message: Message, *, resolution: str | None, redacted: bool, now: int
) -> Message:
    """Stores that an open message is resolved and returns it as it now is (S-66)."""
    resolved = replace(
        message,
        status=MessageStatus.RESOLVED,
        resolved_at=now,
        resolution=resolution,
        resolution_redacted=redacted,
    )
    tx.change(update(_table).where(_table.c.message_id == message.message_id).values(_row(resolved)))
    tx.change(_REVISED, {"id": message.session_id, "posted": 0, "now": now})
    return resolved


def _check_references(kept: list[Message], draft: Draft) -> Message | None:
    by_id = {message.message_id: message for message in kept}
    for named in (draft.reply_to, draft.supersedes):
        if named is not None and named not in by_id:
            raise Refused("unknown_message_id")
    if draft.supersedes is None:
        return None
    replaced = by_id[draft.supersedes]
    if replaced.draft.kind is not draft.kind or replaced.superseded_by is not None:
        raise Refused("invalid_session_message")
    return replaced


def _row(message: Message) -> dict[str, object]:
    draft = message.draft
    return {
        "session_id": message.session_id,
        "position": message.position,
        "message_id": message.message_id,
        "kind": draft.kind.value,
        "message": draft.message,
        "tags": json.dumps(draft.tags, ensure_ascii=False),
        "reply_to": draft.reply_to,
        "priority": draft.priority,
        "requires_ack": draft.requires_ack,
        "supersedes": draft.supersedes,
        "redacted": draft.redacted,
        "status": message.status.value,
        "created_at": message.created_at,
        "resolved_at": message.resolved_at,
        "resolution": message.resolution,
        "resolution_redacted": message.resolution_redacted,
        "superseded_by": message.superseded_by,
    }


def _message(row: Row) -> Message:
    draft = Draft(
        kind=MessageKind(row.kind),
        message=row.message,
        tags=tuple(json.loads(row.tags)),
        reply_to=row.reply_to,
        priority=row.priority,
        requires_ack=row.requires_ack,
        supersedes=row.supersedes,
        redacted=row.redacted,
    )
    return Message(
        session_id=row.session_id,
        message_id=row.message_id,
        position=row.position,
        draft=draft,
        status=MessageStatus(row.status),
        created_at=row.created_at,
        resolved_at=row.resolved_at,
        resolution=row.resolution,
        resolution_redacted=row.resolution_redacted,
        superseded_by=row.superseded_by,
    )
