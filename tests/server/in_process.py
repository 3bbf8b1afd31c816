"""Runs the whole Server inside the test, over real SQLite and without sockets; the clock is the test's."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from webcodex.server import app, settings

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


@asynccontextmanager
async def server(folder: Path, **environment: str) -> AsyncIterator[Server]:
    """Runs a Server over ``folder / "data"``."""
    running = Server(folder / "data", environment)
    async with running.client, running.application.running():
        yield running


def _credential(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}
