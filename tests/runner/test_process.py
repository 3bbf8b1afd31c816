"""The real Runner process against a scripted Server."""

import asyncio
import hashlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner import peer
from tests.runner.place import TOKEN, Place

pytestmark = pytest.mark.usefixtures("folder")

CLAMP = "def clamp(value):\n    return value\n"


@pytest.fixture
def folder(place: Place) -> Path:
    """A project with one file."""
    made = place.add_project("demo")
    (made / "clamp.py").write_text(CLAMP)
    return made


def shape(value: Any) -> Any:
    """Returns the names of an object's members, in order, with those of its own objects."""
    return {name: shape(member) for name, member in value.items()} if isinstance(value, dict) else None


@requirement("R-30", "R-33")
async def test_a_hello_says_who_registers_and_what_is_served(place: Place, folder: Path) -> None:
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)):
        call = await server.dialled()
        hello = await call.welcome()
        assert call.socket.request is not None
        assert call.socket.request.path == "/api/agents/ws"
    assert call.headers["Authorization"] == f"Bearer {TOKEN}"
    assert "Origin" not in call.headers
    assert (hello["type"], hello["protocol"], hello["client_id"]) == ("hello", 2, "my-runner")
    assert hello["projects"] == [
        {"id": "demo", "path": str(folder), "name": None, "allow_patch": True, "disabled": False}
    ]
    assert hello["capabilities"] == {
        "file_read": True,
        "file_write": True,
        "git": True,
        "jobs": True,
        "async_jobs": True,
        "structured_process_argv": True,
        "structured_execution_jobs": True,
        "job_state_reconciliation": True,
        "coding_agent_runs": False,
        "git_worktree": False,
    }
    assert hello["job_inventory"] == {"active_complete": True, "jobs": []}
    assert hello["coding_agent_inventory"] == {"complete": True, "runs": []}
    assert hello["store_id"] == (place.state_dir / "store_id").read_text()
    assert place.state_dir.stat().st_mode & 0o777 == 0o700


@requirement("R-41", "R-42", "R-51")
async def test_files_are_read_over_the_link_for_many_requests_at_once(place: Place) -> None:
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)):
        call = await server.dialled()
        hello = await call.welcome()
        result = await call.ask("read_files", {"items": [{"path": "clamp.py"}, {"path": ".env"}]})
        requests = [call.request("read_files", {"items": [{"path": "clamp.py"}]}) for _ in range(200)]
        await asyncio.gather(*(call.send(**request) for request in requests))
        answered = [await call.receive() for _ in requests]
    assert isinstance(result.pop("duration_ms"), int)
    body = result.pop("body")
    assert result == {
        "type": "result",
        "request_id": "req_1",
        "connection_id": "conn_1",
        "runner_instance_id": hello["runner_instance_id"],
        "command_execution_state": "completed",
        "error": None,
    }
    assert "project" not in body
    assert body["items"][0]["output"]["text"] == CLAMP
    assert body["items"][0]["output"]["sha256"] == hashlib.sha256(CLAMP.encode()).hexdigest()
    assert body["items"][1]["error"] == {"reason": "sensitive_path"}
    assert {answer["request_id"] for answer in answered} == {f"req_{n}" for n in range(2, 202)}
    assert all(answer["error"] is None for answer in answered)


@requirement("R-41", "R-50")
async def test_each_refusal_is_answered_and_the_link_stays(place: Place) -> None:
    place.add_project("off", disabled=True)
    gone = place.add_project("gone")
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)):
        call = await server.dialled()
        await call.welcome()
        gone.rmdir()
        asked = [
            await call.ask("run_shell", {}),
            await call.ask("git_status", {}, project_id="absent"),
            await call.ask("git_status", {}, project_id="off"),
            await call.ask("git_status", {}, project_id="gone"),
            await call.ask("read_files", {"items": []}),
            await call.ask("git_status", {}, budget_ms=0),
        ]
        plain = await call.ask("git_status", {})
    assert [(result["error"]["code"], result["command_execution_state"]) for result in asked[:5]] == [
        ("agent_capability_unavailable", "not_started"),
        ("unknown_project", "not_started"),
        ("unknown_project", "not_started"),
        ("project_root_replaced", "not_started"),
        ("invalid_arguments", "not_started"),
    ]
    assert asked[5]["error"] is None or asked[5]["error"]["code"] == "timeout"
    assert plain["body"]["reason_code"] == "non_git_project"
    assert str(place.root) not in json.dumps(asked)


