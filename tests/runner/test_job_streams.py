"""What a Runner tells of its Jobs arrives, in bounds, over whatever happens to the connection."""

import asyncio
import json
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner import job_server, peer
from tests.runner.job_server import job_id, resume_at, start_body
from tests.runner.place import Place
from webcodex.protocol import messages
from webcodex.runner import streams

PYTHON = sys.executable
WAIT_FOR_GO = "import os, sys, time\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint(sys.argv[1])"


@pytest.fixture(autouse=True)
def folder(place: Place) -> Path:
    return place.add_project("demo")


def stored(place: Place) -> dict[str, dict[str, Any]]:
    """Returns what is on the disk of each Job."""
    entries = [json.loads(path.read_text()) for path in (place.state_dir / "runner-jobs-v1").glob("*.json")]
    return {entry["job"]["job_id"]: entry["job"] for entry in entries}


@requirement("R-46", "R-47", "R-48", "R-64")
async def test_an_outage_with_many_ends_loses_none_of_them(place: Place, folder: Path) -> None:
    numbers = range(1, 7)
    config = place.configure(max_concurrent_jobs=8)
    async with peer.listening() as server:
        place.configure(max_concurrent_jobs=8, server_url=server.url)
        async with peer.running(config):
            async with job_server.registered(server) as first:
                await asyncio.gather(*(first.start(n, PYTHON, "-c", WAIT_FOR_GO, f"{n} é") for n in numbers))
                before = {n: first.newest(n) for n in numbers}
                first.call.drop()
            (folder / "go").touch()
            resume = [resume_at(n, before[n].get("update_seq", 1)) for n in numbers]
            async with job_server.registered(server, *resume) as second:
                second.acknowledges = False
                ends = {n: await second.ended(n) for n in numbers}
                for n in (2, 3):
                    await second.acknowledge({"id": job_id(n), "snapshot": ends[n]})
                await second.ask("job_snapshot", {"job_id": job_id(1)})
                second.call.drop()
            resume = [resume_at(n, ends[n]["update_seq"]) for n in numbers if n != 2]
            async with job_server.registered(server, *resume) as third:
                again = {n: await third.ended(n) for n in numbers if n != 3}
                await third.ask("job_snapshot", {"job_id": job_id(1)})
    inventory = second.hello["job_inventory"]
    assert {n: ends[n]["log"]["tail"] for n in numbers} == {n: f"{n} é\n" for n in numbers}
    assert inventory["active_complete"] is True
    assert {job["job_id"] for job in inventory["jobs"]} == {job_id(n) for n in numbers}
    assert {job["log"]["tail"] for job in inventory["jobs"]} == {""}
    # Sent again: what was not acknowledged, whatever the Server has, and what it does not know.
    assert again == {n: ends[n] for n in numbers if n != 3}
    assert third.newest(3) == {}


@requirement("R-47", "R-61")
async def test_an_end_is_on_the_disk_before_it_is_told_and_updates_keep_their_distance(
    place: Place, folder: Path
) -> None:
    script = "import time\nfor n in range(40): print(n, flush=True); time.sleep(0.02)"
    async with (
        peer.listening() as server,
        peer.running(place.configure(server_url=server.url)),
        job_server.registered(server) as jobs,
    ):
        began = monotonic()
        await jobs.start(1, PYTHON, "-c", script)
        await jobs.until(lambda: jobs.newest(1).get("state") == "completed" and stored(place))
        assert stored(place)[job_id(1)] == jobs.newest(1)
        at_most = 4 * (monotonic() - began) + 3
    outputs = [event for event in jobs.events if event["snapshot"]["state"] == "running"]
    assert 2 <= len(outputs) <= at_most
    assert str(folder) not in json.dumps(jobs.newest(1))
    assert "range(40)" not in "".join(path.read_text() for path in place.state_dir.rglob("*.json"))


