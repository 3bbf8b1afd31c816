"""Says what a Session message is and which one leaves to make room (30.4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from webcodex.core import handoff_facts, idempotency, redaction
from webcodex.core.handoff_facts import MessageKind, MessageStatus
from webcodex.core.json_value import JsonObject

RETAINED: Final = 200  # S-18


class AtCapacity(Exception):
    """Every retained message is an open attention message; none may leave (S-18)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A message as it will be kept: secrets are already replaced (S-23)."""

    kind: MessageKind
    message: str
    tags: tuple[str, ...]
    reply_to: str | None
    priority: str
    requires_ack: bool
    supersedes: str | None
    redacted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One retained message (S-16); times are Unix s."""

    session_id: str
    message_id: str
    position: int
    draft: Draft
    status: MessageStatus
    created_at: int
    resolved_at: int | None
    resolution: str | None
    resolution_redacted: bool
    superseded_by: str | None

    @property
    def needs_attention(self) -> bool:
        """Says whether this is an attention message (S-17)."""
        return fact(self).needs_attention

    def shown(self) -> JsonObject:
        """Returns the public form."""
        draft = self.draft
        return {
            "message_id": self.message_id,
            "session_id": self.session_id,
            "kind": draft.kind.value,
            "message": draft.message,
            "tags": list(draft.tags),
            "reply_to": draft.reply_to,
            "priority": draft.priority,
            "requires_ack": draft.requires_ack,
            "status": self.status.value,
            "created_at": self.created_at,
            "resolved_at": self.resolved_at,
            "resolution": self.resolution,
            "supersedes": draft.supersedes,
            "superseded_by": self.superseded_by,
            "redacted": draft.redacted or self.resolution_redacted,
        }


def kept(
    *,
    kind: MessageKind,
    message: str,
    tags: Iterable[str],
    reply_to: str | None,
    priority: str,
    requires_ack: bool,
    supersedes: str | None,
) -> Draft:
    """Returns the message with each value that holds or names a secret replaced as a whole (S-23)."""
    text, labels = redaction.message(message), [redaction.message(tag) for tag in tags]
    return Draft(
        kind=kind,
        message=text.text,
        tags=tuple(label.text for label in labels),
        reply_to=reply_to,
        priority=priority,
        requires_ack=requires_ack,
        supersedes=supersedes,
        redacted=text.redacted or any(label.redacted for label in labels),
    )


def payload_hash(draft: Draft) -> str:
    """Returns what two posts under one ``delivery_key`` must have in common (S-64)."""
    payload: JsonObject = {
        "kind": draft.kind.value,
        "message": draft.message,
        "tags": list(draft.tags),
        "reply_to": draft.reply_to,
        "priority": draft.priority,
        "requires_ack": draft.requires_ack,
        "supersedes": draft.supersedes,
    }
    return idempotency.request_hash(payload)


def leaving(retained: Sequence[Message]) -> Message | None:
    """Returns the message that leaves before one more is kept, or none while there is room (S-18).

    ``retained`` stands oldest first: the oldest resolved one leaves, else the oldest without attention.

    Raises:
        AtCapacity: none may leave.

    """
    if len(retained) < RETAINED:
        return None
    resolved = (message for message in retained if message.status is MessageStatus.RESOLVED)
    quiet = (message for message in retained if not message.needs_attention)
    found = next(resolved, None) or next(quiet, None)
    if found is None:
        raise AtCapacity("every retained message is open and needs attention")
    return found


def fact(message: Message) -> handoff_facts.Message:
    """Returns what a handoff knows of the message (H-06)."""
    return handoff_facts.Message(
        message_id=message.message_id,
        kind=message.draft.kind,
        text=message.draft.message,
        redacted=message.draft.redacted,
        status=message.status,
        superseded=message.superseded_by is not None,
        created_at=message.created_at,
    )


def counts(retained: Sequence[Message], posted: int) -> JsonObject:
    """Returns the message counts of a Session's summary (S-63)."""
    waiting = [message.draft.kind for message in retained if message.needs_attention]
    return {
        "total": posted,
        "retained": len(retained),
        "evicted": posted - len(retained),
        "open": sum(message.status is MessageStatus.OPEN for message in retained),
        "open_guidance": waiting.count(MessageKind.GUIDANCE),
        "open_risks": waiting.count(MessageKind.RISK),
        "open_questions": waiting.count(MessageKind.QUESTION),
        "open_todos": waiting.count(MessageKind.TODO),
    }
