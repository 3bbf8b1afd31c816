"""Answers `/mcp`: C-22 rows 2 to 8 here with fixed texts, the rest through the SDK (10.4 to 10.7).

Keeps nothing between two requests: no session id is issued, and none that arrives is read (M-22).
"""

import asyncio
import logging
from typing import Final

from mcp_types import methods
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from webcodex.core import access, limits
from webcodex.server import (
    answers,
    mcp_answers,
    mcp_calls,
    mcp_envelope,
    mcp_profile,
    mcp_progress,
    mcp_screening,
    request_body,
    routes,
)
from webcodex.server.answers import Answer
from webcodex.server.authentication import Authentication
from webcodex.server.mcp_answers import Breach, Code, Form, RequestId
from webcodex.server.mcp_dispatch import NO_EXTENSION, Dispatcher, Exchange, Extension, ServerFault
from webcodex.server.mcp_envelope import Headers, Revision
from webcodex.server.mcp_progress import Progress
from webcodex.server.mcp_screening import Message
from webcodex.server.mcp_stream import Reply
from webcodex.server.settings import Settings
from webcodex.tools import ports, registry
from webcodex.tools.contract import MissingScope, Refused
from webcodex.tools.ports import Services

log = logging.getLogger(__name__)

PATH: Final = "/mcp"
METHODS: Final = {
    Form.INITIALIZE: frozenset(
        {"initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read"}
    ),
    Form.STATELESS: frozenset(
        {"server/discover", "tools/list", "tools/call", "resources/list", "resources/read"}
    ),
}  # M-26, M-29

TYPE_HEADER: Final = b"content-type"
SIZE_HEADER: Final = b"content-length"
HEARD: Final = frozenset(
    {
        TYPE_HEADER,
        SIZE_HEADER,
        mcp_progress.ACCEPT_HEADER,
        mcp_envelope.VERSION_HEADER,
        mcp_envelope.METHOD_HEADER,
        mcp_envelope.NAME_HEADER,
        mcp_profile.PROFILE_HEADER,
        mcp_profile.BUDGET_HEADER,
    }
)

_SCREENED_AS: Final = "2025-11-25"  # the SDK checks every revision of the initialize era by one schema
_SIZE_DIGITS: Final = 15