@requirement("R-45")
async def test_what_was_begun_is_over_before_the_next_hello_and_is_not_answered(
    place: Place, folder: Path
) -> None:
    numbers = range(1, 9)
    touch = "import sys; open(sys.argv[1], 'a').write('x')"
    async with peer.listening() as server:
        config = place.configure(max_concurrent_jobs=8, server_url=server.url)
        async with peer.running(config):
            async with job_server.registered(server) as first:
                for n in numbers:
                    body = start_body(n, PYTHON, "-c", touch, f"ran{n}")
                    await first.call.send(**first.call.request("start_process_job", body))
                    edit = {"path": f"made{n}", "op": "create", "expected_sha256": None, "content": "x" * 9}
                    await first.call.send(**first.call.request("edit_project_files", {"edits": [edit]}))
                await first.until(lambda: first.events)
                first.call.drop()
            async with job_server.registered(server) as second:
                made = job_server.contents(folder, "made*")
                known = {job["job_id"] for job in second.hello["job_inventory"]["jobs"]}
                for n in numbers:
                    if job_id(n) in known:
                        await second.ended(n)
                absent = [
                    await second.ask("job_snapshot", {"job_id": job_id(n)})
                    for n in numbers
                    if job_id(n) not in known
                ]
                unasked = dict(second._answers)
    ran = {job_id(n) for n in numbers if (folder / f"ran{n}").exists()}
    assert ran == known
    assert {(folder / f"ran{n}").read_text() for n in numbers if job_id(n) in known} == {"x"}
    assert all(result["error"]["code"] == "job_not_found" for result in absent)
    assert unasked == {}
    assert made == job_server.contents(folder, "made*")
    assert set(made.values()) <= {"x" * 9}


class Counted:
    """A stream of numbered events, as a Run is one."""

    def __init__(self, name: str, events: int) -> None:
        self.name = ("run", name)
        self.events = events
        self.acknowledged = streams.START

    def after(self, cursor: streams.Cursor) -> tuple[messages.StreamEvent, streams.Cursor] | None:
        following = cursor.sequence + 1
        if following > self.events:
            return None
        event = messages.StreamEvent(
            stream="run",
            id=self.name[1],
            sequence=following,
            first_retained_sequence=1,
            body={"sequence": following},
            snapshot={},
        )
        return event, streams.Cursor(sequence=following, revision=following)

    def resumed(self, cursor: streams.Cursor) -> streams.Cursor:
        return cursor

    def acknowledge(self, cursor: streams.Cursor) -> None:
        self.acknowledged = cursor


def taken(outbox: streams.Outbox) -> list[tuple[str, int | None]]:
    events = iter(outbox.take, None)
    return [(event.id, event.sequence) for event in events]


@requirement("R-47", "R-48")
def test_no_more_than_64_events_are_in_flight_and_streams_take_turns() -> None:
    outbox = streams.Outbox()
    long, short = Counted("long", 100), Counted("short", 2)
    outbox.add(long)
    outbox.add(short)
    assert taken(outbox) == []
    outbox.begin((messages.Resume(stream="run", id="long", through_sequence=10, through_revision=10),))
    first = taken(outbox)
    outbox.acknowledge(messages.Ack(stream="run", id="long", through_sequence=20, through_revision=20))
    second = taken(outbox)
    outbox.acknowledge(messages.Ack(stream="run", id="long", through_sequence=20, through_revision=20))
    repeated = taken(outbox)
    outbox.end()
    outbox.acknowledge(messages.Ack(stream="run", id="short", through_sequence=2, through_revision=2))
    closed = taken(outbox)
    outbox.begin(())
    assert first[:5] == [("long", 11), ("short", 1), ("long", 12), ("short", 2), ("long", 13)]
    assert len(first) == streams.MAX_IN_FLIGHT
    assert second == [("long", number) for number in range(73, 83)]
    assert (repeated, closed) == ([], [])
    assert long.acknowledged == streams.Cursor(sequence=20, revision=20)
    assert taken(outbox)[:3] == [("long", 1), ("short", 1), ("long", 2)]
