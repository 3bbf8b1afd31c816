"""A real socket, store and gateway under clocks that the test moves, and a Runner told what to say."""

import asyncio
import hashlib
import itertools
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import uvicorn
from websockets.asyncio import client

from tests.storage import empty_store
from webcodex.core import access
from webcodex.protocol import bounds
from webcodex.server import authentication, connections, http_guard, runner_gateway, settings
from webcodex.storage import accounts, projects
from webcodex.storage.database import Transaction
from webcodex.storage.engine import SqliteDatabase
from webcodex.tools import ports
from webcodex.tools.job_moves import JobMoves

BOOTSTRAP = "bootstrap-secret"
DEADLINE_S = 10.0
PREFIXES = {"agent": "wc_agent_", "pat": "wc_pat_", "account": "wc_acct_"}
CAPABILITIES = {"file_read": True, "file_write": True, "git": True, "jobs": True}

Frame = dict[str, Any]


def token_of(name: str, kind: str = "agent") -> str:
    """A credential that nothing but its name decides."""
    return PREFIXES[kind] + hashlib.sha256(name.encode()).hexdigest()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def hello(client_id: str = "r1", instance: str = "i1", store: str = "s1", **changed: Any) -> Frame:
    return {
        "type": "hello",
        "protocol": 2,
        "client_id": client_id,
        "runner_instance_id": instance,
        "store_id": store,
        "process_started_at": 1_789_999_000,
        "build": {"version": "1.0.0"},
        "host_context": {},
        "policy": {},
        "capabilities": CAPABILITIES,
        "projects": [project("demo")],
        "job_concurrency_limit": 4,
        "job_inventory": {"active_complete": True, "jobs": []},
        "coding_agent_providers": [],
        "coding_agent_inventory": {"complete": True, "runs": []},
        **changed,
    }


def project(name: str, **changed: Any) -> Frame:
    return {"id": name, "path": f"/srv/{name}", "allow_patch": True, "disabled": False, **changed}


class Peer:
    """One WebSocket to the Server, driven frame by frame."""

    def __init__(self, connection: client.ClientConnection) -> None:
        self.connection = connection
        self.connection_id = ""

    async def send(self, frame: Frame) -> None:
        await self.connection.send(json.dumps(frame))

    async def next(self) -> Frame:
        async with asyncio.timeout(DEADLINE_S):
            received: Frame = json.loads(await self.connection.recv())
        return received

    async def say_hello(self, **said: Any) -> Frame:
        """Sends a hello and returns what the Server answers."""
        await self.send(hello(**said))
        answer = await self.next()
        self.connection_id = answer.get("client", {}).get("connection_id", "")
        return answer

    async def ping(self, ts: int = 1) -> None:
        """Returns once the Server has taken everything sent before."""
        await self.send({"type": "ping", "ts": ts})
        assert await self.next() == {"type": "pong", "ts": ts}

    async def answer(self, request: Frame, body: Frame | None, **changed: Any) -> None:
        await self.send(
            {
                "type": "result",
                "request_id": request["request_id"],
                "connection_id": self.connection_id,
                "runner_instance_id": "i1",
                "duration_ms": 1,
                "command_execution_state": "completed",
                "body": body,
                "error": None,
                **changed,
            }
        )

    async def close_code(self) -> int | None:
        """Waits for the Server to close and returns its code."""
        async with asyncio.timeout(DEADLINE_S):
            await self.connection.wait_closed()
        return self.connection.close_code


