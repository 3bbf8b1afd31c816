"""A registry beside a project, a Server of three answers, and the recovery entry run as a host runs it."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.adapters import answers, hook_fixture, peer
from tests.core import handoff_histories as made

if str(hook_fixture.SCRIPTS) not in sys.path:
    sys.path.insert(0, str(hook_fixture.SCRIPTS))

from adapter_kit import (  # needs the path
    bindings,
    limits,
    private_files,
    recovery_hook,
    recovery_setup,
    recovery_text,
    refusal,
    snapshots,
)

ENTRY: Final = hook_fixture.SCRIPTS / "session_recovery.py"
LOCAL: Final = "local-one"
HANDOFF: Final = "/api/tools/call"
PROJECTS: Final = "/api/runtime-console/projects"
SESSIONS: Final = "/api/runtime-console/workflow-sessions"
RUN_S: Final = 60
Row = dict[str, Any]

__all__ = [
    "bindings",
    "limits",
    "private_files",
    "recovery_hook",
    "recovery_setup",
    "recovery_text",
    "refusal",
    "snapshots",
]


class Served:
    """What a Server says on the three routes; a route in ``instead`` is answered by that alone."""

    def __init__(self) -> None:
        self.whole = answers.answer()
        self.projects: list[Row] = []
        self.sessions: list[Row] = [{"session_id": made.SESSION_ID, "title": "Clamp"}]
        self.instead: dict[str, peer.Answer] = {}
        self.asked: list[tuple[str, Row]] = []

    def __call__(self, exchange: peer.Exchange) -> None:
        path = exchange.request.head.split(b" ")[1].decode()
        body = json.loads(exchange.request.body)
        self.asked.append((path, body))
        answer = self.instead.get(path)
        if answer is not None:
            answer(exchange)
        elif path == HANDOFF:
            exchange.send(peer.response(200, answers.body(self.whole)))
        else:
            key, rows = {PROJECTS: ("projects", self.projects), SESSIONS: ("sessions", self.sessions)}[path]
            exchange.send(peer.response(200, _page(key, rows, body)))


@dataclass(frozen=True)
class Result:
    """How one run ended."""

    code: int
    out: bytes
    err: bytes

    @property
    def reason(self) -> str:
        """The word of a failure, whose whole form is right (A-61)."""
        assert (self.code, self.err, self.out.count(b"\n")) == (1, b"", 1), self
        assert self.out.isascii()
        said = json.loads(self.out)
        assert list(said) == ["systemMessage", "reason"]
        for word in ("unavailable", "not refreshed", "nothing was replayed", said["reason"]):
            assert word in said["systemMessage"]
        return str(said["reason"])

    @property
    def said(self) -> Row:
        """The object on stdout of a run that succeeded."""
        assert (self.code, self.err) == (0, b""), self
        assert self.out.isascii()
        shown: Row = json.loads(self.out)
        return shown

    def context(self, event: str) -> str:
        """What the host is asked to put into the conversation, in exactly its form (A-60)."""
        assert set(self.said) == {"hookSpecificOutput"}
        inner = self.said["hookSpecificOutput"]
        assert set(inner) == {"hookEventName", "additionalContext"}
        assert inner["hookEventName"] == event
        assert len(inner["additionalContext"].encode()) <= 9_500
        return str(inner["additionalContext"])

    def shown(self, event: str) -> Row:
        """The JSON of the context, after the preamble."""
        preamble, _, text = self.context(event).partition("\n")
        assert "untrusted historical data" in preamble
        assert "does not bind" in preamble
        shown: Row = json.loads(text)
        assert text == json.dumps(shown, sort_keys=True, ensure_ascii=False)
        return shown


class Operator:
    """What an operator sets up once for many conversations, in a folder of the test."""

    def __init__(self, place: Path, origin: str, *, is_bound: bool = True) -> None:
        place = place.resolve()
        self.root = place / "project"
        self.private = place / "operator"
        self.state = self.private / "recovery-state"
        self.registry = self.private / "recovery.json"
        self.authorization = self.private / "authorization"
        self.root.mkdir(exist_ok=True)
        for folder in (self.private, self.state):
            folder.mkdir(mode=0o700)
        hook_fixture.private(self.authorization, hook_fixture.SECRET.encode() + b"\n")
        self.stored: Row = {
            "version": 1,
            "server_url": origin,
            "authorization_file": str(self.authorization),
            "state_dir": str(self.state),
            "bindings": [self.binding()] if is_bound else [],
        }
        self.configure()

    def configure(self, **changes: object) -> None:
        """The registry holds these changes."""
        self.stored |= changes
        hook_fixture.private(self.registry, json.dumps(self.stored).encode())

    def binding(self, *entries: Path, root: Path | None = None, **changes: object) -> Row:
        """One binding as a registry holds it."""
        root = root or self.root
        stored: Row = {
            "project": made.PROJECT,
            "project_root": str(root),
            "project_identity": identity(root),
            "entry_roots": [
                {"path": str(entry), "identity": identity(entry)} for entry in entries or (root,)
            ],
            "workflow_session_id": made.SESSION_ID,
            "local_session_id": "",
        }
        return stored | changes

    def payload(self, event: str = "SessionStart", **changes: object) -> Row:
        """What the host writes for one event."""
        stored: Row = {
            "session_id": LOCAL,
            "transcript_path": "/nowhere/rollout.jsonl",
            "cwd": str(self.root),
            "hook_event_name": event,
            "model": "m",
            "permission_mode": "default",
        }
        stored |= {"prompt": "go on"} if event == "UserPromptSubmit" else {"source": "startup"}
        return stored | changes

    def start(
        self,
        *verb: str,
        before: Sequence[str] = (),
        stdin: int = subprocess.PIPE,
        stdout: int = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        """A run that waits for its stdin."""
        command = [sys.executable, "-I", "-S", *before, str(ENTRY), "--registry", str(self.registry), *verb]
        return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)

    def run(
        self,
        *verb: str,
        stdin: bytes = b"",
        flags: Sequence[str] = ("-I", "-S"),
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """One run as a process of its own has ended."""
        done = subprocess.run(
            [sys.executable, *flags, str(ENTRY), "--registry", str(self.registry), *verb],
            input=stdin,
            capture_output=True,
            env=None if env is None else {**os.environ, **env},
            timeout=RUN_S,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def hook(self, event: str = "SessionStart", **changes: object) -> Result:
        """One hook-fed run has ended, in a process of its own."""
        return self.run("hook", stdin=json.dumps(self.payload(event, **changes)).encode())

    def asked(self, event: str = "SessionStart", **changes: object) -> Result:
        """The same without the process around it, for tables of many cases."""
        return self.asked_with(json.dumps(self.payload(event, **changes)).encode())

    def asked_with(self, stdin: bytes) -> Result:
        """The same for these bytes on stdin."""
        said: list[bytes] = []

        def run() -> bytes:
            recovery_hook.answer(str(self.registry), str(ENTRY), lambda: stdin, said.append, _expired)
            return b"".join(said)

        result = ended(run)
        assert len(said) == (result.code == 0)
        return result

    def discovered(self, root: Path | None = None) -> Result:
        """``discover``, without the process around it."""
        options = {"--project-root": [str(root or self.root)]}
        return ended(lambda: recovery_setup.discover(str(self.registry), options, _expired))

    def associated(self, *entries: Path, session: str = made.SESSION_ID, local: str | None = None) -> Result:
        """``associate``, without the process around it."""
        options = {"--project-root": [str(self.root)], "--session": [session]}
        options["--entry-root"] = [str(entry) for entry in entries or (self.root,)]
        options |= {} if local is None else {"--local-session": [local]}
        return ended(lambda: recovery_setup.associate(str(self.registry), options, _expired))

    def status(self) -> Row:
        """What ``status`` says, without the process around it."""
        return ended(lambda: recovery_setup.status(str(self.registry))).said

    def snapshots(self) -> dict[str, bytes]:
        """The snapshots and their bytes."""
        return {
            file.name: file.read_bytes() for file in sorted(self.state.glob("recovery-*")) if file.is_file()
        }

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Holds the lock as another run would."""
        folder = private_files.Folder(str(self.state))
        with private_files.FileLock(folder, ".lock") as lock:
            assert lock.take()
            yield
        folder.close()


