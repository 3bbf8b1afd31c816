"""Declares the tools that say what runs: the Server, its store and the Runners the caller may see (20.3).

Never shows a path, a secret or another user's Runner.
"""

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Final, Literal

from webcodex.core import limits
from webcodex.core.access import Scope
from webcodex.core.json_value import Json, JsonObject
from webcodex.storage import census, runners
from webcodex.storage.database import StoreError, Transaction
from webcodex.tools.contract import Audience, Done, Params, Recording, Result, Tool, Work
from webcodex.tools.ports import Services


class NoParams(Params):
    """Nothing: a caller sees what it sees."""


class ProviderShown(Result):
    """One coding agent that a Runner can start."""

    provider_id: str
    provider_instance_id: str
    name: str


class RunnerShown(Result):
    """One visible Runner, as it last described itself; ``last_seen_at`` is Unix s."""

    client_id: str
    display_name: str | None
    hostname: str | None
    connected: bool
    last_seen_at: int
    capabilities: list[str]
    coding_agent_providers: list[ProviderShown]
    projects: int


class ListRunnersResult(Result):
    """The Runners visible to the caller, by client_id."""

    runners: list[RunnerShown]
    returned: int
    truncated: bool


class ServedShown(Result):
    """How many tools models can call, in all and by category."""

    tools: int
    categories: dict[str, int]


class StoreShown(Result):
    """Which database it is, and whether it took a transaction within two seconds."""

    kind: str
    status: Literal["available", "unavailable"]


class RunnersCounted(Result):
    """How many Runners the caller sees, and how many of them are connected."""

    visible: int
    connected: int


class ProjectsCounted(Result):
    """How many Projects the caller sees."""

    visible: int


class ReportsCounted(Result):
    """How many external reports the Server holds for all its callers, and how many it takes."""

    total: int
    capacity: int


class StatusResult(Result):
    """The state of the Server and of what it is connected to."""

    version: str
    served: ServedShown
    store: StoreShown
    runners: RunnersCounted
    projects: ProjectsCounted
    external_reports: ReportsCounted


def declared(tools: Callable[[], Sequence[Tool]]) -> tuple[Tool, ...]:
    """Returns the runtime tools; ``tools`` gives the table of all tools once that is complete."""
    return (
        LIST_RUNNERS,
        Tool(
            name="get_runtime_status",
            category="runtime",
            summary="Read the state of the Server: version, what is served, store, Runners and Projects.",
            params=NoParams,
            result=StatusResult,
            scopes=(Scope.RUNTIME_READ,),
            recording=Recording.NONE,
            handler=functools.partial(_status, tools),
        ),
    )


async def _list_runners(work: Work, _params: NoParams) -> Done:
    caller = work.caller
    found = await work.services.database.read(lambda tx: runners.visible(tx, caller))
    rows: list[Json] = [_row(work.services, runner, count) for runner, count in found[: runners.LISTED]]
    return Done(output={"runners": rows, "returned": len(rows), "truncated": len(found) > len(rows)})


def _row(services: Services, runner: runners.Runner, projects: int) -> JsonObject:
    facts = runner.facts
    capabilities, providers = facts.get("capabilities"), facts.get("coding_agent_providers")
    named = capabilities.items() if isinstance(capabilities, dict) else ()
    return {
        "client_id": runner.client_id,
        "display_name": facts.get("display_name"),
        "hostname": facts.get("hostname"),
        "connected": services.runners.is_connected(runner.client_id),
        "last_seen_at": runner.last_seen_at,
        "capabilities": [*sorted(name for name, has in named if has is True)],
        "coding_agent_providers": providers if isinstance(providers, list) else [],
        "projects": projects,
    }


async def _status(tools: Callable[[], Sequence[Tool]], work: Work, _params: NoParams) -> Done:
    services, caller = work.services, work.caller
    counted = await services.database.read(lambda tx: census.taken(tx, caller))
    served = Counter(tool.category for tool in tools() if tool.audience is Audience.MODEL)
    is_available = await _takes_a_transaction(services)
    return Done(
        output={
            "version": _version(),
            "served": {"tools": served.total(), "categories": dict(sorted(served.items()))},
            "store": {"kind": counted.engine, "status": "available" if is_available else "unavailable"},
            "runners": {
                "visible": len(counted.client_ids),
                "connected": sum(map(services.runners.is_connected, counted.client_ids)),
            },
            "projects": {"visible": counted.projects},
            "external_reports": {
                "total": counted.external_reports,
                "capacity": limits.OBSERVATIONS_TOTAL,
            },
        }
    )


async def _takes_a_transaction(services: Services) -> bool:
    try:
        async with asyncio.timeout(limits.READY_WAIT_S):
            await services.database.write(_nothing)
    except (StoreError, TimeoutError):
        return False
    return True


def _nothing(_tx: Transaction) -> None:
    pass


@functools.cache
def _version() -> str:
    return metadata.version("webcodex")


LIST_RUNNERS: Final = Tool(
    name="list_runners",
    category="runtime",
    summary="List the Runners visible to this credential: contact, capabilities and coding agent providers.",
    params=NoParams,
    result=ListRunnersResult,
    scopes=(Scope.RUNTIME_READ,),
    recording=Recording.NONE,
    handler=_list_runners,
)
