"""Serves ``/api/agents/ws`` and is the port to the connected Runners (R-30..R-45, C-04, C-06, C-13).

Refuses a credential before the WebSocket is accepted, in the order of C-22. Never claims that a change did
not happen once its request may have been sent.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from webcodex.core import access, ids, limits
from webcodex.core.json_value import JsonObject
from webcodex.protocol import calls, fields, link
from webcodex.server import (
    answers,
    authentication,
    job_streams,
    routes,
    runner_connection,
    runner_socket,
)
from webcodex.storage.database import Database, StoreError
from webcodex.storage.projects import Project
from webcodex.tools import ports
from webcodex.tools.job_moves import JobMoves

ANSWER_MARGIN_S: Final = 2.0
"""How much longer than the Runner's budget the Server waits: the way there and back, and a late refusal."""

STOPPING: Final = answers.error(503, "The Server is stopping; connect again")

_CLOSE_WITHIN_S: Final = 5.0
_MOST_QUERY_FIELDS: Final = 16
_CAPABILITIES: Final[Mapping[str, str]] = {
    "read_files": "file_read",
    "list_project_files": "file_read",
    "search_project_texts": "file_read",
    "check_outputs": "file_read",
    "git_status": "git",
    "workspace_changes": "git",
    "edit_project_files": "file_write",
    "start_process_job": "jobs",
    "stop_job": "jobs",
    "job_snapshot": "jobs",
    "coding_agent": "coding_agent_runs",
}
_UNPROVEN: Final = frozenset({calls.ExecutionState.OUTCOME_UNKNOWN, calls.ExecutionState.TIMED_OUT})


class RunnerGateway:
    """The Runners' WebSocket endpoint; also ``tools.ports.Runners``."""

    def __init__(
        self,
        *,
        database: Database,
        authentication: authentication.Authentication,
        now: Callable[[], int],
        monotonic: Callable[[], float],
        entropy: Callable[[int], bytes],
        tick_every_s: float = 1.0,
        answer_margin_s: float = ANSWER_MARGIN_S,
        moves: JobMoves | None = None,
        job_grace_s: int = limits.JOB_GRACE_S,
    ) -> None:
        """Serves nothing yet; every ``tick_every_s`` of real time each link looks at ``monotonic``."""
        self._database = database
        self._authentication = authentication
        self._clocks = runner_connection.Clocks(now=now, monotonic=monotonic, tick_every_s=tick_every_s)
        self._entropy = entropy
        self._jobs = job_streams.JobStreams(
            ports.Services(
                database=database,
                runners=self,
                now=now,
                entropy=entropy,
                moves=moves or JobMoves(),
                job_grace_s=job_grace_s,
            )
        )
        self._answer_margin_s = answer_margin_s
        self._present: dict[str, runner_connection.Connection] = {}
        self._serving: dict[runner_connection.Connection, asyncio.Task[None]] = {}
        self._is_closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one WebSocket until it ends."""
        await receive()
        refusal = await self._refusal(scope)
        if refusal is not None:
            await answers.deny_websocket(refusal, scope, send)
            return
        connection = runner_connection.Connection(
            connection_id=ids.mint("conn_", self._entropy(ids.ENTROPY_BYTES)),
            socket=runner_socket.Socket(receive, send),
            database=self._database,
            clocks=self._clocks,
            job_keeper=self._jobs,
            caller=lambda: self._caller(scope),
            present=self._present,
        )
        task = asyncio.current_task()
        assert task is not None
        self._serving[connection] = task
        try:
            await connection.serve()
        finally:
            del self._serving[connection]

    async def call(
        self,
        project: Project,
        kind: str,
        body: Mapping[str, Any],
        *,
        budget_s: float,
        requested_by: str,
        connection_id: str | None = None,
    ) -> JsonObject:
        """Returns the Runner's answer to one request of R-41 (see ``ports.Runners``).

        Raises:
            RunnerUnavailable: nothing was sent, or a read lost its connection.
            RunnerTimeout: a read was not answered in time.
            RunnerOutcomeUnknown: a change was not answered, so it may have happened.
            RunnerRefused: the Runner refused, or lacks what the request needs.

        """
        connection = self._present.get(project.client_id)
        if connection is None or connection_id not in {None, connection.connection_id}:
            raise ports.RunnerUnavailable
        if not connection.can(_CAPABILITIES.get(kind, "")):
            raise ports.RunnerRefused("agent_capability_unavailable")
        is_read = calls.effect_of(kind, body) is calls.Effect.READ
        question = runner_connection.Question(
            kind=kind,
            body=dict(body),
            project_id=project.project_id,
            requested_by=requested_by,
            budget_s=budget_s,
            wait_s=budget_s + self._answer_margin_s,
        )
        try:
            result = await connection.ask(question)
        except link.CannotAsk:
            raise ports.RunnerUnavailable from None
        except fields.Malformed:
            raise ports.RunnerRefused("invalid_arguments") from None
        except runner_connection.AnswerLost:
            raise (ports.RunnerUnavailable() if is_read else ports.RunnerOutcomeUnknown()) from None
        except TimeoutError:
            raise (ports.RunnerTimeout() if is_read else ports.RunnerOutcomeUnknown()) from None
        return _body(result, is_read=is_read)

    def is_connected(self, client_id: str) -> bool:
        """Says whether that Runner is online and can be asked (R-34)."""
        connection = self._present.get(client_id)
        return connection is not None and connection.is_open

    async def close(self) -> None:
        """Ends every connection and refuses new ones; those that do not end in time are given up."""
        self._is_closed = True
        ending = dict(self._serving)
        for connection in ending:
            connection.tell_to_end(link.CLOSE_GOING_AWAY)
        if not ending:
            return
        _, late = await asyncio.wait(ending.values(), timeout=_CLOSE_WITHIN_S)
        for task in late:
            task.cancel()

    async def _refusal(self, scope: Scope) -> answers.Answer | None:
        """Returns why the WebSocket is not accepted, or none (C-22 rows 1, 3, 4, 7)."""
        if any(name == b"origin" for name, _ in scope["headers"]):
            return answers.ORIGIN_NOT_ALLOWED
        try:
            caller = await self._caller(scope)
        except (authentication.Unauthorized, authentication.WrongCredential, StoreError) as error:
            return routes.refusal(error, authentication.RUNNER_PATH)
        missing = access.first_missing(caller, access.RUNNER_SCOPES)
        if missing is not None:
            return answers.error(403, f"missing required scope: {missing.value}")
        return STOPPING if self._is_closed else None

    async def _caller(self, scope: Scope) -> access.Caller:
        return await self._authentication.caller(
            scope["headers"], authentication.RUNNER_PATH, _query_token(scope["query_string"])
        )


def _query_token(query: bytes) -> str | None:
    try:
        pairs = parse_qsl(query.decode("latin-1"), max_num_fields=_MOST_QUERY_FIELDS)
    except ValueError:
        return None
    tokens = [value for name, value in pairs if name == "token"]
    return tokens[0] if len(tokens) == 1 else None


def _body(result: calls.Result, *, is_read: bool) -> JsonObject:
    if result.error is None:
        return dict(result.body or {})
    if result.command_execution_state in _UNPROVEN:
        if not is_read:
            raise ports.RunnerOutcomeUnknown
        if result.command_execution_state is calls.ExecutionState.TIMED_OUT:
            raise ports.RunnerTimeout
    error = result.error
    raise ports.RunnerRefused(error.code, error.failure_kind, error.recovery_kind, error.details)