def ended(run: Any) -> Result:
    """How the entry would end a process that does this."""
    try:
        return Result(0, run(), b"")
    except refusal.Refused as refused:
        return Result(1, recovery_text.failure(refused.reason), b"")


def identity(path: Path) -> list[int]:
    """Device and file number of a directory."""
    found = path.stat()
    return [found.st_dev, found.st_ino]


@contextlib.contextmanager
def serving(place: Path, *, is_bound: bool = True) -> Iterator[tuple[Operator, Served]]:
    """Gives an operator and the Server that the registry names, which has the project at its root."""
    served = Served()
    with peer.Peer(default=served) as server:
        operator = Operator(place, server.origin, is_bound=is_bound)
        served.projects = [{"id": made.PROJECT, "client_id": "r1", "path": str(operator.root)}]
        yield operator, served


def _page(key: str, rows: list[Row], asked: Row) -> Row:
    at = int(asked.get("cursor", "0"))
    shown = rows[at : at + asked["limit"]]
    after = at + len(shown)
    cursor = str(after) if after < len(rows) else None
    return {
        key: shown,
        "total": len(rows),
        "returned": len(shown),
        "truncated": cursor is not None,
        "next_cursor": cursor,
    }


def _expired() -> NoReturn:
    raise AssertionError("the deadline has passed")
