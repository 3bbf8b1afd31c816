"""Names what handlers may use: the database, the Runners, a clock, entropy, and who hears that they wait."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from webcodex.core import limits
from webcodex.core.json_value import JsonObject
from webcodex.storage.database import Database
from webcodex.storage.projects import Project
from webcodex.tools.job_moves import JobMoves


class RunnerError(Exception):
    """The Runner did not do what was asked."""


class RunnerUnavailable(RunnerError):
    """The Runner is not connected, or it was asked nothing."""


class RunnerTimeout(RunnerError):
    """No answer came within the budget."""


class RunnerOutcomeUnknown(RunnerError):
    """The request was sent and its answer was lost; a change may have happened."""


class RunnerRefused(RunnerError):
    """The Runner answered with an error of its own."""

    def __init__(
        self,
        code: str,
        failure_kind: str | None = None,
        recovery_kind: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.details = dict(details or {})
        self.failure_kind = failure_kind
        self.recovery_kind = recovery_kind


class Runners(Protocol):
    """The connected Runners."""

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
        """Returns the Runner's answer to one request of R-41, asked over ``connection_id`` only if given.

        Raises:
            RunnerUnavailable: nothing was sent.
            RunnerTimeout: no answer within ``budget_s`` seconds.
            RunnerOutcomeUnknown: the connection ended while waiting.
            RunnerRefused: the Runner refused.

        """

    def is_connected(self, client_id: str) -> bool:
        """Says whether that Runner is online (R-34)."""


Progress = Callable[[str], Awaitable[None]]
"""Takes what a call waits for from now on, in fixed words; the edge decides who hears it, and how often."""


async def unheard(_message: str) -> None:
    """Takes what nobody asked to hear."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """Everything a handler may reach; built once when the Server starts."""

    database: Database
    runners: Runners
    now: Callable[[], int]
    entropy: Callable[[int], bytes]
    moves: JobMoves = field(default_factory=JobMoves)
    job_grace_s: int = limits.JOB_GRACE_S