@requirement("R-41", "R-50")
async def test_a_budget_that_passes_is_answered_as_timed_out(place: Place, folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    slow = place.root / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text('#!/bin/sh\n[ "$1" = --version ] && exec echo git version 2.50\nsleep 60\n')
    slow.chmod(0o755)
    async with (
        peer.listening() as server,
        peer.running(place.configure(server_url=server.url), PATH=f"{slow.parent}:/usr/bin:/bin"),
    ):
        call = await server.dialled()
        await call.welcome()
        late = await call.ask("git_status", {}, budget_ms=300)
        read = await call.ask("read_files", {"items": [{"path": "clamp.py"}]})
    assert (late["error"]["code"], late["error"]["recovery_kind"]) == ("timeout", "retry_same")
    assert late["command_execution_state"] == "timed_out"
    assert read["body"]["succeeded_count"] == 1


@requirement("R-31")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_says_goodbye_and_exits_0(number: signal.Signals, place: Place) -> None:
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)) as runner:
        call = await server.dialled()
        await call.welcome()
        await runner.logged("action=link_registered", "connection=conn_1")
        runner.signal(number)
        assert await call.receive() == {"type": "goodbye", "reason": "shutdown"}
        assert await call.closed() == 1000
        assert await runner.ended() == 0


@requirement("R-31")
async def test_a_signal_before_the_first_answer_exits_0_too(place: Place) -> None:
    async with peer.listening() as server:
        server.refuse_with = 403
        async with peer.running(place.configure(server_url=server.url)) as runner:
            await runner.logged("action=link_refused", "status=403")
            runner.signal(signal.SIGTERM)
            assert await runner.ended() == 0


@requirement("R-36", "R-45")
async def test_a_dropped_connection_is_dialled_again_by_the_same_instance(place: Place) -> None:
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)) as runner:
        first = await server.dialled()
        before = await first.welcome()
        await runner.logged("action=link_registered", "connection=conn_1")
        first.drop()
        second = await server.dialled()
        after = await second.welcome()
        void = second.request("read_files", {"items": [{"path": "clamp.py"}]}, connection_id="conn_1")
        await second.send(**void)
        result = await second.ask("read_files", {"items": [{"path": "clamp.py"}]})
    assert shape(after) == shape(before)
    assert after["runner_instance_id"] == before["runner_instance_id"]
    assert after["process_started_at"] == before["process_started_at"]
    assert (result["request_id"], result["connection_id"]) == ("req_2", "conn_2")


@requirement("R-45")
async def test_work_of_a_dropped_connection_is_never_answered(place: Place, folder: Path) -> None:
    for number in range(8):
        (folder / f"f{number}").write_bytes(b"x\n" * 2_000_000)
    items = [{"path": f"f{number}", "limit": 1} for number in range(8)]
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)) as runner:
        first = await server.dialled()
        await first.welcome()
        await runner.logged("action=link_registered")
        for _ in range(4):
            await first.send(**first.request("read_files", {"items": items}))
        first.drop()
        second = await server.dialled()
        await second.welcome()
        result = await second.ask("git_status", {})
    assert (result["connection_id"], result["request_id"]) == ("conn_2", "req_1")
    assert result["body"]["reason_code"] == "non_git_project"


@requirement("R-32", "R-36")
async def test_a_refused_instance_reports_it_and_tries_again(place: Place) -> None:
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)) as runner:
        first = await server.dialled()
        await first.receive()
        await first.send(type="error", code="register_failed", reason="instance_already_online", message="x")
        await first.close(1008)
        await runner.logged("action=link_turned_away", "reason=instance_already_online")
        second = await server.dialled()
        await second.welcome()
        await runner.logged("action=link_registered", "connection=conn_2")


@requirement("R-30", "R-36")
async def test_a_redirect_is_never_followed(place: Place) -> None:
    async with peer.listening() as elsewhere, peer.listening() as server:
        server.refuse_with = 307
        server.redirect_to = elsewhere.url.replace("http", "ws") + "/api/agents/ws"
        async with peer.running(place.configure(server_url=server.url)) as runner:
            await runner.logged("action=link_refused", "status=307")
            server.refuse_with = None
            call = await server.dialled()
            await call.welcome()
        assert elsewhere._line.empty()


@requirement("R-30")
async def test_a_malformed_frame_closes_with_1002_and_is_survived(place: Place) -> None:
    await asyncio.gather(survived(place, "no frame"), survived(elsewhere(place), b"binary"))


def elsewhere(place: Place) -> Place:
    """Returns a place for another Runner, with the same Project."""
    (place.root / "elsewhere").mkdir()
    other = Place(place.root / "elsewhere")
    other.add_project("demo")
    return other


async def survived(place: Place, frame: str | bytes) -> None:
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)):
        first = await server.dialled()
        await first.welcome()
        await first.send(type="novelty", more=1)
        await first.socket.send(frame)
        assert await first.closed() == 1002
        second = await server.dialled()
        await second.welcome()
        assert (await second.ask("git_status", {}))["error"] is None


