"""A Server with two users and their Projects, and a reader that follows the console's cursors to the end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.server import in_process, station
from tests.server.in_process import Server
from webcodex.core import access, ids, ledger, sessions
from webcodex.storage import projects
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction

PROJECTS: Final = "/api/runtime-console/projects"
SESSIONS: Final = "/api/runtime-console/workflow-sessions"
READ: Final = ("runtime:read", "project:read")
INVALID: Final = (400, {"status": 400, "error": "Invalid request"})
NOT_FOUND: Final = (404, {"status": 404, "error": "Not found"})
BODY_BYTES: Final = 120_000
DEADLINE_S: Final = 10.0


class Desk:
    """The Server, and what its users hold: ada has ``agent:r1:demo``, eve ``agent:r2:foreign``."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.users: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        self._entropy = iter(range(1, 10**9))

    async def furnish(self) -> None:
        for username, client_id, name in (("ada", "r1", "demo"), ("eve", "r2", "foreign")):
            made = await self.server.make_user(username)
            self.users[username] = made["user"]["id"]
            self.tokens[username] = await self.server.make_pat(username, *READ, "session:collaborate")
            await self.server.add_project(self.users[username], client_id, name)

    async def post(self, path: str, body: Any, by: str = "ada") -> tuple[int, Any]:
        return await self.server.post(path, body, self.tokens.get(by, in_process.TOKEN))

    async def page(self, path: str, by: str = "ada", **asked: Any) -> dict[str, Any]:
        """Returns one page, whose own figures and size are right."""
        status, page = await self.post(path, asked, by)
        assert status == 200, page
        rows = page[_name(path)]
        assert set(page) == {_name(path), "total", "returned", "truncated", "next_cursor"}
        assert page["returned"] == len(rows)
        assert page["truncated"] is (page["next_cursor"] is not None)
        assert rows or not page["truncated"]
        assert page["next_cursor"] is None or 1 <= len(page["next_cursor"]) <= 256
        assert len(json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode()) <= BODY_BYTES
        return dict(page)

    async def rows(self, path: str, by: str = "ada", **asked: Any) -> list[dict[str, Any]]:
        """Returns the rows of every page, in the order they came."""
        return [row for page in await self.pages(path, by, **asked) for row in page[_name(path)]]

    async def pages(self, path: str, by: str = "ada", **asked: Any) -> list[dict[str, Any]]:
        """Returns every page until the end."""
        found = [await self.page(path, by, **asked)]
        cursors: set[str] = set()
        while (cursor := found[-1]["next_cursor"]) is not None:
            assert cursor not in cursors
            cursors.add(cursor)
            found.append(await self.page(path, by, **asked, cursor=cursor))
        return found

    async def add_projects(self, username: str, client_id: str, names: Iterable[str], **fields: Any) -> None:
        """Leaves exactly these Projects of that Runner, away; a field may be made from the name."""
        await self.server.add_project(self.users[username], client_id, "first")
        made = []
        for name in names:
            given = {"path": f"/srv/{name}", "name": None, "allow_patch": True, **fields}
            chosen = {key: value(name) if callable(value) else value for key, value in given.items()}
            made.append(projects.Project(client_id=client_id, project_id=name, **chosen))
        await self.server.database.write(lambda tx: projects.replace_inventory(tx, client_id, made))

    async def add_sessions(
        self,
        count: int,
        *,
        by: str = "ada",
        project: str = "agent:r1:demo",
        created_at: Callable[[int], int] = lambda number: in_process.NOW + number,
        **changed: Any,
    ) -> list[str]:
        """Stores Sessions in one transaction and returns their ids in the order they were made."""
        user_id = self.users.get(by)
        group = access.everyone(access.Credential.BOOTSTRAP).authority
        if user_id is not None:
            group = access.group_of_user(user_id)
        made = [
            _session(
                session_id=ids.mint("wc_sess_", next(self._entropy).to_bytes(ids.ENTROPY_BYTES, "little")),
                authority=group,
                project=project,
                created_at=created_at(number),
                updated_at=created_at(number),
                **{"title": f"work {number}", **changed},
            )
            for number in range(count)
        ]

        def add(tx: Transaction) -> None:
            for session in made:
                stored_sessions.add(tx, session)

        await self.server.database.write(add)
        return [session.session_id for session in made]

    async def add_events(self, session_id: str, *events: tuple[ledger.Kind, int, dict[str, Any]]) -> None:
        """Appends events, each a kind, a time and its facts, as a call would."""

        def append(tx: Transaction) -> None:
            session = stored_sessions.lock(tx, session_id)
            assert session is not None
            made = [
                ledger.Event(event_id=f"evt_{number}", kind=kind, at=at, facts=facts)
                for number, (kind, at, facts) in enumerate(events)
            ]
            stored_sessions.append(tx, session, made, now=events[-1][1])

        await self.server.database.write(append)


@asynccontextmanager
async def opened(folder: Path, **environment: str) -> AsyncIterator[Desk]:
    """Opens a furnished desk."""
    async with in_process.server(folder, **environment) as running:
        desk = Desk(running)
        await desk.furnish()
        yield desk


@asynccontextmanager
async def connected_runner(server: Server, username: str, client_id: str) -> AsyncIterator[None]:
    """Holds a Runner's WebSocket open while the block runs."""
    token = await _runner_token(server, username, client_id)
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    scope = {
        "type": "websocket",
        "path": "/api/agents/ws",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8080"), (b"authorization", f"Bearer {token}".encode())],
        "extensions": {},
    }
    serving = asyncio.create_task(server.application(scope, heard.get, said.put))  # type: ignore[arg-type]
    async with asyncio.timeout(DEADLINE_S):
        await heard.put({"type": "websocket.connect"})
        assert (await said.get())["type"] == "websocket.accept"
        await heard.put({"type": "websocket.receive", "text": json.dumps(station.hello(client_id))})
        assert json.loads((await said.get())["text"])["type"] == "registered"
    yield
    await heard.put({"type": "websocket.disconnect", "code": 1000})
    async with asyncio.timeout(DEADLINE_S):
        await serving


async def _runner_token(server: Server, username: str, client_id: str) -> str:
    body = {"username": username, "client_id": client_id}
    status, made = await server.post("/api/agent-tokens/create", body)
    assert status == 200, made
    return str(made["token"])


def _session(**changed: Any) -> sessions.Session:
    fields: dict[str, Any] = {
        "title_redacted": False,
        "mode": sessions.Mode.NORMAL,
        "guards": sessions.Guards(),
        "lifecycle": sessions.Lifecycle.ACTIVE,
        "latest_instruction": None,
        "latest_instruction_redacted": False,
        "last_sequence": 0,
        "events_retained": 0,
        "meaningful_tool_calls": 0,
    }
    return sessions.Session(**(fields | changed))


def _name(path: str) -> str:
    return "projects" if path == PROJECTS else "sessions"
