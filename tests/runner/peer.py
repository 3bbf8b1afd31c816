"""A scripted Server at the other end of a real Runner process."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from websockets.asyncio import server
from websockets.http11 import Request, Response

PATIENCE_S: Final = 20.0
RUNNER: Final = Path(sys.executable).with_name("webcodex-runner")


class Call:
    """One connection that the Runner dialled."""

    def __init__(self, socket: server.ServerConnection, number: int) -> None:
        self.socket = socket
        self.connection_id = f"conn_{number}"
        self.over = asyncio.Event()
        self._asked = 0

    @property
    def headers(self) -> Mapping[str, str]:
        assert self.socket.request is not None
        return self.socket.request.headers

    async def receive(self) -> dict[str, Any]:
        """Returns the next frame."""
        async with asyncio.timeout(PATIENCE_S):
            frame: dict[str, Any] = json.loads(await self.socket.recv())
            return frame

    async def send(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def welcome(self) -> dict[str, Any]:
        """Takes the hello, accepts it and returns it."""
        hello = await self.receive()
        client = {"client_id": hello["client_id"], "connection_id": self.connection_id}
        await self.send(type="registered", success=True, client=client, protocol=2, resume=[])
        return hello

    async def ask(self, kind: str, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
        """Sends one request and returns the next frame."""
        await self.send(**self.request(kind, body, **changes))
        return await self.receive()

    def request(self, kind: str, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
        self._asked += 1
        return {
            "type": "request",
            "request_id": f"req_{self._asked}",
            "connection_id": self.connection_id,
            "kind": kind,
            "budget_ms": 20_000,
            "project_id": "demo",
            "requested_by": "bootstrap",
            "created_at": 1,
            "body": body,
            **changes,
        }

    async def close(self, code: int = 1000) -> None:
        await self.socket.close(code)

    def drop(self) -> None:
        """Ends the connection as a broken network does."""
        self.socket.transport.abort()

    async def closed(self) -> int:
        """Returns the close code once the Runner has closed."""
        async with asyncio.timeout(PATIENCE_S):
            await self.socket.wait_closed()
        assert self.socket.close_code is not None
        return self.socket.close_code


class Peer:
    """Listens on loopback; each connection waits in line until the test takes it."""

    def __init__(self) -> None:
        self.url = ""
        self.refuse_with: int | None = None
        self.redirect_to = ""
        self.refused = asyncio.Event()
        self._line: asyncio.Queue[Call] = asyncio.Queue()
        self._count = 0

    async def dialled(self) -> Call:
        """Returns the next connection of the Runner."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._line.get()

    async def answer(self, socket: server.ServerConnection) -> None:
        self._count += 1
        call = Call(socket, self._count)
        await self._line.put(call)
        await socket.wait_closed()

    def screen(self, socket: server.ServerConnection, _request: Request) -> Response | None:
        if self.refuse_with is None:
            return None
        response = socket.respond(HTTPStatus(self.refuse_with), "no\n")
        if self.redirect_to:
            response.headers["Location"] = self.redirect_to
        self.refused.set()
        return response


@asynccontextmanager
async def listening() -> AsyncIterator[Peer]:
    """Yields a peer that listens until the block ends."""
    peer = Peer()
    async with server.serve(
        peer.answer, "127.0.0.1", 0, process_request=peer.screen, max_size=None, close_timeout=1
    ) as served:
        [listener] = served.sockets
        peer.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield peer


class Runner:
    """One real Runner process, and what it wrote to its log so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[str] = []

    async def logged(self, *parts: str) -> str:
        """Returns the next log line that holds every part."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while line := (await self.process.stderr.readline()).decode():
                self.log.append(line)
                if all(part in line for part in parts):
                    return line
        raise AssertionError(f"the Runner ended without saying {parts}: {''.join(self.log)}")

    async def ended(self) -> int:
        """Returns the exit code once the process has ended by itself."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            self.log += (await self.process.stderr.read()).decode().splitlines()
            return await self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@asynccontextmanager
async def running(config: Path, **environment: str) -> AsyncIterator[Runner]:
    """Yields a Runner process over `config`; it is killed if it still runs when the block ends."""
    process = await asyncio.create_subprocess_exec(
        str(RUNNER),
        "--config",
        str(config),
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Runner(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
