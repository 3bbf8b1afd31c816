"""A scripted Responses API: it stands where a model's service would, and says what a test has written down.

No model is behind it. Whatever a host does with it is a scripted run, is called so in every text that it
gives, and shows nothing about what a real model would do.
"""

import contextlib
import itertools
import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

SCRIPTED: Final = "Scripted run, no model"
SLUG: Final = "scripted-run"
KNOWN_SLUG: Final = "gpt-5.5"  # what Codex knows under this name it offers its shell and apply_patch to
PAUSE_S: Final = 60.0
REQUEST_BYTES: Final = 16 * 1024 * 1024
_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
_numbers: Final = itertools.count(1)

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Holds one step until a test lets it go on, for ``PAUSE_S`` seconds at most."""

    reached: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def hold(self) -> bool:
        """Returns whether the test let it go on."""
        self.reached.set()
        return self.over.wait(PAUSE_S)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What is answered to one request."""

    items: tuple[Item, ...]
    pause: Pause | None = None
    tokens: int = 0
    """How many input tokens the service says that the request had."""


def says(text: str) -> Item:
    """Returns the item that ends a turn with a text, which says that it is scripted."""
    content = {"type": "output_text", "text": f"{SCRIPTED}: {text}", "annotations": []}
    return {"type": "message", "id": _id("msg"), "role": "assistant", "content": [content]}


def calls(tool: str, arguments: Mapping[str, Any], *, server: str) -> Item:
    """Returns the item that asks the host to call a tool of one of its MCP servers."""
    return {
        "type": "function_call",
        "id": _id("fc"),
        "call_id": _id("call"),
        "name": tool,
        "namespace": f"mcp__{server}",
        "arguments": json.dumps(arguments),
    }


def runs(command: str) -> Item:
    """Returns the item that asks the host to run a shell command."""
    return {
        "type": "function_call",
        "id": _id("fc"),
        "call_id": _id("call"),
        "name": "exec_command",
        "arguments": json.dumps({"cmd": command}),
    }


def patches(*lines: str) -> Item:
    """Returns the item that asks the host to apply a patch of these lines."""
    return {
        "type": "custom_tool_call",
        "id": _id("ctc"),
        "call_id": _id("call"),
        "name": "apply_patch",
        "input": "\n".join(("*** Begin Patch", *lines, "*** End Patch", "")),
    }


class ModelService:
    """Answers each request with the next step; a request beyond the last one is refused."""

    path = "/v1/responses"

    def __init__(self, steps: Sequence[Step]) -> None:
        self._left = deque(steps)
        self._lock = threading.Lock()
        self.requests: list[Mapping[str, Any]] = []
        self.refused = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def origin(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def base_url(self) -> str:
        """What Codex is told to use."""
        return f"{self.origin}/v1"

    def events(self, step: Step) -> Iterator[bytes]:
        """Yields the server-sent events that tell one step."""
        return _events(step)

    def next_step(self, request: Mapping[str, Any]) -> Step | None:
        """Returns the step that answers ``request``, once its pause is over, or none."""
        with self._lock:
            self.requests.append(request)
            step = self._left.popleft() if self._left else None
        if step is None or (step.pause is not None and not step.pause.hold()):
            self.refused += 1
            return None
        return step

    def write(self, *steps: Step) -> None:
        """These steps are written down behind those that are left."""
        with self._lock:
            self._left.extend(steps)

    def outputs(self) -> dict[str, str]:
        """Returns what the host gave back for each call, as a model would have been shown it."""
        given = [item for request in self.requests for item in request["input"]]
        return {item["call_id"]: item["output"] for item in given if item.get("type") in _OUTPUTS}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Answers until the block ends."""
        serving = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            serving.join(PAUSE_S)


def _id(kind: str) -> str:
    return f"{kind}_scripted_{next(_numbers)}"


def _handler(service: ModelService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PAUSE_S

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", "0"))
            if self.path.partition("?")[0] != service.path or not 0 < size <= REQUEST_BYTES:
                self._refuse(404)
                return
            step = service.next_step(json.loads(self.rfile.read(size)))
            if step is None:
                self._refuse(400)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            # The host may have gone; what it has read is what counts.
            with contextlib.suppress(ConnectionError):
                self.wfile.write(b"".join(service.events(step)))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Keeps stderr for what went wrong."""

        def _refuse(self, status: int) -> None:
            body = json.dumps(
                {"error": {"message": f"{SCRIPTED}: nothing is written down for this"}}
            ).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _events(step: Step) -> Iterator[bytes]:
    response = {"id": _id("resp")}
    usage = {
        "input_tokens": step.tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": step.tokens,
    }
    yield event("response.created", response=response)
    for number, item in enumerate(step.items):
        yield event("response.output_item.done", output_index=number, item=item)
    yield event("response.completed", response={**response, "usage": usage})


def event(kind: str, **fields: Any) -> bytes:
    """Returns one server-sent event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