class McpEndpoint:
    """The ASGI application of one path, for every method."""

    def __init__(
        self,
        services: Services,
        settings: Settings,
        authentication: Authentication,
        *,
        dispatch_s: float = limits.DISPATCH_S,
        progress_every_s: float = limits.PROGRESS_EVERY_S,
        extension: Extension = NO_EXTENSION,
    ) -> None:
        """Describes every tool once.

        ``dispatch_s`` bounds the seconds of one dispatch (M-28), ``progress_every_s`` is how often a client
        that asked for it hears of one (M-21); ``extension`` lengthens the list of methods (M-24a).
        """
        self._settings = settings
        self._authentication = authentication
        self._dispatch_s = dispatch_s
        self._progress_every_s = progress_every_s
        self._dispatcher = Dispatcher(
            services,
            compact_schemas=settings.compact_schemas,
            text_json=settings.text_json_compat,
            extension=extension,
        )
        self._extended = extension.methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the answer to one HTTP request, unless the client is gone."""
        reply = Reply(receive, send)
        try:
            answer = await self._answer(scope, receive, reply)
        except request_body.Gone:
            return
        await reply.end(answer)

    async def _answer(self, scope: Scope, receive: Receive, reply: Reply) -> Answer:
        headers = mcp_envelope.collected(scope["headers"], HEARD)
        misfit = _misfit(scope["method"], headers)
        if misfit is not None:
            return misfit
        try:
            caller = await self._authentication.caller(scope["headers"], PATH)
            body = await request_body.read(receive)
            return await self._answer_body(body, headers, caller, reply)
        except request_body.Gone:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost boundary of a request
            return routes.refusal(error, PATH)

    async def _answer_body(
        self, body: bytes, headers: Headers, caller: access.Caller, reply: Reply
    ) -> Answer:
        revision = mcp_envelope.revision(headers)
        request_id: RequestId = None
        try:
            decoded = mcp_screening.parsed(body)
            request_id = mcp_screening.valid_id(decoded)
            message = mcp_screening.message(body, decoded)
            exchange = self._exchange(message, headers, revision, caller, reply)
        except MissingScope as missing:
            return answers.error(403, str(missing))
        except Refused as refused:
            return mcp_answers.error(Breach(Code.INVALID_PARAMS, str(refused)), revision.form, request_id)
        except Breach as breach:
            return mcp_answers.error(breach, revision.form, request_id)
        if exchange is None:
            return mcp_answers.ACCEPTED
        return await self._dispatched(message, revision, exchange)

    def _exchange(
        self, message: Message, headers: Headers, revision: Revision, caller: access.Caller, reply: Reply
    ) -> Exchange | None:
        if revision.form is Form.STATELESS:
            mcp_envelope.check_stateless(message, headers, named=revision.named)
        host = mcp_profile.host(headers, self._settings)
        if message.is_notification:
            return None
        is_extended = message.method in self._extended[revision.form]
        _check_method(message, revision.form, is_extended=is_extended)
        token = mcp_progress.token(message.params, headers.get(mcp_progress.ACCEPT_HEADER, ()))
        progress = None if token is None else Progress(reply, token, self._progress_every_s)
        admitted = None
        if message.method == "tools/call" and not is_extended:
            call = mcp_calls.understood(
                message.params,
                revision.form,
                caller=caller,
                profile=host.profile,
                waits=mcp_profile.waits(host, self._settings),
                progress=ports.unheard if progress is None else progress.report,
            )
            admitted = registry.admit(call)
        return Exchange(
            caller=caller,
            profile=host.profile,
            client=mcp_envelope.client_name(message.params),
            progress=progress,
            admitted=admitted,
        )

    async def _dispatched(self, message: Message, revision: Revision, exchange: Exchange) -> Answer:
        work = self._dispatcher.serve(message, revision, exchange)
        try:
            async with asyncio.timeout(self._dispatch_s):
                if exchange.progress is None:
                    return await work
                return await exchange.progress.through(work, ends_with_client=not exchange.may_change)
        except (TimeoutError, ServerFault) as fault:
            cause = type(fault.__cause__ or fault).__name__
            log.warning("action=dispatch_failed method=%s error=%s", message.method, cause)
        if exchange.may_change:
            return self._dispatcher.unknown_outcome(message, revision.form, exchange)
        breach = Breach(Code.SERVER_FAULT, "The Server did not finish; try again")
        return mcp_answers.error(breach, revision.form, message.request_id)


def _misfit(method: str, headers: Headers) -> Answer | None:
    if method != "POST":
        return answers.wrong_method("POST")
    media_types, sizes = headers.get(TYPE_HEADER, []), headers.get(SIZE_HEADER, [])
    if len(media_types) != 1 or media_types[0].partition(";")[0].rstrip().lower() != "application/json":
        return answers.NOT_JSON_TYPE
    if any(not _fits(size) for size in sizes):
        return answers.TOO_LARGE
    return None


def _fits(size: str) -> bool:
    return size.isdigit() and len(size) <= _SIZE_DIGITS and int(size) <= limits.HTTP_BODY_BYTES


def _check_method(message: Message, form: Form, *, is_extended: bool) -> None:
    if message.method not in METHODS[form] and not is_extended:
        raise Breach(Code.UNKNOWN_METHOD, mcp_answers.UNKNOWN_METHOD)
    if form is Form.INITIALIZE:
        # A tool's arguments are structure of the tool, which is checked after its scopes (C-22).
        params = {key: value for key, value in message.params.items() if key != "arguments"}
        try:
            methods.validate_client_request(message.method, _SCREENED_AS, params)
        except ValidationError:
            raise Breach(Code.INVALID_PARAMS, mcp_answers.OTHER_PARAMS) from None
    if is_extended:
        return
    if message.params.get("cursor") is not None:
        raise Breach(Code.INVALID_PARAMS, "There are no further pages")
    if message.method == "resources/read":
        raise Breach(Code.INVALID_PARAMS, "Unknown resource")
