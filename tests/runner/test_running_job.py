"""What becomes of a Job whose supervisor no longer does as it is told."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.requirements import requirement
from tests.runner import peer
from tests.runner.job_server import is_alive, job_id, known, read_pids
from tests.runner.test_supervisor import NAMES, NASTY
from webcodex.runner import job_pipes, job_record, processes, running_job

PYTHON = sys.executable


@contextmanager
def directory(folder: Path) -> Iterator[int]:
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def started(folder: Path, script: str) -> tuple[running_job.RunningJob, processes.Tree]:
    """Returns a Job that runs, whose supervisor is given up soon after it is overdue."""
    pipes = job_pipes.Pipes(None)
    with directory(folder) as cwd:
        stdin, stdout, stderr = pipes.child_ends
        tree = await processes.prepare(processes.Stdio(cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr))
        await tree.start([PYTHON, "-c", script], {})
    pipes.close_child_ends()
    record = job_record.Record(
        job_id=job_id(1), project="agent:r:demo", purpose="work", created_at=1, timeout_secs=60
    )
    record = job_record.advance(record, job_record.Event.STARTED, started_at=1)
    job = running_job.RunningJob(record, tree, pipes, most_bytes=1000, show=lambda _record: None)
    job.begin()
    return job, tree


def halt(tree: processes.Tree) -> None:
    os.kill(tree.recorded.supervisor_pid, signal.SIGSTOP)


@requirement("R-65")
async def test_a_halted_supervisor_is_given_up_and_its_tree_ended_without_it(tmp_path: Path) -> None:
    """Once before the Job is stopped, once after its process has ended and left others behind."""
    stopped, its_tree = await started(tmp_path / "stopped", NASTY + "\ntime.sleep(60)")
    left, left_tree = await started(tmp_path / "left", NASTY)
    await asyncio.wait({left_tree.exited}, timeout=peer.PATIENCE_S)
    halt(left_tree)
    trees = [known(tree.recorded.supervisor_pid) for tree in (its_tree, left_tree)]
    trees += await read_pids(tmp_path / "stopped", *NAMES)
    trees += await read_pids(tmp_path / "left", *NAMES)
    halt(its_tree)
    assert stopped.stop(0.0)
    async with asyncio.timeout(peer.PATIENCE_S):
        ends = await asyncio.gather(stopped.watch(), left.watch())
    assert [(end.state, end.reason_code, end.exit_code, end.signal) for end in ends] == [
        ("lost", "runner_supervisor_lost", None, None)
    ] * 2
    assert not any(is_alive(process) for process in trees)
