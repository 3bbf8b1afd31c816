"""A private operator folder beside a project, and the observation hook run on it as a host runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

SCRIPTS: Final = Path(__file__).resolve().parents[2] / "integrations" / "codex"
HOOK: Final = SCRIPTS / "external_observation_hook.py"
STEPPED: Final = Path(__file__).with_name("stepped_run.py")
LOCAL: Final = "local-fixture"
SECRET: Final = "Bearer planted-authorization"
RUN_S: Final = 60
COUNTS: Final = ("acknowledged", "pending", "refused", "rejected", "skipped")


@dataclass(frozen=True)
class Result:
    """How one run ended."""

    code: int
    out: bytes
    err: bytes

    @property
    def report(self) -> dict[str, Any]:
        """The one line on stderr of an incomplete run."""
        assert (self.code, self.out, self.err.count(b"\n")) == (1, b"", 1), self
        assert self.err.isascii()
        line: dict[str, Any] = json.loads(self.err)
        assert list(line) == ["status", "reason", *COUNTS]
        assert line["status"] == "incomplete"
        return line

    @property
    def reason(self) -> str:
        """Why the run is incomplete."""
        return str(self.report["reason"])

    @property
    def counts(self) -> dict[str, int]:
        """The counts of an incomplete run that are not 0."""
        return {key: self.report[key] for key in COUNTS if self.report[key]}

    @property
    def is_silent_success(self) -> bool:
        """Whether the run ended as a hook that has nothing to say."""
        return (self.code, self.out, self.err) == (0, b"", b"")


class Operator:
    """What an operator sets up for one conversation, in a folder of the test."""

    def __init__(self, place: Path, origin: str = "http://127.0.0.1:9", **changes: object) -> None:
        place = place.resolve()
        self.root = place / "project"
        self.private = place / "operator"
        self.outbox = self.private / "outbox"
        self.config = self.private / "config.json"
        self.authorization = self.private / "authorization"
        self.trace = place / "trace"
        self.root.mkdir(exist_ok=True)
        for folder in (self.private, self.outbox):
            folder.mkdir(mode=0o700)
        private(self.authorization, SECRET.encode() + b"\n")
        self.stored = {
            "server_url": origin,
            "authorization_file": str(self.authorization),
            "project": "agent:fixture:project",
            "project_root": str(self.root),
            "workflow_session_id": "wc_sess_fixture",
            "local_session_id": LOCAL,
            "state_dir": str(self.outbox),
        }
        self.configure(**changes)

    def configure(self, **changes: object) -> None:
        """The configuration file holds these changes."""
        self.stored |= changes  # type: ignore[arg-type]  # some tests store what is not allowed
        private(self.config, json.dumps(self.stored).encode())

    def payload(self, call: object = "call-one", **changes: object) -> dict[str, object]:
        """What the host writes after one tool call."""
        made: dict[str, object] = {
            "session_id": LOCAL,
            "transcript_path": "/nowhere/rollout.jsonl",
            "cwd": str(self.root),
            "hook_event_name": "PostToolUse",
            "model": "m",
            "permission_mode": "default",
            "turn_id": "turn",
            "tool_name": "Bash",
            "tool_input": {"command": "true"},
            "tool_response": "ok",
            "tool_use_id": call,
        }
        return made | changes

    def hook(self, call: object = "call-one", **changes: object) -> Result:
        """One hook-fed run for this call has ended."""
        return self.run(json.dumps(self.payload(call, **changes)).encode())

    def run(
        self,
        stdin: bytes,
        *verb: str,
        flags: Sequence[str] = ("-I", "-S"),
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """One run with these bytes on stdin has ended."""
        process = self.start(*verb, flags=flags, env=env)
        out, err = process.communicate(stdin, timeout=RUN_S)
        return Result(process.returncode, out, err)

    def start(
        self,
        *verb: str,
        flags: Sequence[str] = ("-I", "-S"),
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        stdin: int = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        """A run that waits for its stdin; ``before`` are a program and arguments that run the hook."""
        command = [sys.executable, *flags, *before, str(HOOK), "--config", str(self.config), *verb]
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else {**os.environ, **env},
        )

    def stepped(self, step: int, stdin: bytes, *verb: str) -> subprocess.Popen[bytes]:
        """A run that is stopped after its effect number ``step``, or has ended if it has fewer.

        The names of its effects are in ``trace``.
        """
        self.trace.unlink(missing_ok=True)
        process = self.start(*verb, before=("-B", str(STEPPED), str(self.trace), str(step)))
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.close()
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
        return process

    def effects(self) -> list[str]:
        """The names of the effects of the last stepped run."""
        return self.trace.read_text(encoding="utf-8").split()

    def flush(self, *more: str) -> Result:
        """``--flush`` has ended."""
        return self.run(b"", "--flush", *more)

    def status(self) -> dict[str, Any]:
        """What ``--status`` says."""
        result = self.run(b"", "--status")
        assert (result.code, result.err) == (0, b""), result
        line: dict[str, Any] = json.loads(result.out)
        return line

    def pending(self) -> dict[str, bytes]:
        """The files of the outbox that are reports by their name."""
        return _reports(self.outbox)

    def rejected(self) -> dict[str, bytes]:
        """The files set aside."""
        return _reports(self.outbox / "rejected")

    def files(self) -> set[str]:
        """Everything in the outbox but the locks, the note of the last flush and the rejected reports."""
        own = {".save", ".lock", ".refused", "rejected"}
        return {entry.name for entry in self.outbox.iterdir()} - own

    def save(self, call: object, **changes: object) -> Path:
        """A report waits in the outbox as an earlier run would have left it."""
        file = self.outbox / self.file_name(call)
        private(file, json.dumps(self.content(call, **changes), sort_keys=True).encode())
        return file

    def content(self, call: object, **changes: object) -> dict[str, Any]:
        """What the outbox keeps of one call."""
        return {"association": self.association(), "event": self.event(call) | changes}

    def event(self, call: object) -> dict[str, Any]:
        """The report of one call (A-25)."""
        return {
            "adapter_id": digest(f"codex-session\0{self.stored['local_session_id']}"),
            "event_id": digest(f"codex-tool\0{self.stored['local_session_id']}\0{call}"),
            "exit_code": None,
            "observed_tool": "Bash",
            "project": self.stored["project"],
            "session_id": self.stored["workflow_session_id"],
        }

    def association(self) -> str:
        """What binds reports to this configuration (A-26)."""
        keys = ("server_url", "project", "project_root", "workflow_session_id", "local_session_id")
        return digest(json.dumps([self.stored[key] for key in keys]))

    def file_name(self, call: object) -> str:
        """The name under which the report of one call waits (A-26)."""
        return digest(self.association() + self.event(call)["event_id"]) + ".json"


def set_written(file: Path, at: int) -> None:
    """The file was last written at this Unix second."""
    os.utime(file, (at, at))


def ended(process: subprocess.Popen[bytes]) -> Result:
    """How a run ended whose stdin is closed already."""
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        out, err = process.stdout.read(), process.stderr.read()
    return Result(process.wait(RUN_S), out, err)


def digest(text: str) -> str:
    """The SHA-256 of the text, in hex."""
    return sha256(text.encode()).hexdigest()


def private(file: Path, content: bytes) -> Path:
    """The file holds the content and only its owner may use it."""
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_bytes(content)
    return file


def is_private(path: Path) -> bool:
    """Whether the file or directory is its owner's alone, by the rules of this platform."""
    if sys.platform == "win32":
        from tests.adapters import windows_modes  # noqa: PLC0415  # there is none elsewhere

        return windows_modes.is_private(path)
    else:  # noqa: RET505  # so that each platform's checker sees its own half
        return path.stat().st_mode & 0o7777 == (0o700 if path.is_dir() else 0o600)


def _reports(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    names = sorted(file.name for file in folder.iterdir() if len(file.name) == 69 and file.suffix == ".json")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
