"""Proves which Runner process holds a client_id, and which Projects stay visible while it is away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server.station import BOOTSTRAP, CAPABILITIES, DEMO, Peer, Station, hello, project, token_of, user
from webcodex.protocol import bounds, messages
from webcodex.server import runner_registration
from webcodex.storage import database, runners


@pytest.fixture
async def station(tmp_path: Path) -> AsyncIterator[Station]:
    made = await Station(tmp_path, {"WEBCODEX_TOKEN": BOOTSTRAP}).start()
    await made.add_user("ada", "r1", "r2")
    await made.add_user("eve", "r3")
    yield made
    await made.stop()


async def stored(station: Station, client_id: str = "r1") -> runners.Runner:
    found = await station.database.read(lambda tx: runners.find(tx, client_id))
    assert found is not None
    return found


async def page(peer: Peer, index: int, names: list[str], *, last: bool, sequence: int = 1) -> str:
    """Sends one page and returns what the Server says became of its set."""
    await peer.send(
        {
            "type": "project_inventory_page",
            "generation": 1,
            "snapshot_sequence": sequence,
            "page_index": index,
            "complete": last,
            "projects": [project(name) for name in names],
        }
    )
    answer = await peer.next()
    assert (answer["type"], answer["snapshot_sequence"]) == ("project_inventory_status", sequence)
    status: str = answer["status"]
    return status


@requirement("R-30", "R-32", "C-04")
@pytest.mark.parametrize(
    ("token", "client_id"),
    [
        (token_of("r1"), "r2"),
        (token_of("r1"), "r3"),
        (token_of("r1"), "free"),
        (BOOTSTRAP, "r1"),
    ],
)
async def test_credential_registers_only_its_own_client_id(
    station: Station, token: str, client_id: str
) -> None:
    async with station.peer(token) as peer:
        answer = await peer.say_hello(client_id=client_id)
        assert (answer["type"], answer["code"]) == ("error", "register_forbidden")
        assert "reason" not in answer
        assert await peer.close_code() == 1008
    assert not station.gateway.is_connected(client_id)
    assert await station.projects() == []


@requirement("R-30", "C-15")
async def test_projects_belong_to_the_user_of_the_token(station: Station) -> None:
    async with station.peer(token_of("r1")) as owned, station.peer() as free:
        await owned.say_hello()
        await free.say_hello(client_id="free")
        assert await station.projects(user("ada")) == ["agent:r1:demo"]
        assert await station.projects(user("eve")) == []
        assert await station.projects() == ["agent:free:demo", "agent:r1:demo"]


@requirement("R-30", "C-15")
async def test_a_client_id_that_gets_an_owner_brings_no_projects_along(station: Station) -> None:
    async with station.peer() as free:
        await free.say_hello(client_id="later")
        await free.send({"type": "goodbye", "reason": "stop"})
        await free.close_code()
    await station.add_token("eve", "later")
    async with station.peer(token_of("later")) as peer:
        await peer.say_hello(client_id="later", instance="i2", store="s2", projects=None)
        assert await station.projects(user("eve")) == []
        assert await station.projects() == []
    async with station.peer() as free:
        assert (await free.say_hello(client_id="later"))["code"] == "register_forbidden"


@requirement("R-34")
async def test_same_instance_takes_over_and_its_old_connection_is_void(station: Station) -> None:
    async with station.peer(token_of("r1")) as old, station.peer(token_of("r1")) as new:
        await old.say_hello()
        registered_at = (await stored(station)).registered_at
        station.pass_time(10)
        await new.say_hello(projects=[project("fresh")])
        assert new.connection_id != old.connection_id
        assert await old.close_code() == 1001
        assert station.gateway.is_connected("r1")
        assert (await stored(station)).registered_at == registered_at
        assert (await stored(station)).last_seen_at == station.now
        assert await station.projects() == ["agent:r1:fresh"]


@requirement("R-34", "R-35", "R-31")
async def test_what_a_void_connection_still_reports_is_not_stored(station: Station) -> None:
    async with station.peer(token_of("r1")) as old, station.peer(token_of("r1")) as new:
        await old.say_hello()
        await new.say_hello()
        void = runner_registration.Holding(client_id="r1", connection_id=old.connection_id)
        before = await stored(station)
        late: list[Callable[[database.Transaction], None]] = [
            lambda tx: runner_registration.publish(tx, void, []),
            lambda tx: runner_registration.note_goodbye(tx, void, station.now + 1),
            lambda tx: runner_registration.note_seen(tx, void, station.now + 1),
            lambda tx: runner_registration.change_facts(tx, void, messages.RuntimeMetadata(hostname="x")),
        ]
        for report in late:
            with pytest.raises(runner_registration.NotHeld):
                await station.database.write(report)
        assert await stored(station) == before
        assert await station.projects() == ["agent:r1:demo"]


@requirement("R-34", "R-32")
async def test_same_instance_may_not_lose_a_capability(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
    async with station.peer(token_of("r1")) as peer:
        answer = await peer.say_hello(capabilities={**CAPABILITIES, "git": False}, projects=[])
        assert (answer["code"], answer["reason"]) == ("register_failed", "capabilities_shrunk")
        assert await peer.close_code() == 1008
    assert (await stored(station)).facts["capabilities"] == CAPABILITIES
    assert await station.projects() == ["agent:r1:demo"]
    async with station.peer(token_of("r1")) as peer:
        answer = await peer.say_hello(capabilities={**CAPABILITIES, "git_worktree": True})
        assert answer["type"] == "registered"


@requirement("R-34")
async def test_restart_with_the_same_state_directory_is_accepted_at_once(station: Station) -> None:
    async with station.peer(token_of("r1")) as killed, station.peer(token_of("r1")) as next_one:
        await killed.say_hello()
        assert (await next_one.say_hello(instance="i2", projects=[]))["type"] == "registered"
        assert await killed.close_code() == 1001
        assert (await stored(station)).retired == ("i1",)
        assert await station.projects() == []
        async with station.peer(token_of("r1")) as revenant:
            answer = await revenant.say_hello()
            assert (answer["code"], answer["reason"]) == ("register_failed", "instance_retired")
        assert station.gateway.is_connected("r1")


@requirement("R-34", "R-32")
async def test_other_machine_is_refused_while_the_holder_is_heard(station: Station) -> None:
    async with station.peer(token_of("r1")) as holder:
        await holder.say_hello()
        # Too soon to be stored again, so what is stored alone would free the client_id too early.
        station.pass_time(14)
        await holder.ping()
        station.pass_time(47)
        await _is_turned_away(station)
        await holder.ping()


@requirement("R-34", "R-32")
async def test_other_machine_may_take_over_after_60_seconds_of_silence(station: Station) -> None:
    async with station.peer(token_of("r1")) as holder:
        await holder.say_hello()
    station.pass_time(60)
    await _is_turned_away(station)
    station.pass_time(1)
    async with station.peer(token_of("r1")) as other:
        assert (await other.say_hello(instance="i2", store="s2"))["type"] == "registered"
    assert (await stored(station)).retired == ("i1",)


async def _is_turned_away(station: Station) -> None:
    async with station.peer(token_of("r1")) as other:
        answer = await other.say_hello(instance="i2", store="s2", projects=[])
        assert (answer["code"], answer["reason"]) == ("register_failed", "instance_already_online")
        assert await other.close_code() == 1008
    assert (await stored(station)).instance_id == "i1"
    assert await station.projects() == ["agent:r1:demo"]


@requirement("R-31", "R-34")
async def test_goodbye_frees_the_client_id_at_once(station: Station) -> None:
    async with station.peer(token_of("r1")) as leaving:
        await leaving.say_hello()
        await leaving.send({"type": "goodbye", "reason": "stop"})
        assert await leaving.close_code() == 1000
    assert not station.gateway.is_connected("r1")
    async with station.peer(token_of("r1")) as other:
        assert (await other.say_hello(instance="i2", store="s2"))["type"] == "registered"
    assert not (await stored(station)).said_goodbye


@requirement("R-34")
async def test_only_the_16_last_instances_are_remembered_as_retired(station: Station) -> None:
    for number in range(18):
        async with station.peer(token_of("r1")) as peer:
            assert (await peer.say_hello(instance=f"i{number}"))["type"] == "registered"
    assert (await stored(station)).retired == tuple(f"i{number}" for number in range(1, 17))
    async with station.peer(token_of("r1")) as peer:
        assert (await peer.say_hello(instance="i0"))["type"] == "registered"


@requirement("R-34", "C-15")
async def test_lease_and_inventory_outlive_the_server(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
        station.pass_time(20)
        await peer.ping()
    await station.restart()
    assert await station.projects(user("ada")) == ["agent:r1:demo"]
    assert not station.gateway.is_connected("r1")
    station.pass_time(60)
    await _is_turned_away(station)
    async with station.peer(token_of("r1")) as peer:
        assert (await peer.say_hello())["type"] == "registered"


@requirement("R-34")
async def test_last_contact_is_stored_every_15_seconds_and_with_the_end(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
        for passed_s, stored_s_ago in ((15, 0), (14, 14)):
            station.pass_time(passed_s)
            # The second is answered after whatever the first one led to.
            await peer.ping(1)
            await peer.ping(2)
            assert (await stored(station)).last_seen_at == station.now - stored_s_ago
    async with asyncio.timeout(10):
        while (await stored(station)).last_seen_at != station.now:  # noqa: ASYNC110 - only the store knows
            await asyncio.sleep(0.005)


@requirement("C-15", "R-35")
async def test_later_inventory_omits_and_disables(station: Station) -> None:
    first = [project("demo"), project("gone"), project("off")]
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello(projects=first)
        assert await station.projects() == ["agent:r1:demo", "agent:r1:gone", "agent:r1:off"]
    assert await station.projects() == ["agent:r1:demo", "agent:r1:gone", "agent:r1:off"]
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello(projects=[project("demo"), project("off", disabled=True)])
        assert await station.projects() == ["agent:r1:demo"]


@requirement("R-35")
async def test_pages_are_published_at_once_when_they_are_complete(station: Station) -> None:
    names = [f"p{number:03}" for number in range(130)]
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello(projects=None)
        assert await page(peer, 2, names[128:], last=True) == "pending"
        assert await page(peer, 0, names[:64], last=False) == "pending"
        assert await station.projects() == ["agent:r1:demo"]
        assert await page(peer, 1, names[64:128], last=False) == "published"
        assert await station.projects() == [f"agent:r1:{name}" for name in names]
        assert await page(peer, 1, names[64:128], last=False) == "stale"


@requirement("R-35")
async def test_incomplete_set_is_dropped_after_120_seconds(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
        assert await page(peer, 0, ["a"], last=False) == "pending"
        for _ in range(2):
            station.pass_time(59)
            await peer.ping()
        station.pass_time(2)
        assert await page(peer, 1, ["b"], last=True) == "stale"
        assert await station.projects() == ["agent:r1:demo"]
        assert await page(peer, 0, ["c"], last=True, sequence=2) == "published"
        assert await station.projects() == ["agent:r1:c"]


@requirement("R-35", "R-30")
async def test_page_of_more_than_64_projects_ends_the_connection(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
        await peer.send(
            {
                "type": "project_inventory_page",
                "generation": 1,
                "snapshot_sequence": 1,
                "page_index": 0,
                "complete": True,
                "projects": [project(f"p{number}") for number in range(bounds.MAX_PAGE_PROJECTS + 1)],
            }
        )
        assert await peer.close_code() == 1002
    assert await station.projects() == ["agent:r1:demo"]


@requirement("R-31")
async def test_changed_facts_are_stored_and_the_others_stay(station: Station) -> None:
    provider = {"provider_id": "codex", "provider_instance_id": "acp_1", "name": "Codex"}
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello(hostname="desk", display_name="Desk")
        await peer.send({"type": "runtime_metadata", "hostname": "lap", "coding_agent_providers": [provider]})
        await peer.ping()
    facts: dict[str, Any] = (await stored(station)).facts
    assert (facts["hostname"], facts["display_name"]) == ("lap", "Desk")
    assert facts["coding_agent_providers"] == [provider]
    assert facts["capabilities"] == hello()["capabilities"]


@asynccontextmanager
async def eight_peers(station: Station) -> AsyncIterator[list[Peer]]:
    async with AsyncExitStack() as stack:
        peers = (station.peer(token_of("r1")) for _ in range(8))
        yield [await stack.enter_async_context(peer) for peer in peers]


@requirement("R-34")
async def test_racing_instances_of_one_client_id_leave_exactly_one(station: Station) -> None:
    async with eight_peers(station) as peers:
        answers = await asyncio.gather(
            *(peer.say_hello(instance=f"i{n}", store=f"s{n}") for n, peer in enumerate(peers))
        )
        accepted = [n for n, answer in enumerate(answers) if answer["type"] == "registered"]
        assert len(accepted) == 1
        assert (await stored(station)).instance_id == f"i{accepted[0]}"
        await peers[accepted[0]].ping()


@requirement("R-34")
async def test_racing_connections_of_one_instance_leave_the_last_one_present(station: Station) -> None:
    async with eight_peers(station) as peers:
        await asyncio.gather(*(peer.say_hello() for peer in peers))
        holder = (await stored(station)).connection_id
        (present,) = [peer for peer in peers if peer.connection_id == holder]
        asked = station.gateway.call(DEMO, "read_files", {}, budget_s=5.0, requested_by="someone")
        waiting = asyncio.create_task(asked)
        await present.answer(await present.next(), {"items": []})
        assert await waiting == {"items": []}
        assert [await peer.close_code() for peer in peers if peer is not present] == [1001] * 7
    await station.until(lambda: not station.gateway.is_connected("r1"))
