"""What a caller learns of the Server and of its Runners (20.3), and what it never does."""

import json
from dataclasses import replace
from importlib import metadata
from typing import Any

import pytest
from sqlalchemy import text

from tests.requirements import requirement
from tests.tools.house import ADA, BOOTSTRAP, DEMO, EVE, House, report, user
from webcodex.core import access, limits
from webcodex.storage import projects, runners
from webcodex.storage.database import Transaction
from webcodex.tools import registry
from webcodex.tools.contract import Audience, MissingScope

DESK = runners.Runner(
    client_id="desk",
    user_id="ada",
    connection_id="conn_planted",
    instance_id="instance_planted",
    store_id="store_planted",
    last_seen_at=1_789_999_990,
    said_goodbye=False,
    retired=("retired_planted",),
    registered_at=1_789_999_000,
    facts={
        "display_name": "Desk",
        "owner": "owner_planted",
        "hostname": "desk.local",
        "process_started_at": 1_789_998_000,
        "build": {"version": "1.0.0", "git_commit": None, "git_dirty": None},
        "host_context": {"home": "/home/planted"},
        "policy": {"path": "/etc/planted"},
        "capabilities": {"git": True, "file_read": True, "jobs": False},
        "job_concurrency_limit": 4,
        "coding_agent_providers": [
            {"provider_id": "codex", "provider_instance_id": "p1", "name": "Codex"},
        ],
    },
)


async def _save(house: House, *made: runners.Runner) -> None:
    def save(tx: Transaction) -> None:
        for runner in made:
            runners.save(tx, runner)

    await house.database.write(save)


def _ids(output: dict[str, Any]) -> list[str]:
    return [runner["client_id"] for runner in output["runners"]]


@requirement("C-15", "C-11", "M-62")
async def test_only_the_runners_of_the_own_user_are_listed(house: House) -> None:
    await _save(house, DESK, replace(DESK, client_id="shared", user_id=None))
    assert _ids(await house.output("list_runners", by=ADA)) == ["desk", "r1"]
    assert _ids(await house.output("list_runners", by=EVE)) == ["r2"]
    assert _ids(await house.output("list_runners", by=user("zoe", "admin"))) == []
    assert _ids(await house.output("list_runners", by=BOOTSTRAP)) == ["desk", "r1", "r2", "shared"]


@requirement("C-15", "R-33", "R-34")
async def test_a_runner_is_shown_as_it_described_itself_with_its_contact(house: House) -> None:
    await _save(house, DESK)
    house.runner.answers = {"git_status": {}}
    output = await house.output("list_runners")
    away, present = output["runners"]
    assert away == {
        "client_id": "desk",
        "display_name": "Desk",
        "hostname": "desk.local",
        "connected": False,
        "last_seen_at": 1_789_999_990,
        "capabilities": ["file_read", "git"],
        "coding_agent_providers": [{"provider_id": "codex", "provider_instance_id": "p1", "name": "Codex"}],
        "projects": 0,
    }
    assert (present["client_id"], present["connected"], present["projects"]) == ("r1", True, 2)
    assert (present["display_name"], present["capabilities"]) == (None, [])
    assert (output["returned"], output["truncated"]) == (2, False)
    assert "planted" not in json.dumps(output)
    assert house.runner.asked == []


@requirement("C-15")
async def test_a_disabled_project_counts_nowhere(house: House) -> None:
    inventory = [
        projects.Project(
            client_id="r1", project_id=name, path="/srv/" + name, name=None, allow_patch=True, disabled=is_off
        )
        for name, is_off in (("demo", False), ("off", True))
    ]
    await house.database.write(lambda tx: projects.replace_inventory(tx, "r1", inventory))
    (runner,) = (await house.output("list_runners"))["runners"]
    assert runner["projects"] == 1
    assert (await house.output("get_runtime_status"))["projects"] == {"visible": 1}


@requirement("C-15", "M-02")
async def test_the_list_of_runners_is_bounded_and_says_so(house: House) -> None:
    more = [replace(DESK, client_id=f"s{number:03d}") for number in range(runners.LISTED - 1)]
    await _save(house, *more)
    output = await house.output("list_runners")
    assert (output["returned"], output["truncated"]) == (runners.LISTED, False)
    await _save(house, DESK)
    output = await house.output("list_runners")
    assert (output["returned"], output["truncated"]) == (runners.LISTED, True)
    assert _ids(output) == sorted(_ids(output))


@requirement("C-15", "O-10", "M-59")
async def test_the_status_counts_what_the_caller_sees(house: House) -> None:
    session = await house.session()
    await house.output("record_external_observation", **report(session))
    house.runner.answers = {"git_status": {}}
    shown = [tool for tool in registry.TOOLS if tool.audience is Audience.MODEL]
    expected: dict[str, Any] = {
        "version": metadata.version("webcodex"),
        "store": {"kind": "sqlite", "status": "available"},
        "runners": {"visible": 1, "connected": 1},
        "projects": {"visible": 2},
        "external_reports": {"total": 1, "capacity": limits.OBSERVATIONS_TOTAL},
    }
    output = await house.output("get_runtime_status")
    served = output.pop("served")
    assert output == expected
    assert (served["tools"], sum(served["categories"].values())) == (len(shown), len(shown))
    assert set(served["categories"]) == {tool.category for tool in shown}
    foreign = await house.output("get_runtime_status", by=EVE)
    assert (foreign["runners"], foreign["projects"]) == ({"visible": 1, "connected": 0}, {"visible": 1})
    everyone = await house.output("get_runtime_status", by=BOOTSTRAP)
    assert (everyone["runners"], everyone["projects"]) == ({"visible": 2, "connected": 1}, {"visible": 3})


@requirement("M-59", "O-15")
async def test_a_store_that_takes_no_write_is_unavailable_though_it_reads(house: House) -> None:
    await house.database.write(lambda tx: tx.change(text("PRAGMA query_only = ON")))
    output = await house.output("get_runtime_status")
    assert output["store"] == {"kind": "sqlite", "status": "unavailable"}
    assert output["projects"] == {"visible": 2}


@requirement("M-02", "C-09")
async def test_the_status_names_no_path_and_nobody(house: House) -> None:
    await _save(house, DESK)
    for by in (ADA, BOOTSTRAP):
        text = json.dumps(await house.output("get_runtime_status", by=by))
        assert all(word not in text for word in ("planted", "/srv", str(house.path), "desk", "ada"))


@requirement("S-51", "S-72", "M-43")
async def test_both_tools_are_adapter_traffic(house: House) -> None:
    session = await house.session()
    before = await house.output("list_sessions", project=DEMO)
    house.now += 100
    for tool in ("list_runners", "get_runtime_status"):
        output = (await house.call_unchecked(tool, recorder=session))["output"]
        assert isinstance(output, dict)
        assert output["session_recorded"] is False
        assert "session_event_id" not in output
    assert await house.output("list_sessions", project=DEMO) == before


@requirement("M-07", "C-11", "M-13")
async def test_both_tools_need_one_scope_and_take_no_argument(house: House) -> None:
    for tool in ("list_runners", "get_runtime_status"):
        with pytest.raises(MissingScope, match="runtime:read"):
            await house.call(tool, by=user("ada", "project:read", "session:collaborate"))
        assert (await house.call(tool, by=user("ada", access.Scope.RUNTIME_READ.value)))["success"] is True
