"""Many runs at once: nothing is lost or torn, and whoever leaves something behind says so (A-92, A-93)."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters import hook_fixture, peer
from tests.requirements import requirement

RUNS = 50
MEMORY = Path("/dev/shm")


@pytest.fixture
def fast_path(tmp_path: Path) -> Iterator[Path]:
    """A folder whose fsync costs nothing where there is one: the test is about locks, not about the disk."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def results(operator: hook_fixture.Operator, calls: list[str]) -> list[hook_fixture.Result]:
    """All runs are started, then each gets its payload, so that all are in flight together.

    On Windows, where a start may take longer than a fiftieth of what a run waits for, each gets it at once.
    """
    runs = []
    for call in calls:
        runs.append(operator.start())
        if sys.platform == "win32":
            give(runs[-1], operator.payload(call))
    if sys.platform != "win32":
        for run, call in zip(runs, calls, strict=True):
            give(run, operator.payload(call))
    return [hook_fixture.ended(run) for run in runs]


def give(run: subprocess.Popen[bytes], payload: dict[str, object]) -> None:
    """The run has its payload."""
    assert run.stdin is not None
    run.stdin.write(json.dumps(payload).encode())
    run.stdin.close()


@requirement("A-93", "A-34", "A-36")
def test_fifty_parallel_runs_lose_nothing(fast_path: Path) -> None:
    calls = [f"call-{number}" for number in range(RUNS)]
    with peer.Peer() as server:
        operator = hook_fixture.Operator(fast_path, server.origin)
        ended = results(operator, calls)
        stored = {row["event"]["event_id"] for row in server.store.rows.values()}
        waiting = {json.loads(content)["event"]["event_id"] for content in operator.pending().values()}
        expected = {operator.event(call)["event_id"] for call in calls}
        assert stored | waiting == expected
        assert operator.files() == {operator.file_name(call) for call in calls} & operator.files()
        for call, result in zip(calls, ended, strict=True):
            if result.code:
                assert result.reason in {"adapter_busy_event_pending", "pending_delivery_deadline"}
                is_stored = operator.event(call)["event_id"] in stored
                assert is_stored or result.report["pending"] >= 1
            else:
                assert result.is_silent_success
                assert operator.event(call)["event_id"] in stored
        assert any(result.code for result in ended)
        operator.flush()
        assert operator.files() == set()
        assert {row["event"]["event_id"] for row in server.store.rows.values()} == expected
        assert len(server.store.rows) == RUNS


@requirement("A-92", "A-36")
def test_one_payload_from_several_processes_gives_one_row(fast_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(fast_path, server.origin)
        ended = results(operator, ["call-one"] * 6)
        for result in ended:
            assert result.is_silent_success or result.reason == "adapter_busy_event_pending"
        assert any(result.is_silent_success for result in ended)
        operator.flush()
        assert (len(server.store.rows), operator.files()) == (1, set())
