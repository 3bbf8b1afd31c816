"""A scripted Server that starts Jobs on a real Runner and takes their events."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import websockets

from tests.runner import peer
from webcodex.runner import supervisor

TERMINAL: Final = frozenset({"completed", "failed", "stopped", "timed_out", "lost"})
_LOOK_S: Final = 0.02


def job_id(number: int) -> str:
    return f"wc_job_{number:016d}"


def start_body(number: int, *argv: str, **changes: Any) -> dict[str, Any]:
    """Returns the body of a request to start one Job; its hash is that of the rest."""
    body = {"job_id": job_id(number), "argv": list(argv), "cwd": "", "timeout_secs": 60, "purpose": "work"}
    hashed = hashlib.sha256(repr(sorted({**body, **changes}.items())).encode()).hexdigest()
    return {**body, "request_hash": hashed, **changes}


class JobServer:
    """One connection; frames are sorted into answers by request and snapshots by Job as they arrive."""

    def __init__(self, call: peer.Call) -> None:
        self.call = call
        self.hello: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.acknowledges = True
        self._answers: dict[str, dict[str, Any]] = {}
        self._moved = asyncio.Event()

    async def welcome(self, *resume: dict[str, Any]) -> None:
        self.hello = await self.call.receive()
        client = {"client_id": self.hello["client_id"], "connection_id": self.call.connection_id}
        await self.call.send(type="registered", success=True, client=client, protocol=2, resume=list(resume))

    async def listen(self) -> None:
        """Takes frames until the connection ends."""
        with contextlib.suppress(websockets.ConnectionClosed, TimeoutError):
            while True:
                await self._sort(await self.call.receive())
                self._moved.set()

    async def _sort(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "result":
            self._answers[frame["request_id"]] = frame
        elif frame["type"] == "event":
            self.events.append(frame)
            if self.acknowledges:
                with contextlib.suppress(websockets.ConnectionClosed):  # what came before is still to be read
                    await self.acknowledge(frame)
        else:
            self.others.append(frame)

    async def acknowledge(self, event: dict[str, Any]) -> None:
        await self.call.send(
            type="ack",
            stream="job",
            id=event["id"],
            through_sequence=0,
            through_revision=event["snapshot"]["update_seq"],
        )

    async def ask(self, kind: str, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
        """Returns the result of one request."""
        request = self.call.request(kind, body, **changes)
        await self.call.send(**request)
        await self.until(lambda: request["request_id"] in self._answers)
        return self._answers.pop(request["request_id"])

    async def start(self, number: int, *argv: str, **changes: Any) -> dict[str, Any]:
        return await self.ask("start_process_job", start_body(number, *argv, **changes))

    async def until(self, is_so: Callable[[], Any]) -> None:
        """Returns once something holds; it is looked at after each frame."""
        async with asyncio.timeout(peer.PATIENCE_S):
            while not is_so():
                self._moved.clear()
                await self._moved.wait()

    def newest(self, number: int) -> dict[str, Any]:
        """Returns the last snapshot of a Job; {} before the first."""
        found = [event["snapshot"] for event in self.events if event["id"] == job_id(number)]
        return found[-1] if found else {}

    async def ended(self, number: int) -> dict[str, Any]:
        """Returns the last snapshot of a Job once it is over."""
        await self.until(lambda: self.newest(number).get("state") in TERMINAL)
        return self.newest(number)

    async def wrote(self, number: int, text: str) -> None:
        """Returns once a Job has written something."""
        await self.until(lambda: text in self.newest(number).get("log", {}).get("tail", ""))


@asynccontextmanager
async def registered(server: peer.Peer, *resume: dict[str, Any]) -> AsyncIterator[JobServer]:
    """Yields the next connection of the Runner once it is welcomed."""
    jobs = JobServer(await server.dialled())
    await jobs.welcome(*resume)
    listening = asyncio.create_task(jobs.listen())
    try:
        yield jobs
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def resume_at(number: int, revision: int) -> dict[str, Any]:
    return {"stream": "job", "id": job_id(number), "through_sequence": 0, "through_revision": revision}


Known = tuple[int, str]
"""A process by its pid and start time."""


def known(pid: int) -> Known:
    return pid, supervisor.mark_of(pid)


def is_alive(process: Known) -> bool:
    found = supervisor.process_table().get(process[0])
    return found is not None and found.mark == process[1] and not found.is_dead


async def gone(*processes: Known) -> None:
    """Returns once none of the processes lives."""
    await so(lambda: not any(is_alive(process) for process in processes))


async def read_pids(folder: Path, *names: str) -> list[Known]:
    """Returns the processes that wrote their pids into files, once all have."""
    files = [folder / name for name in names]
    await so(lambda: all(file.is_file() and file.read_text().endswith("\n") for file in files))
    return [known(int(file.read_text())) for file in files]


async def so(holds: Callable[[], bool], look_s: float = _LOOK_S) -> None:
    """Returns once something outside this process holds; nothing there can wake a waiter."""
    async with asyncio.timeout(peer.PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - the process table has no events
            await asyncio.sleep(look_s)


def contents(folder: Path, pattern: str = "*") -> dict[str, str]:
    """Returns what the files of a folder hold, by their names."""
    return {path.name: path.read_text() for path in sorted(folder.glob(pattern))}


def supervisors_of(runner_pid: int) -> list[Known]:
    """Returns the supervisors that a Runner has now."""
    table = supervisor.process_table()
    return [
        (pid, table[pid].mark)
        for pid in supervisor.descendants(table, runner_pid)
        if table[pid].parent == runner_pid and b"supervisor.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
