"""Builds the Server as one ASGI application: the only place where everything meets."""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from webcodex.server import (
    accounts_api,
    actions_api,
    answers,
    console_api,
    health,
    http_guard,
    job_sweep,
    mcp_endpoint,
    openapi,
    rest,
    routes,
    runner_gateway,
    services,
    settings,
    store,
)
from webcodex.server.authentication import RUNNER_PATH, Authentication
from webcodex.tools import unfinished
from webcodex.tools.job_moves import JobMoves
from webcodex.tools.ports import Services

_WEBSOCKET_ONLY: Final = answers.error(426, "Connect with a WebSocket", (b"upgrade", b"websocket"))


class Application:
    """The Server behind its guard; it answers while ``running``."""

    def __init__(self, chosen: settings.Settings, *, now: Callable[[], int] = services.now) -> None:
        """Opens the database; ``now`` is the clock of everything that is stored, Unix s.

        Raises:
            BadSetting: the data directory or the database cannot be used.
            StoreUnavailable: the database cannot be opened.
            UnknownSchema: a newer release made it.

        """
        self._open = ExitStack()
        self.database = self._open.enter_context(store.opened(chosen))
        self.authentication = Authentication(chosen, self.database, now)
        moves = JobMoves()
        self._runners = runner_gateway.RunnerGateway(
            database=self.database,
            authentication=self.authentication,
            now=now,
            monotonic=time.monotonic,
            entropy=secrets.token_bytes,
            moves=moves,
            job_grace_s=chosen.job_grace_s,
        )
        built = services.build(self.database, self._runners, now, moves=moves, job_grace_s=chosen.job_grace_s)
        self._services = built
        self._routes: Mapping[str, ASGIApp] = {
            mcp_endpoint.PATH: mcp_endpoint.McpEndpoint(built, chosen, self.authentication),
            RUNNER_PATH: self._without_websocket,
            **_health_routes(health.Health(self.database)),
            **_tool_routes(built, self.authentication),
            **_console_routes(built, self.authentication),
            **{
                path: routes.JsonRoute(path, self.authentication, accounts_api.Accounts(built, route).answer)
                for path, route in accounts_api.ROUTES.items()
            },
            openapi.PATH: routes.OpenRoute(openapi.Description(chosen.public_url).answer),
        }
        self._guarded = http_guard.HttpGuard(self._dispatch, chosen)

    @property
    def paths(self) -> tuple[str, ...]:
        """Returns every path that is served by its exact name."""
        return tuple(self._routes)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answers until the block ends, then closes every Runner's connection and the database.

        Raises:
            StoreError: what the calls of the Server before this one left open cannot be settled.

        """
        try:
            await self.database.write(lambda tx: unfinished.settle(tx, self._services))
            await job_sweep.at_start(self._services)
            async with job_sweep.sweeping(self._services):
                yield
        finally:
            await self._runners.close()
            await self.authentication.close()
            self._open.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request or one WebSocket."""
        await self._guarded(scope, receive, send)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            route = self._routes.get(scope["path"])
            if route is None:
                await answers.send_whole(answers.NOT_FOUND, send)
            else:
                await route(scope, receive, send)
        elif scope["type"] == "websocket" and scope["path"] == RUNNER_PATH:
            await self._runners(scope, receive, send)
        elif scope["type"] == "websocket":
            await answers.deny_websocket(answers.NOT_FOUND, scope, send)

    async def _without_websocket(self, scope: Scope, _receive: Receive, send: Send) -> None:
        answer = _WEBSOCKET_ONLY
        if scope["method"] != "GET":
            answer = answers.wrong_method("GET")
        else:
            try:
                await self.authentication.caller(scope["headers"], RUNNER_PATH)
            except Exception as error:  # noqa: BLE001 - the outermost boundary of a request
                answer = routes.refusal(error, RUNNER_PATH)
        await answers.send_whole(answer, send)


def _health_routes(state: health.Health) -> Mapping[str, ASGIApp]:
    return {"/healthz": routes.OpenRoute(state.alive), "/readyz": routes.OpenRoute(state.ready)}


def _tool_routes(built: Services, authentication: Authentication) -> Mapping[str, ASGIApp]:
    tools, call, listing = rest.ToolRoutes(built), "/api/tools/call", "/api/tools/list"
    return {
        call: routes.JsonRoute(call, authentication, tools.call),
        listing: routes.JsonRoute(listing, authentication, tools.listed, may_be_empty=True),
        **{
            path: routes.JsonRoute(path, authentication, actions_api.Action(built, name).answer)
            for path, name in actions_api.served().items()
        },
    }


def _console_routes(built: Services, authentication: Authentication) -> Mapping[str, ASGIApp]:
    return {
        path: routes.JsonRoute(
            path,
            authentication,
            console_api.Console(built, path).answer,
            unavailable=console_api.UNAVAILABLE,
        )
        for path in console_api.ROUTES
    }
