"""The conformance suite's tools that answer with a question: the client asks again and brings the answer.

The state that goes to the client and back is signed, so that a changed one is refused.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from webcodex.server import mcp_envelope

Context = ServerRequestContext[Any, Any]
Result = dict[str, Any]

KEY: Final = b"of this profile alone"
ROOTS: Final = {"method": "roots/list", "params": {}}


def capabilities(context: Context) -> Mapping[str, Any]:
    """Returns what the client says it can do, in this request (M-25)."""
    meta = (context.params or {}).get("_meta") or {}
    declared: Mapping[str, Any] = meta.get(mcp_envelope.CAPABILITIES_KEY) or {}
    return declared


def prompt(context: Context) -> Result:
    """Returns the prompt once its context has been given."""
    answers = _answers(context)
    if "user_context" not in answers:
        return _asking({"user_context": _form("What context should the prompt use?", "context")})
    content = {"type": "text", "text": f"Context: {_content(answers['user_context']).get('context')}"}
    return {"messages": [{"role": "user", "content": content}]}


async def _greets(context: Context) -> Result:
    answers = _answers(context)
    if "user_name" not in answers:
        return _asking({"user_name": _form("What is your name?", "name")})
    return _done(f"Hello, {_content(answers['user_name']).get('name')}!")


async def _asks_model(context: Context) -> Result:
    answers = _answers(context)
    if "capital_question" not in answers:
        return _asking({"capital_question": _sampling("What is the capital of France?", 100)})
    return _done(str(answers["capital_question"]["content"]["text"]))


async def _asks_roots(context: Context) -> Result:
    answers = _answers(context)
    if "client_roots" not in answers:
        return _asking({"client_roots": ROOTS})
    return _done(", ".join(root["uri"] for root in answers["client_roots"]["roots"]))


async def _confirms(context: Context) -> Result:
    if "confirm" not in _answers(context):
        return _asking({"confirm": _form("Please confirm", "ok", "boolean")}, _signed("confirm"))
    _check(context, "confirm")
    return _done("state-ok")


async def _asks_all(context: Context) -> Result:
    wanted = {
        "user_name": _form("What is your name?", "name"),
        "greeting": _sampling("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    if not set(wanted) <= set(_answers(context)):
        return _asking(wanted, _signed("all"))
    _check(context, "all")
    return _done("Everything was answered.")


async def _asks_twice(context: Context) -> Result:
    answers = _answers(context)
    if "step2" in answers:
        _check(context, "second")
        return _done("Both steps were answered.")
    if "step1" in answers:
        _check(context, "first")
        return _asking({"step2": _form("Step 2: What is your favorite color?", "color")}, _signed("second"))
    return _asking({"step1": _form("Step 1: What is your name?", "name")}, _signed("first"))


async def _asks_what_can_be_answered(context: Context) -> Result:
    wanted = {
        "sampling": _sampling("Generate a greeting", 50),
        "elicitation": _form("What is your name?", "name"),
    }
    declared = capabilities(context)
    return _asking({key: request for key, request in wanted.items() if key in declared})


TOOLS: Final[Mapping[str, Callable[[Context], Awaitable[Result]]]] = {
    "test_input_required_result_elicitation": _greets,
    "test_input_required_result_sampling": _asks_model,
    "test_input_required_result_list_roots": _asks_roots,
    "test_input_required_result_request_state": _confirms,
    "test_input_required_result_multiple_inputs": _asks_all,
    "test_input_required_result_multi_round": _asks_twice,
    "test_input_required_result_tampered_state": _confirms,
    "test_input_required_result_capabilities": _asks_what_can_be_answered,
}


def _asking(requests: Mapping[str, Result], state: str | None = None) -> Result:
    asked: Result = {"resultType": "input_required", "inputRequests": dict(requests)}
    return asked if state is None else {**asked, "requestState": state}


def _done(text: str) -> Result:
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"}


def _form(message: str, field: str, kind: str = "string") -> Result:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _sampling(question: str, tokens: int) -> Result:
    message = {"role": "user", "content": {"type": "text", "text": question}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}


def _answers(context: Context) -> Mapping[str, Any]:
    return (context.params or {}).get("inputResponses") or {}


def _content(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return answer.get("content") or {}


def _signed(state: str) -> str:
    return f"{state}.{hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()}"


def _check(context: Context, state: str) -> None:
    given = str((context.params or {}).get("requestState"))
    if not hmac.compare_digest(given.encode(), _signed(state).encode()):
        raise MCPError(mcp_types.INVALID_PARAMS, "The request state is not the one that was given")
