"""Takes a request through C-22 rows 2 to 5 and sends whatever its route answers.

A route is an ASGI callable behind ``HttpGuard``. It computes the whole answer before it sends anything, so a
fault inside becomes one fixed sentence.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from webcodex.core import access, limits
from webcodex.server import answers, authentication, request_body
from webcodex.server.authentication import Authentication

log = logging.getLogger(__name__)

Respond = Callable[[access.Caller, dict[str, Any]], Awaitable[answers.Answer]]

_FIXED: Final[dict[type[Exception], answers.Answer]] = {
    authentication.Unauthorized: answers.UNAUTHORIZED,
    request_body.TooLarge: answers.TOO_LARGE,
    request_body.TooSlow: answers.TOO_SLOW,
}
_JSON: Final = b"application/json"
_MOST_DIGITS: Final = 15


class OpenRoute:
    """One ``GET`` path that needs no credential."""

    def __init__(self, respond: Callable[[], Awaitable[answers.Answer]]) -> None:
        self._respond = respond

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Sends the answer."""
        is_get = scope["method"] == "GET"
        await answers.send_whole(await self._respond() if is_get else answers.wrong_method("GET"), send)


class JsonRoute:
    """One ``POST`` path: a caller and one JSON object in, one answer out."""

    def __init__(
        self,
        path: str,
        authentication: Authentication,
        respond: Respond,
        *,
        may_be_empty: bool = False,
        unavailable: answers.Answer = answers.STATE_UNAVAILABLE,
    ) -> None:
        """Serves ``path``; with ``may_be_empty`` no body counts as an empty object.

        ``unavailable`` is the answer when a fault of ours, or the store, keeps it from serving.
        """
        self._path = path
        self._authentication = authentication
        self._respond = respond
        self._may_be_empty = may_be_empty
        self._unavailable = unavailable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the answer, unless the client is gone."""
        try:
            misfit = _misfit(scope)
            if misfit is not None:
                await request_body.refuse_rest(misfit, receive, send)
                return
            caller = await self._authentication.caller(scope["headers"], self._path)
            body = await request_body.read(receive)
        except request_body.Gone:
            return
        except Exception as error:  # noqa: BLE001 - the outermost boundary of a request
            await request_body.refuse_rest(self._refusal(error), receive, send)
            return
        await answers.send_whole(await self._answer(caller, body), send)

    async def _answer(self, caller: access.Caller, body: bytes) -> answers.Answer:
        try:
            decoded = request_body.parse(body) if body or not self._may_be_empty else {}
            return await self._respond(caller, decoded)
        except Exception as error:  # noqa: BLE001 - the outermost boundary of a request
            return self._refusal(error)

    def _refusal(self, error: Exception) -> answers.Answer:
        return refusal(error, self._path, self._unavailable)


def refusal(
    error: Exception, path: str, unavailable: answers.Answer = answers.STATE_UNAVAILABLE
) -> answers.Answer:
    """Returns the answer to a request for ``path`` that ended in ``error``; a fault of ours is logged."""
    fixed = _FIXED.get(type(error))
    if fixed is not None:
        return fixed
    if isinstance(error, authentication.WrongCredential):
        return answers.wrong_credential(error.sentence)
    if isinstance(error, request_body.InvalidJson):
        return answers.error(400, f"Invalid JSON: {error.reason}")
    log.error("action=request_failed path=%s", path, exc_info=error)
    return unavailable


def _misfit(scope: Scope) -> answers.Answer | None:
    if scope["method"] != "POST":
        return answers.wrong_method("POST")
    media_types = []
    size = b"0"
    for name, value in scope["headers"]:
        if name == b"content-type":
            media_types.append(value)
        elif name == b"content-length":
            size = value
    if len(media_types) != 1 or media_types[0].partition(b";")[0].rstrip().lower() != _JSON:
        return answers.NOT_JSON_TYPE
    if not size.isdigit() or len(size) > _MOST_DIGITS or int(size) > limits.HTTP_BODY_BYTES:
        return answers.TOO_LARGE
    return None