@requirement("R-01", "R-35")
async def test_sighup_rereads_the_registry_and_publishes_it(place: Place) -> None:
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)) as runner:
        call = await server.dialled()
        await call.welcome()
        await runner.logged("action=link_registered")
        place.add_project("second")
        (place.registry / "broken.toml").write_text("id = 5")
        runner.signal(signal.SIGHUP)
        page = await call.receive()
        status = {"type": "project_inventory_status", "generation": 1, "snapshot_sequence": 1}
        await call.send(**status, status="published")
        fault = await runner.logged("action=registry_fault")
        await runner.logged("action=inventory_answered", "status=published")
        result = await call.ask("git_status", {}, project_id="second")
    assert (page["type"], page["page_index"], page["complete"]) == ("project_inventory_page", 0, True)
    assert [entry["id"] for entry in page["projects"]] == ["demo", "second"]
    assert "file=broken.toml" in fault
    assert result["body"]["reason_code"] == "non_git_project"


@requirement("R-35")
async def test_a_registry_that_cannot_be_reread_leaves_the_earlier_one(place: Place) -> None:
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)) as runner:
        call = await server.dialled()
        await call.welcome()
        place.registry.rename(place.root / "elsewhere")
        runner.signal(signal.SIGHUP)
        await runner.logged("action=registry_unreadable")
        result = await call.ask("read_files", {"items": [{"path": "clamp.py"}]})
    assert result["body"]["succeeded_count"] == 1


@requirement("R-35")
async def test_more_than_64_projects_come_in_pages(place: Place) -> None:
    for number in range(64):
        place.add_project(f"p{number:02}")
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)):
        call = await server.dialled()
        hello = await call.welcome()
        pages = [await call.receive(), await call.receive()]
    assert hello["projects"] is None
    assert [len(page["projects"]) for page in pages] == [64, 1]
    assert [page["complete"] for page in pages] == [False, True]


@requirement("R-02")
async def test_a_second_process_on_one_state_directory_exits_2(place: Place) -> None:
    async with peer.listening() as server:
        config = place.configure(server_url=server.url)
        async with peer.running(config):
            first = await server.dialled()
            store_id = (await first.welcome())["store_id"]
            async with peer.running(config) as second:
                assert await second.ended() == 2
            assert second.log[-1] == "webcodex-runner: state_dir is held by another Runner process."
            assert (await first.ask("git_status", {}))["error"] is None
        async with peer.running(config):
            third = await server.dialled()
            assert (await third.receive())["store_id"] == store_id


@requirement("R-02")
async def test_a_killed_process_frees_its_state_directory_at_once(place: Place) -> None:
    async with peer.listening() as server:
        config = place.configure(server_url=server.url)
        async with peer.running(config) as first:
            before = await (await server.dialled()).welcome()
            first.signal(signal.SIGKILL)
            assert await first.ended() == -signal.SIGKILL
            async with peer.running(config):
                after = await (await server.dialled()).receive()
    assert after["store_id"] == before["store_id"]
    assert after["runner_instance_id"] != before["runner_instance_id"]


@requirement("R-02")
@pytest.mark.parametrize("trouble", ["open to others", "a file", "damaged"])
async def test_a_state_directory_that_cannot_be_trusted_exits_2(trouble: str, place: Place) -> None:
    if trouble == "a file":
        place.state_dir.touch()
    else:
        place.state_dir.mkdir(mode=0o755 if trouble == "open to others" else 0o700)
        (place.state_dir / "store_id").touch(mode=0o600)
        (place.state_dir / "store_id").write_text("damaged")
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)) as runner:
        assert await runner.ended() == 2
        assert server._line.empty()
    assert runner.log[-1].startswith("webcodex-runner: state_dir ")


@requirement("R-01")
async def test_the_environment_names_the_configuration_before_the_option(place: Place, folder: Path) -> None:
    async with peer.listening() as server:
        config = place.configure(server_url=server.url)
        async with peer.running(place.root / "absent.toml", WEBCODEX_RUNNER_CONFIG=str(config)):
            assert (await (await server.dialled()).welcome())["client_id"] == "my-runner"
        async with peer.running(config, WEBCODEX_RUNNER_CONFIG=str(folder / "absent.toml")) as runner:
            assert await runner.ended() == 2
    assert runner.log == ["webcodex-runner: The configuration file cannot be opened as a file."]


@requirement("R-01", "R-36")
async def test_no_log_line_holds_the_token_or_a_path(place: Place) -> None:
    async with peer.listening() as server:
        server.refuse_with = 401
        async with peer.running(place.configure(server_url=server.url)) as runner:
            await runner.logged("action=link_refused", "status=401")
            runner.signal(signal.SIGTERM)
            assert await runner.ended() == 0
    text = "".join(runner.log)
    assert "action=runner_started" in text
    assert TOKEN not in text
    assert str(place.root) not in text