class Station:
    """A Server that is nothing but its Runner gateway."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.now = 1_790_000_000
        self.monotonic = 1000.0
        self.path = folder / "webcodex.db"
        self._settings = settings.load({"WEBCODEX_ADDR": "127.0.0.1:8080", **environment})
        self._entropy = itertools.count(1)

    async def start(self) -> Self:
        """Opens the store, and the door on a port of its own."""
        if not self.path.exists():
            self.path.write_bytes(empty_store.content())
        self.database = SqliteDatabase(self.path)
        self.authentication = authentication.Authentication(self._settings, self.database, lambda: self.now)
        moves = JobMoves()
        self.gateway = runner_gateway.RunnerGateway(
            database=self.database,
            authentication=self.authentication,
            now=lambda: self.now,
            monotonic=lambda: self.monotonic,
            entropy=lambda size: next(self._entropy).to_bytes(size, "big"),
            tick_every_s=0.02,
            answer_margin_s=0.05,
            moves=moves,
        )
        self.services = ports.Services(
            database=self.database,
            runners=self.gateway,
            now=lambda: self.now,
            entropy=lambda size: next(self._entropy).to_bytes(size, "big"),
            moves=moves,
        )
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            http_guard.HttpGuard(self.gateway, self._settings),
            http=connections.HttpConnection,
            ws=connections.WebSocketConnection,
            ws_max_size=bounds.MAX_FRAME_BYTES,
            lifespan="off",
            log_level="critical",
        )
        # Started and stopped by its parts: its own loop would add 0.2 s to every test.
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[listening])
        return self

    async def stop(self) -> None:
        await self.gateway.close()
        for listening in self._server.servers:
            listening.close()
            async with asyncio.timeout(DEADLINE_S):
                await listening.wait_closed()
        await self.authentication.close()
        self.database.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():  # noqa: ASYNC110 - what is awaited has no event to offer
                await asyncio.sleep(0.005)

    def pass_time(self, seconds: int) -> None:
        self.now += seconds
        self.monotonic += seconds

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}{authentication.RUNNER_PATH}"

    @asynccontextmanager
    async def peer(self, token: str = BOOTSTRAP) -> AsyncIterator[Peer]:
        async with client.connect(
            self.url,
            additional_headers=bearer(token),
            proxy=None,
            compression=None,
            ping_interval=None,
            close_timeout=1,
        ) as connection:
            yield Peer(connection)

    async def add_user(self, name: str, *client_ids: str) -> None:
        """Stores a user and one Runner token for each of its client_ids, called after it."""

        def add(tx: Transaction) -> None:
            accounts.add_user(
                tx,
                accounts.User(
                    user_id=name,
                    username=name,
                    display_name=None,
                    role="user",
                    disabled_at=None,
                    created_at=self.now,
                    updated_at=self.now,
                ),
            )
            for client_id in client_ids:
                self._add_token(tx, name, client_id)

        await self.database.write(add)

    async def add_token(self, user: str, name: str, **changed: Any) -> None:
        await self.database.write(lambda tx: self._add_token(tx, user, name, **changed))

    async def revoke(self, name: str) -> None:
        await self.database.write(lambda tx: accounts.revoke(tx, name, self.now))

    async def projects(self, caller: access.Caller | None = None) -> list[str]:
        """The canonical ids that ``caller`` sees, by default everybody's."""
        viewer = caller or access.everyone(access.Credential.BOOTSTRAP)
        seen = await self.database.read(lambda tx: projects.visible(tx, viewer))
        return [found.canonical for found in seen]

    def _add_token(self, tx: Transaction, user: str, name: str, **changed: Any) -> None:
        kind = changed.get("kind", "agent")
        fields = {
            "token_id": name,
            "user_id": user,
            "kind": kind,
            "name": name,
            "token_hash": hashlib.sha256(token_of(name, kind).encode()).hexdigest(),
            "token_prefix": token_of(name, kind)[:16],
            "scopes": tuple(scope.value for scope in access.RUNNER_SCOPES),
            "allowed_client_id": name if kind == "agent" else None,
            "created_at": self.now,
            "last_used_at": self.now,
            "revoked_at": None,
            "expires_at": None,
        }
        accounts.add_token(tx, accounts.Token(**{**fields, **changed}))


def user(name: str) -> access.Caller:
    return access.Caller(credential=access.Credential.PAT, user_id=name, authority=access.group_of_user(name))


DEMO = projects.Project(client_id="r1", project_id="demo", path="/srv/demo", name=None, allow_patch=True)
