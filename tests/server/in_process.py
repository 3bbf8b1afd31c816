"""Runs the whole Server inside the test, over real SQLite and without sockets; the clock is the test's."""

import asyncio
import contextlib
import functools
import json
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from sqlalchemy import update

from webcodex.server import app, settings
from webcodex.storage import engine, projects, runners, schema
from webcodex.storage.database import Transaction

TOKEN: Final = "bootstrap-of-this-test"
NOW: Final = 1_790_000_000


class Server:
    """A running Server; ``now`` is what its clock shows, Unix s."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str]) -> None:
        self.now = NOW
        chosen = settings.load({"WEBCODEX_DATA": str(data_dir), "WEBCODEX_TOKEN": TOKEN, **environment})
        self.application = app.Application(chosen, now=lambda: self.now)
        self.database = self.application.database
        self.client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self.application), base_url="http://127.0.0.1:8080"
        )

    async def post(
        self,
        path: str,
        body: Mapping[str, Any] | bytes,
        token: str | None = TOKEN,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Returns the status and the decoded body of one POST; no ``token`` sends no credential."""
        answer = await self.client.post(
            path,
            content=body if isinstance(body, bytes) else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **_credential(token), **(headers or {})},
        )
        return answer.status_code, answer.json()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], token: str | None = TOKEN
    ) -> tuple[int, Any]:
        """Returns the status and the ToolResult of one tool call."""
        return await self.post("/api/tools/call", {"tool": tool, "params": arguments}, token)

    async def make_user(self, username: str, **fields: object) -> Any:
        """Returns what M-48 answers for a new user."""
        status, made = await self.post("/api/users/create", {"username": username, **fields})
        assert status == 200, made
        return made

    async def make_pat(self, username: str, *scopes: str, **fields: object) -> str:
        """Returns a new PAT of an existing user."""
        body = {"username": username, "scopes": list(scopes), **fields}
        status, made = await self.post("/api/tokens/create", body)
        assert status == 200, made
        return str(made["token"])

    async def disable(self, username: str) -> None:
        """Disables a user."""
        users = schema.users
        disabled = update(users).where(users.c.username == username).values(disabled_at=self.now)
        assert await self.database.write(lambda tx: tx.change(disabled)) == 1

    async def add_project(self, user_id: str | None, client_id: str, project_id: str) -> str:
        """Stores a Runner of that user, away, with one Project, and returns the Project's canonical id."""
        runner = runners.Runner(
            client_id=client_id,
            user_id=user_id,
            connection_id="conn",
            instance_id="instance",
            store_id="store",
            last_seen_at=self.now,
            said_goodbye=False,
            retired=(),
            registered_at=self.now,
            facts={},
        )
        project = projects.Project(
            client_id=client_id, project_id=project_id, path="/" + project_id, name=None, allow_patch=True
        )

        def add(tx: Transaction) -> None:
            runners.save(tx, runner)
            projects.replace_inventory(tx, client_id, [project])

        await self.database.write(add)
        return project.canonical


@asynccontextmanager
async def server(folder: Path, **environment: str) -> AsyncIterator[Server]:
    """Runs a Server over ``folder / "data"``, in a task of its own, since fixtures may end in another one."""
    data_dir = folder / "data"
    if not data_dir.exists():
        data_dir.mkdir(mode=0o700)
        (data_dir / settings.DATABASE_FILE).write_bytes(_empty_database())
    running = Server(data_dir, environment)
    is_ready, may_end = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with running.client, running.application.running():
            is_ready.set()
            await may_end.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run())
        await is_ready.wait()
        try:
            yield running
        finally:
            may_end.set()


@functools.cache
def _empty_database() -> bytes:
    """Returns a database at the present schema; making it costs more than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / settings.DATABASE_FILE
        engine.SqliteDatabase(path).close()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def _credential(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}
