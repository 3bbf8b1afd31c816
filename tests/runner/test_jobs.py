"""A real Runner starts, limits, stops and shows Jobs."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner import job_server, peer
from tests.runner.job_server import job_id, start_body
from tests.runner.place import Place

PYTHON = sys.executable


@pytest.fixture(autouse=True)
def folder(place: Place) -> Path:
    return place.add_project("demo")


@asynccontextmanager
async def serving(
    place: Place, environment: dict[str, str] | None = None, **settings: Any
) -> AsyncIterator[job_server.JobServer]:
    async with (
        peer.listening() as server,
        peer.running(place.configure(server_url=server.url, **settings), **(environment or {})),
        job_server.registered(server) as jobs,
    ):
        yield jobs


def policy(place: Place, **changes: Any) -> dict[str, Any]:
    return {"allowed_roots": [str(place.root / "work")], **changes}


def code(result: dict[str, Any]) -> tuple[str, str]:
    return result["error"]["code"], result["command_execution_state"]


@requirement("R-60", "R-61", "R-46")
async def test_a_job_runs_without_a_shell_and_its_record_says_how_it_ended(place: Place) -> None:
    script = "import sys; print(sys.argv[1]); sys.stdout.flush(); print('why', file=sys.stderr); sys.exit(3)"
    async with serving(place) as jobs:
        answer = await jobs.start(1, PYTHON, "-c", script, "$HOME; *")
        job = await jobs.ended(1)
        again = (await jobs.ask("job_snapshot", {"job_id": job_id(1)}))["body"]
    started = answer["body"]["job"]
    assert (answer["body"]["replayed"], answer["command_execution_state"]) == (False, "completed")
    assert (started["state"], started["finished_at"], started["exit_code"]) == ("running", None, None)
    assert sorted(jobs.events[-1]["snapshot"]) == sorted(job)
    facts = {
        name: jobs.events[-1][name] for name in ("stream", "sequence", "first_retained_sequence", "body")
    }
    assert facts == {"stream": "job", "sequence": None, "first_retained_sequence": None, "body": None}
    assert job == {
        "job_id": job_id(1),
        "project": "agent:my-runner:demo",
        "purpose": "work",
        "state": "failed",
        "exit_code": 3,
        "signal": None,
        "created_at": started["created_at"],
        "started_at": started["started_at"],
        "finished_at": job["finished_at"],
        "timeout_secs": 60,
        "update_seq": job["update_seq"],
        "reason_code": None,
        "log": {"tail": "$HOME; *\nwhy\n", "first_retained_line": 1, "next_line": 3, "truncated": False},
    }
    assert job["created_at"] <= job["started_at"] <= job["finished_at"]
    revisions = [event["snapshot"]["update_seq"] for event in jobs.events]
    assert revisions == sorted(set(revisions))
    assert again == {"job": job, "stdout_tail": "$HOME; *\n", "stderr_tail": "why\n"}


@requirement("R-60")
async def test_a_job_sees_its_input_its_directory_and_five_variables_of_the_runner(
    place: Place, folder: Path
) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "in").symlink_to("deep/er")
    environment = {
        "HOME": "/home/of",
        "LANG": "C.UTF-8",
        "SECRET": "no",
        "WEBCODEX_RUNNER_CONFIG": str(place.config),
    }
    script = "import os, sys; print(len(sys.stdin.read()), sorted(os.environ), os.getcwd())"
    async with serving(place, environment) as jobs:
        await jobs.start(1, PYTHON, "-c", script, stdin="é" * 32_768, cwd="in")
        await jobs.start(2, "/usr/bin/env")
        empty, told = await jobs.ended(1), await jobs.ended(2)
        await jobs.start(3, PYTHON, "-c", "import sys; print(repr(sys.stdin.read()))")
        nothing = await jobs.ended(3)
    assert empty["log"]["tail"].startswith("32768 ")
    assert empty["log"]["tail"].endswith(f"{folder / 'deep' / 'er'}\n")
    assert {line.partition("=")[0] for line in told["log"]["tail"].splitlines()} == {"HOME", "LANG", "PATH"}
    assert "HOME=/home/of\n" in told["log"]["tail"]
    assert nothing["log"]["tail"] == "''\n"


REFUSED: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    ("process_spawn_failed", ("/no/such",), {}),
    ("process_spawn_failed", ("./file",), {}),
    ("invalid_cwd", ("true",), {"cwd": "file"}),
    ("invalid_cwd", ("true",), {"cwd": "absent"}),
    ("invalid_cwd", ("true",), {"cwd": "../demo"}),
    ("invalid_cwd", ("true",), {"cwd": "out"}),
    ("invalid_cwd", ("true",), {"cwd": "/tmp"}),
    ("policy_rejected", ("/bin/BASH", "-c", ":"), {}),
    ("policy_rejected", ("sh",), {}),
    ("policy_rejected", ("true",), {"timeout_secs": 61}),
    ("invalid_arguments", (), {}),
    ("invalid_arguments", ("a\0b",), {}),
    ("invalid_arguments", ("true",), {"job_id": "../../x"}),
    ("invalid_arguments", ("true",), {"purpose": "fun"}),
    ("invalid_arguments", ("true",), {"stdin": "é" * 32_769}),
)


@requirement("R-60", "R-02")
async def test_a_start_that_is_refused_leaves_nothing(place: Place, folder: Path) -> None:
    (folder / "file").write_text("x")
    (folder / "out").symlink_to("/tmp")
    place.add_project("off", disabled=True)
    store = place.state_dir / "runner-jobs-v1"
    async with serving(place, policy=policy(place, allow_raw_shell=False, max_timeout_secs=60)) as jobs:
        refused = [
            await jobs.start(number, *argv, **changes) for number, (_, argv, changes) in enumerate(REFUSED)
        ]
        refused.append(await jobs.ask("start_process_job", start_body(99, "true"), project_id="off"))
        refused.append(await jobs.ask("job_snapshot", {"job_id": job_id(0)}))
        away = store.rename(place.root / "away")
        refused.append(await jobs.start(0, "touch", "ran"))
        away.rename(store)
        after = await jobs.start(0, "true")
        await jobs.ended(0)
    words = [*(word for word, *_ in REFUSED), "unknown_project", "job_not_found", "runner_unavailable"]
    assert [code(result) for result in refused] == [(word, "not_started") for word in words]
    assert not (folder / "ran").exists()
    assert after["body"]["replayed"] is False
    assert len(list(store.iterdir())) == 1


@requirement("R-02", "R-60")
async def test_an_absolute_directory_is_admitted_beneath_an_allowed_root_only(place: Place) -> None:
    elsewhere = place.root / "work" / "elsewhere"
    elsewhere.mkdir()
    (place.root / "outside").mkdir()
    (elsewhere / "out").symlink_to(place.root / "outside")
    async with serving(place, policy=policy(place, allow_cwd_anywhere=True)) as jobs:
        inside = await jobs.start(1, "pwd", cwd=str(elsewhere))
        outside = await jobs.start(2, "pwd", cwd=str(place.root / "outside"))
        linked = await jobs.start(3, "pwd", cwd=str(elsewhere / "out"))
        job = await jobs.ended(1)
    assert inside["error"] is None
    assert job["log"]["tail"] == f"{elsewhere}\n"
    assert [code(outside)[0], code(linked)[0]] == ["invalid_cwd", "invalid_cwd"]


@requirement("R-60", "R-61")
async def test_stop_ends_a_job_politely_though_its_project_is_disabled(place: Place) -> None:
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye'), sys.exit(0)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    async with (
        peer.listening() as server,
        peer.running(place.configure(server_url=server.url)) as runner,
        job_server.registered(server) as jobs,
    ):
        await jobs.start(1, PYTHON, "-c", script)
        await jobs.wrote(1, "ready")
        place.add_project("demo", disabled=True)
        runner.signal(signal.SIGHUP)
        await jobs.until(lambda: any(frame["type"] == "project_inventory_page" for frame in jobs.others))
        stopped = (await jobs.ask("stop_job", {"job_id": job_id(1)}))["body"]
        repeated = (await jobs.ask("stop_job", {"job_id": job_id(1)}))["body"]
        job = await jobs.ended(1)
        late = (await jobs.ask("stop_job", {"job_id": job_id(1)}))["body"]
        absent = await jobs.ask("stop_job", {"job_id": job_id(2)})
        other = await jobs.ask("stop_job", {"job_id": job_id(1)}, project_id="other")
    assert (stopped["stop_requested"], stopped["job"]["state"]) == (True, "stop_requested")
    assert repeated["stop_requested"] is True
    assert (job["state"], job["exit_code"], job["log"]["tail"]) == ("stopped", 0, "ready\nbye\n")
    assert (late["stop_requested"], late["job"]) == (False, job)
    assert [code(absent)[0], code(other)[0]] == ["job_not_found", "job_not_found"]


@requirement("R-02", "R-60", "R-61", "R-64", "R-65")
async def test_no_more_jobs_run_than_allowed_and_one_beyond_its_time_makes_room(place: Place) -> None:
    async with serving(place, max_concurrent_jobs=2) as jobs:
        both = await asyncio.gather(
            jobs.start(1, "sleep", "60"), jobs.start(2, "sleep", "60", timeout_secs=1)
        )
        full = await jobs.start(3, "true")
        late = await jobs.ended(2)
        free = await jobs.start(3, "true")
    assert jobs.hello["job_concurrency_limit"] == 2
    assert [answer["error"] for answer in both] == [None, None]
    assert (code(full), full["error"]["recovery_kind"]) == (("job_capacity_full", "not_started"), "wait")
    assert (late["state"], late["exit_code"], late["signal"]) == ("timed_out", None, "SIGTERM")
    assert free["error"] is None


@requirement("R-57", "R-64")
async def test_the_same_request_is_the_same_job_and_another_conflicts(place: Place, folder: Path) -> None:
    count = "open('count', 'a').write('x')"
    body = start_body(1, PYTHON, "-c", count)
    async with serving(place) as jobs:
        answers = await asyncio.gather(*(jobs.ask("start_process_job", body) for _ in range(3)))
        ended = await jobs.ended(1)
        later = await jobs.ask("start_process_job", body)
        other = await jobs.ask("start_process_job", {**body, "request_hash": "0" * 64})
        keyed = [
            await jobs.start(number, PYTHON, "-c", count, idempotency_key="k", request_hash=each * 64)
            for number, each in ((2, "a"), (2, "a"), (3, "a"), (4, "b"))
        ]
        await jobs.ended(2)
    assert sorted(answer["body"]["replayed"] for answer in answers) == [False, True, True]
    assert (later["body"]["replayed"], later["body"]["job"]) == (True, ended)
    assert code(other) == ("idempotency_conflict", "not_started")
    assert [answer["body"] and answer["body"]["replayed"] for answer in keyed] == [False, True, True, None]
    assert keyed[2]["body"]["job"]["job_id"] == job_id(2)
    assert code(keyed[3]) == ("idempotency_conflict", "not_started")
    assert (folder / "count").read_text() == "xx"


@requirement("R-61")
async def test_a_flood_of_output_is_cut_from_the_front_and_counted(place: Place) -> None:
    script = "import sys\nfor n in range(200_000): sys.stdout.write(f'line {n}\\n')\nprint('é\\x00', end='')"
    async with serving(place, policy=policy(place, max_output_bytes=1000)) as jobs:
        await jobs.start(1, PYTHON, "-c", script)
        job = await jobs.ended(1)
    log = job["log"]
    lines = log["tail"].splitlines()
    assert lines[-2:] == ["line 199999", "é\ufffd"]
    assert lines[0] == f"line {log['first_retained_line'] - 1}"
    assert (log["next_line"], log["truncated"]) == (200_001, True)
    assert 900 < len(log["tail"].encode()) <= 1000
    assert job["update_seq"] < 60
