"""Says how an MCP message is refused: the code, the HTTP status and a fixed text (M-28).

No text here repeats anything of a request (M-02).

``Breach``  the message is answered with a JSON-RPC error
"""

from enum import IntEnum, StrEnum
from typing import Final

from webcodex.core.json_value import Json, JsonObject
from webcodex.server import answers
from webcodex.server.answers import Answer

RequestId = str | int | None


class Form(StrEnum):
    """How a message travels: after an ``initialize`` (M-24), or complete in itself (M-25)."""

    INITIALIZE = "initialize"
    STATELESS = "stateless"


class Code(IntEnum):
    """The JSON-RPC error codes that are served."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    UNKNOWN_METHOD = -32601
    INVALID_PARAMS = -32602
    SERVER_FAULT = -32000
    HEADER_DIFFERS = -32020
    UNSERVED_REVISION = -32022


STATUS: Final = {
    Form.STATELESS: {
        Code.PARSE_ERROR: 400,
        Code.INVALID_REQUEST: 400,
        Code.UNKNOWN_METHOD: 404,
        Code.INVALID_PARAMS: 400,
        Code.SERVER_FAULT: 500,
        Code.HEADER_DIFFERS: 400,
        Code.UNSERVED_REVISION: 400,
    },
    Form.INITIALIZE: {
        Code.PARSE_ERROR: 400,
        Code.INVALID_REQUEST: 400,
        Code.UNKNOWN_METHOD: 200,
        Code.INVALID_PARAMS: 200,
        Code.SERVER_FAULT: 500,
    },
}  # M-28

ACCEPTED: Final = Answer(202, b"")
UNKNOWN_METHOD: Final = "Method not found"
OTHER_PARAMS: Final = "params are not as the MCP specification has them"


class Breach(Exception):
    """The message is refused; a ``status`` overrides the form's, ``details`` are for -32022 alone."""

    def __init__(
        self, code: Code, text: str, *, details: JsonObject | None = None, status: int | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.details = details
        self.status = status


def error(breach: Breach, form: Form, request_id: RequestId) -> Answer:
    """Returns the JSON-RPC error of ``breach``; ``id`` is null when the message had none that is valid."""
    fault: dict[str, Json] = {"code": int(breach.code), "message": breach.text}
    if breach.details is not None:
        fault["data"] = breach.details
    status = STATUS[form][breach.code] if breach.status is None else breach.status
    return answers.of(status, {"jsonrpc": "2.0", "id": request_id, "error": fault})


def result(body: JsonObject, request_id: RequestId) -> Answer:
    """Returns the JSON-RPC result ``body``."""
    return answers.of(200, {"jsonrpc": "2.0", "id": request_id, "result": body})
