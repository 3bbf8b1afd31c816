"""Asks the Runner of a call's Project, within what the call may wait, and says that it waits."""

from collections.abc import Mapping
from typing import Any, Final

from webcodex.core import access, limits
from webcodex.core.json_value import JsonObject
from webcodex.tools.contract import Work

WAITING: Final = "Waiting for the Runner"


async def ask(
    work: Work,
    kind: str,
    body: Mapping[str, Any],
    *,
    budget_s: float | None = None,
    connection_id: str | None = None,
) -> JsonObject:
    """Returns the Runner's answer to one request of R-41, asked over ``connection_id`` only if given.

    Waits ``budget_s`` seconds where the tool has a rule of its own, else 30 s and no longer than the caller's
    host does (R-50, M-38).

    Raises:
        RunnerError: there is no answer, or a refusal (see ``ports.Runners``).

    """
    project = work.target.project
    assert project is not None
    await work.progress(WAITING)
    return await work.services.runners.call(
        project,
        kind,
        body,
        budget_s=min(limits.RUNNER_CALL_S, work.waits.safe_s) if budget_s is None else budget_s,
        requested_by=access.requested_by(work.caller),
        connection_id=connection_id,
    )
