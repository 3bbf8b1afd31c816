"""Declares the tools that post, list and resolve Session messages (S-64 to S-66)."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from webcodex.core import access, ids, redaction
from webcodex.core import messages as core_messages
from webcodex.core.access import Scope
from webcodex.core.handoff_facts import MessageKind, MessageStatus
from webcodex.core.json_value import Json, JsonObject
from webcodex.core.messages import Message
from webcodex.core.sessions import Demand, Session
from webcodex.storage import messages
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.tools import authority, fields
from webcodex.tools.contract import (
    Annotations,
    Done,
    Effect,
    Params,
    Result,
    Target,
    Tool,
    ToolError,
    Work,
)

Kind = Literal["note", "proposal", "question", "answer", "decision", "risk", "progress", "guidance", "todo"]
Priority = Literal["low", "normal", "high"]
Status = Literal["open", "resolved"]
MessageId = Annotated[str, Field(max_length=64, description="Id of a retained message of this Session.")]
Tag = Annotated[str, Field(min_length=1, max_length=64)]
CHANGES: Final = Demand(changes_session=True)


class PostParams(Params):
    """One message for a Session; a value that holds or names a secret is replaced before it is kept."""

    session_id: fields.SessionName
    kind: Annotated[Kind, Field(description="What the message is.")]
    message: Annotated[str, Field(min_length=1, max_length=8000, description="1 to 8,000 characters.")]
    tags: Annotated[
        tuple[Tag, ...], Field(strict=False, max_length=16, description="At most 16 of 1 to 64 characters.")
    ] = ()
    reply_to: MessageId | None = None
    priority: Annotated[Priority, Field(description="How urgent it is.")] = "normal"
    requires_ack: Annotated[bool, Field(description="Whether somebody should answer.")] = False
    delivery_key: Annotated[
        str | None,
        Field(min_length=1, max_length=128, description="The same key and payload are posted once."),
    ] = None
    supersedes: MessageId | None = None


class ListParams(Params):
    """Which messages of a Session are wanted; all conditions must hold."""

    session_id: fields.SessionName
    kind: Annotated[Kind | None, Field(description="Only this kind.")] = None
    status: Annotated[Status | None, Field(description="Only this status.")] = None
    message_id: MessageId | None = None
    reply_to: MessageId | None = None
    limit: Annotated[int, Field(ge=1, le=100, description="Newest messages shown.")] = 50


class ResolveParams(Params):
    """The message that is settled."""

    session_id: fields.SessionName
    message_id: MessageId
    resolution: Annotated[str | None, Field(max_length=8000, description="How it was settled.")] = None


class MessageShown(Result):
    """One retained message (S-16)."""

    message_id: str
    session_id: str
    kind: Kind
    message: str
    tags: list[str]
    reply_to: str | None
    priority: Priority
    requires_ack: bool
    status: Status
    created_at: int
    resolved_at: int | None
    resolution: str | None
    supersedes: str | None
    superseded_by: str | None
    redacted: bool


class PostResult(Result):
    """The kept message; null when a replayed one has left since."""

    success: Literal[True]
    session_id: str
    message_id: str
    message: MessageShown | None
    replayed: bool
    state_changed: bool


class ListResult(Result):
    """The matching messages, newest first."""

    session_id: str
    total: int
    returned: int
    truncated: bool
    messages: list[MessageShown]


class ResolveResult(Result):
    """The message as it now is; the first resolution stays."""

    success: Literal[True]
    session_id: str
    message_id: str
    message: MessageShown
    already_resolved: bool
    state_changed: bool


def _authorize(tx: Transaction, caller: access.Caller, params: Any) -> Target:
    return authority.session(tx, caller, params.session_id)


async def _changed(work: Work, change: Callable[[Transaction, Session], JsonObject]) -> Done:
    def within(tx: Transaction) -> JsonObject:
        named = work.target.session
        session = None if named is None else stored_sessions.lock(tx, named.session_id)
        if session is None:
            raise ToolError("unknown_session_id")
        if not session.is_active:
            raise ToolError("session_closed")
        return change(tx, session)

    try:
        return Done(output=await work.services.database.write(within))
    except messages.Refused as refused:
        raise ToolError(refused.error_kind) from None


async def _post(work: Work, params: PostParams) -> Done:
    draft = core_messages.kept(
        kind=MessageKind(params.kind),
        message=params.message,
        tags=params.tags,
        reply_to=params.reply_to,
        priority=params.priority,
        requires_ack=params.requires_ack,
        supersedes=params.supersedes,
    )

    def post(tx: Transaction, session: Session) -> JsonObject:
        key = params.delivery_key
        known = None if key is None else messages.delivered(tx, session.session_id, key, draft)
        if known is not None:
            kept = messages.retained(tx, session.session_id)
            found = next((message for message in kept if message.message_id == known), None)
            return _posted(session, known, found, is_new=False)
        message_id = ids.mint("wc_msg_", work.services.entropy(ids.ENTROPY_BYTES))
        now = work.services.now()
        posted = messages.post(tx, session, draft, message_id=message_id, delivery_key=key, now=now)
        return _posted(session, message_id, posted, is_new=True)

    return await _changed(work, post)


def _posted(session: Session, message_id: str, message: Message | None, *, is_new: bool) -> JsonObject:
    return {
        "success": True,
        "session_id": session.session_id,
        "message_id": message_id,
        "message": None if message is None else message.shown(),
        "replayed": not is_new,
        "state_changed": is_new,
    }


async def _list(work: Work, params: ListParams) -> Done:
    session = work.target.session
    if session is None:
        raise AssertionError("list_session_messages is authorised with a Session")
    kept = await work.services.database.read(lambda tx: messages.retained(tx, session.session_id))
    matching = [message.shown() for message in reversed(kept) if _matches(message, params)]
    shown: list[Json] = list(matching[: params.limit])
    return Done(
        output={
            "session_id": session.session_id,
            "total": len(matching),
            "returned": len(shown),
            "truncated": len(shown) < len(matching),
            "messages": shown,
        }
    )


def _matches(message: Message, wanted: ListParams) -> bool:
    draft = message.draft
    return (
        wanted.kind in {None, draft.kind.value}
        and wanted.status in {None, message.status.value}
        and wanted.message_id in {None, message.message_id}
        and (wanted.reply_to is None or wanted.reply_to == draft.reply_to)
    )


async def _resolve(work: Work, params: ResolveParams) -> Done:
    def resolve(tx: Transaction, session: Session) -> JsonObject:
        kept = messages.retained(tx, session.session_id)
        message = next((item for item in kept if item.message_id == params.message_id), None)
        if message is None:
            raise ToolError("unknown_message_id")
        was_resolved = message.status is MessageStatus.RESOLVED
        if not was_resolved:
            text = None if params.resolution is None else redaction.message(params.resolution)
            message = messages.resolve(
                tx,
                message,
                resolution=None if text is None else text.text,
                redacted=text is not None and text.redacted,
                now=work.services.now(),
            )
        return {
            "success": True,
            "session_id": session.session_id,
            "message_id": message.message_id,
            "message": message.shown(),
            "already_resolved": was_resolved,
            "state_changed": not was_resolved,
        }

    return await _changed(work, resolve)


TOOLS: Final = (
    Tool(
        name="post_session_message",
        category="messages",
        summary="Post a note, decision, progress, question, risk, guidance or todo to a Workflow Session.",
        params=PostParams,
        result=PostResult,
        scopes=(Scope.SESSION_COLLABORATE,),
        effect=Effect.COLLABORATE,
        annotations=Annotations(read_only=False, idempotent=False),
        demand=CHANGES,
        value_word="invalid_session_message",
        value_words={"session_id": "invalid_session_id"},
        describe_input=lambda params: {"input_summary": f"message of kind {params.kind}"},
        authorize=_authorize,
        handler=_post,
    ),
    Tool(
        name="list_session_messages",
        category="messages",
        summary="List a Workflow Session's retained messages, newest first.",
        params=ListParams,
        result=ListResult,
        scopes=(Scope.RUNTIME_READ,),
        value_words={"session_id": "invalid_session_id"},
        authorize=_authorize,
        handler=_list,
    ),
    Tool(
        name="resolve_session_message",
        category="messages",
        summary="Mark a message of a Workflow Session resolved; the first resolution stays.",
        params=ResolveParams,
        result=ResolveResult,
        scopes=(Scope.SESSION_COLLABORATE,),
        effect=Effect.COLLABORATE,
        annotations=Annotations(read_only=False),
        demand=CHANGES,
        value_word="invalid_session_message",
        value_words={"session_id": "invalid_session_id"},
        authorize=_authorize,
        handler=_resolve,
    ),
)
