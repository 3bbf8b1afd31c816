"""Measures the start of a Job against a bare subprocess, and what 100 MB of output cost the Runner."""

import asyncio
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from webcodex.protocol import calls
from webcodex.runner import (
    deadline,
    job_shelf,
    job_store,
    jobs,
    kept_answers,
    own_files,
    private_files,
    projects,
    settings,
    streams,
)

ROUNDS: Final = 25
FLOOD_MB: Final = 100
FLOOD: Final = f"yes 0123456789012345678901234567890123456789 | head -c {FLOOD_MB}000000"


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(_measure(Path(name).resolve()))


async def _measure(base: Path) -> list[tuple[str, str, str, str]]:
    its_jobs, project = _jobs(base), _project(base)
    await _run(its_jobs, project, 0, ["/bin/true"])
    started, bare = [], []
    for number in range(1, ROUNDS + 1):
        started.append(await _run(its_jobs, project, number, ["/bin/true"]))
        bare.append(_bare(["/bin/true"]))
    start_ms, bare_ms = (sorted(times)[ROUNDS // 2] * 1000 for times in (started, bare))
    before_kib = _resident_kib()
    flood_s = await _run(its_jobs, project, ROUNDS + 1, ["/bin/sh", "-c", FLOOD])
    after_kib = _resident_kib()
    flood_bare_s = _bare(["/bin/sh", "-c", FLOOD])
    return [
        (
            "Job from request to durable end, `/bin/true`",
            f"{start_ms:.1f} ms",
            f"`subprocess.run`: {bare_ms:.1f} ms",
            f"{start_ms / bare_ms:.0f} times",
        ),
        (
            f"Job that prints {FLOOD_MB} MB",
            f"{flood_s:.2f} s",
            f"read and thrown away: {flood_bare_s:.2f} s",
            f"{flood_s / flood_bare_s:.1f} times",
        ),
        (
            f"the Runner's memory over {FLOOD_MB} MB of output",
            f"{after_kib / 1024:.1f} MiB",
            f"before: {before_kib / 1024:.1f} MiB",
            f"{(after_kib - before_kib) / 1024:+.1f} MiB; target below 4",
        ),
    ]


def _jobs(base: Path) -> jobs.Jobs:
    for folder in ("state", "registry", "project"):
        (base / folder).mkdir(mode=0o700)
    config = base / "runner.toml"
    config.touch(mode=0o600)
    config.write_text(
        'server_url = "http://127.0.0.1:1"\ntoken = "none"\nclient_id = "bench"\nmax_concurrent_jobs = 64\n'
        f'[policy]\nallowed_roots = ["{base}"]\n',
        encoding="utf-8",
    )
    configured = settings.load(config, os.environ)
    own = own_files.OwnFiles(
        config_path=config,
        config_identity=configured.config_identity,
        directories=(base / "state", base / "registry"),
    )
    state = base / "state"
    shelf = job_shelf.JobShelf(job_store.JobStore(state), kept_answers.KeptAnswers(state), streams.Outbox())
    return jobs.Jobs(configured, own, shelf)


def _project(base: Path) -> projects.Project:
    root = base / "project"
    return projects.Project(
        id="bench",
        root=str(root),
        identity=private_files.Identity.of(root.stat()),
        name=None,
        kind=None,
        description=None,
        allow_patch=True,
        disabled=False,
    )


async def _run(its_jobs: jobs.Jobs, project: projects.Project, number: int, argv: list[str]) -> float:
    """Returns the seconds from the request to the shown end."""
    until = deadline.Deadline(at=time.monotonic() + 60, given_up=threading.Event())
    began = time.perf_counter()
    answer = await its_jobs.start(project, _request(number, argv), until)
    job = its_jobs.shelf.jobs[answer["job"]["job_id"]]
    while not job.record.is_terminal:
        its_jobs.shelf.outbox.changed.clear()
        await its_jobs.shelf.outbox.changed.wait()
    return time.perf_counter() - began


def _request(number: int, argv: list[str]) -> calls.Request:
    body: dict[str, Any] = {"argv": argv, "cwd": "", "timeout_secs": 60, "purpose": "work"}
    return calls.Request(
        request_id="req_1",
        connection_id="conn_1",
        kind="start_process_job",
        budget_ms=60_000,
        requested_by="bench",
        created_at=1,
        body={**body, "job_id": f"wc_job_{number:016d}", "request_hash": "0" * 64},
        project_id="bench",
    )


def _bare(argv: list[str]) -> float:
    began = time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while process.stdout.read(65_536):
            pass
    return time.perf_counter() - began


def _resident_kib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0])


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
