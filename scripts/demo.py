#!/usr/bin/env python3
"""Shows the main job end to end: work is reported in one place and read, as a claim, in another.

Everything happens in a temporary folder, with a Server and a Runner of its own, and nothing of it is left.
The Codex conversation is made up: its hook is run here, on a payload of the shape that Codex sends. So this
shows what WebCodex does with a report, not that a real host sends one.
"""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
ADAPTERS = ROOT / "integrations" / "codex"
PAYLOAD = ROOT / "scripts" / "fixtures" / "post_tool_use.json"
WEBCODEX = Path(sys.executable).with_name("webcodex")
CONVERSATION = "01a2b3c4-made-up-conversation"
READY_S, CALL_S, STOP_S = 90, 30, 30


class Off(Exception):
    """Something is not as it should be; the sentence says what."""


@dataclass
class Stage:
    """What the steps hand on to each other."""

    folder: Path
    number: int = 0
    up: subprocess.Popen[str] | None = None
    url: str = ""
    project: str = ""
    session: str = ""
    config: str = ""
    recorded_at: int = 0
    brief: dict[str, Any] = field(default_factory=dict)
    pids: set[int] = field(default_factory=set)

    @property
    def repository(self) -> Path:
        """The project."""
        return self.folder / "demo-project"

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"


def main() -> int:
    """Prints each step and returns 0, or names the step that failed and returns 1."""
    if not WEBCODEX.exists():
        print("Run it with: make demo", file=sys.stderr)
        return 1
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="webcodex-demo-") as name:
        stage = Stage(folder=Path(name).resolve())
        try:
            for step in STEPS:
                stage.number += 1
                print(f"{stage.number:2}. {step(stage)}", flush=True)
        except (Off, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            print(f"FAILED at step {stage.number}: {type(error).__name__}: {error}", file=sys.stderr)
            show_logs(stage)
            return 1
        finally:
            end(stage)
    print(f"Done in {time.monotonic() - began:.0f} s. The temporary folder is gone.")
    return 0


def make_repository(stage: Stage) -> str:
    """A Git repository with one commit."""
    stage.repository.mkdir()
    (stage.repository / "greeting.py").write_text('print("hello")\n', encoding="utf-8")
    who = ("-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "Say hello")):
        finished(["git", "-C", str(stage.repository), *arguments])
    return "Made a small Git repository with one commit."


def start(stage: Stage) -> str:
    """Server and Runner run."""
    began = time.monotonic()
    bring_up(stage)
    return (
        f"`webcodex up` started a Server and a Runner for it in {time.monotonic() - began:.1f} s; "
        f"MCP is at {stage.url}/mcp."
    )


def open_session(stage: Stage) -> str:
    """A Workflow Session exists."""
    params = {"project": stage.project, "instruction": "Make the greeting friendlier."}
    output = mcp(stage, "work_on_project", params)
    stage.session = output["session_id"]
    items = [{"path": "greeting.py"}]
    read = mcp(stage, "read_files", {"project": stage.project, "items": items})["items"][0]
    expect(read["success"] and "hello" in read["output"]["text"], "the file was not read")
    return f"Over MCP: began the Workflow Session {stage.session} and read greeting.py through the Runner."


def configure(stage: Stage) -> str:
    """The adapters have a private configuration."""
    words = ("--project", stage.project, "--session", stage.session, "--conversation", CONVERSATION)
    printed = finished([str(WEBCODEX), "adapters", "setup", *words], stage)
    stage.config = printed.splitlines()[0].removeprefix("The configuration is in ")
    stored = json.loads(Path(stage.config).read_text(encoding="utf-8"))
    bound = (stored["workflow_session_id"], stored["local_session_id"])
    expect(bound == (stage.session, CONVERSATION), "the configuration names something else")
    return "Bound that exact Session to a made-up Codex conversation, in a private file outside the project."


def report(stage: Stage) -> str:
    """The hook has reported one tool use."""
    ended = hook(stage)
    expect((ended.returncode, ended.stdout, ended.stderr) == (0, "", ""), f"the hook said {ended.stderr}")
    return (
        "Ran the observation hook as Codex would after a Bash call: exit 0. Command and output were not sent."
    )


def list_reports(stage: Stage) -> str:
    """The report is stored as a claim."""
    one = only_report(stage)
    claim = (one["tool"], one["status"], one["exit_code"])
    expect(claim == ("Bash", "unknown", None), f"the report is {claim}")
    stage.recorded_at = one["recorded_at"]
    return (
        "The Server stored 1 external report: tool Bash, outcome unknown (a hook carries no receipt), "
        "coverage incomplete."
    )


def read_brief(stage: Stage) -> str:
    """The handoff brief tells of the report."""
    stage.brief = handoff(stage)
    external = stage.brief["external_observations"]
    told = (external["total"], external["unknown_count"], external["coverage"]["complete"])
    expect(told == (1, 1, False), f"the brief tells of {told}")
    basis = stage.brief["basis"]
    return (
        "Read the handoff brief from inside the project. It says:\n"
        f"      basis.complete                              {said(basis['complete'])}\n"
        f"      basis.reason_codes                          {said(basis['reason_codes'])}\n"
        f"      external_observations.total                 {external['total']}\n"
        f"      external_observations.unknown_count         {external['unknown_count']}\n"
        f"      external_observations.coverage.complete     {said(external['coverage']['complete'])}"
    )


def replay(stage: Stage) -> str:
    """The same payload again stores nothing."""
    ended = hook(stage)
    expect(ended.returncode == 0, f"the hook said {ended.stderr}")
    recorded_at = only_report(stage)["recorded_at"]
    expect(recorded_at == stage.recorded_at, "recorded_at has changed")
    return f"Ran the hook again on the same payload: still 1 report, recorded_at still {recorded_at}."


def kill_server(stage: Stage) -> str:
    """The Server was killed and everything ended."""
    process = running(stage)
    pid = json.loads((stage.data / "running.json").read_text(encoding="utf-8"))["server_pid"]
    os.kill(pid, signal.SIGKILL)
    _, complaint = process.communicate(timeout=STOP_S)
    expect(
        process.returncode == 1 and "SIGKILL" in complaint, f"up ended with {process.returncode}: {complaint}"
    )
    ended = hook(stage, call="call_while_away")
    told = json.loads(ended.stderr)
    expect(ended.returncode == 1 and told["pending"] == 1, f"the hook said {ended.stderr}")
    return (
        "Killed the Server (SIGKILL): `webcodex up` said so, stopped the Runner and ended with exit code 1.\n"
        "    A second tool call was reported meanwhile: the hook kept it and said incomplete, 1 pending."
    )


def start_again(stage: Stage) -> str:
    """The same Server runs again."""
    url = stage.url
    bring_up(stage)
    expect(stage.url == url, "the Server has another address")
    again = handoff(stage)
    different = sorted(key for key in again if again[key] != stage.brief.get(key))
    expect(not different, f"the brief differs in {different}")
    return "Started it again, at the same address with the same tokens: the brief is equal in every field."


def flush(stage: Stage) -> str:
    """The report that waited is stored."""
    ended = adapter(stage, "external_observation_hook.py", "--flush")
    expect(json.loads(ended.stdout or "{}").get("acknowledged") == 1, f"the hook said {ended.stderr}")
    external = handoff(stage)["external_observations"]
    told = (external["total"], external["unknown_count"])
    expect(told == (2, 2), f"the brief tells of {told}")
    return "Flushed the outbox: the report that waited is stored, once. The brief now counts 2, both unknown."


def stop(stage: Stage) -> str:
    """Nothing of this runs any more."""
    process = running(stage)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=STOP_S)
    expect(process.returncode == 0, f"up ended with {process.returncode}: {complaint}")
    left = [pid for pid in stage.pids if is_alive(pid)]
    expect(not left, f"processes are left: {left}")
    return f"Stopped with Ctrl-C: exit code 0, and none of the {len(stage.pids)} processes is left."


STEPS = (
    make_repository,
    start,
    open_session,
    configure,
    report,
    list_reports,
    read_brief,
    replay,
    kill_server,
    start_again,
    flush,
    stop,
)


def bring_up(stage: Stage) -> None:
    """Server and Runner run; the first time at a free port, then at the same one."""
    words = ["up", "--project", str(stage.repository), *([] if stage.url else ["--addr", "127.0.0.1:0"])]
    stage.up = process = subprocess.Popen(
        [WEBCODEX, *words],
        env=environment(stage),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    stage.pids.add(process.pid)
    page = dict(read_page(process))
    stage.url = page["MCP"].removesuffix("/mcp")
    stage.project = page["Project"]
    known = json.loads((stage.data / "running.json").read_text(encoding="utf-8"))
    stage.pids |= {known["server_pid"], known["runner_pid"]}


def read_page(process: subprocess.Popen[str]) -> Iterator[tuple[str, str]]:
    """Yields the labelled lines of the page that ``up`` prints once it is ready."""
    assert process.stdout is not None
    too_late = threading.Timer(READY_S, process.terminate)
    too_late.start()
    try:
        for line in process.stdout:
            label, _, rest = line.strip().partition("  ")
            yield label, rest.strip()
            if label == "Stop":
                return
    finally:
        too_late.cancel()
    _, complaint = process.communicate(timeout=STOP_S)
    raise Off(f"up ended with {process.returncode}: {complaint}")


def mcp(stage: Stage, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the output of one tool, called over MCP as any client would."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    token = (stage.data / "credentials" / "pat").read_text(encoding="ascii").strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(urlsplit(stage.url).netloc, timeout=CALL_S)
    with contextlib.closing(connection):
        connection.request("POST", "/mcp", json.dumps(message).encode(), headers)
        answer = json.loads(connection.getresponse().read())
    result = answer.get("result", {}).get("structuredContent", {})
    expect(result.get("success"), f"{tool} was refused: {answer.get('error') or result.get('error')}")
    output: dict[str, Any] = result["output"]
    return output


def only_report(stage: Stage) -> dict[str, Any]:
    """Returns the one report that the Session has, listed over MCP."""
    listed = mcp(stage, "list_external_observations", {"project": stage.project, "session_id": stage.session})
    expect(len(listed["observations"]) == 1, f"{len(listed['observations'])} reports are stored, not 1")
    expect(listed["coverage"]["complete"] is False, "coverage is said to be complete")
    one: dict[str, Any] = listed["observations"][0]
    return one


def hook(stage: Stage, call: str = "call_1") -> subprocess.CompletedProcess[str]:
    """Returns how the observation hook ended on a payload of the shape that Codex sends after a tool call."""
    payload = json.loads(PAYLOAD.read_text(encoding="utf-8"))
    payload |= {"session_id": CONVERSATION, "cwd": str(stage.repository), "tool_use_id": call}
    return adapter(stage, "external_observation_hook.py", stdin=json.dumps(payload))


def handoff(stage: Stage) -> dict[str, Any]:
    """Returns the brief, read with the reader from inside the project."""
    ended = adapter(stage, "read_handoff.py")
    expect(ended.returncode == 0, f"the reader said {ended.stderr}")
    brief: dict[str, Any] = json.loads(ended.stdout)["handoff_brief"]
    return brief


def adapter(stage: Stage, script: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Returns how an adapter ended that was run as a host runs it."""
    return subprocess.run(
        [sys.executable, "-I", "-S", ADAPTERS / script, "--config", stage.config, *words],
        cwd=stage.repository,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=CALL_S,
        check=False,
    )


def finished(argv: list[str], stage: Stage | None = None) -> str:
    """Runs a program to its good end and returns what it printed."""
    ended = subprocess.run(
        argv,
        env=environment(stage),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=CALL_S,
        check=False,
    )
    expect(ended.returncode == 0, f"{argv[0]} ended with {ended.returncode}: {ended.stderr}")
    return ended.stdout


def environment(stage: Stage | None) -> dict[str, str]:
    """Returns the variables of this process without those of another WebCodex or Git."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("WEBCODEX_", "GIT_"))}
    return kept if stage is None else {**kept, "WEBCODEX_DATA": str(stage.data)}


def running(stage: Stage) -> subprocess.Popen[str]:
    """Returns the process of ``webcodex up``."""
    if stage.up is None or stage.up.poll() is not None:
        raise Off("up is not running")
    return stage.up


def is_alive(pid: int) -> bool:
    """Says whether a process of that id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def expect(holds: object, otherwise: str) -> None:
    """Raises ``Off`` unless it holds."""
    if not holds:
        raise Off(otherwise)


def said(value: object) -> str:
    """Returns a value as the brief's JSON has it."""
    return json.dumps(value)


def show_logs(stage: Stage) -> None:
    """The last lines of the logs are on stderr; they hold identifiers and no secrets."""
    for log in sorted((stage.data / "logs").glob("*.log")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
        print(f"{log.name}:", *lines, sep="\n  ", file=sys.stderr)


def end(stage: Stage) -> None:
    """Whatever was started has ended."""
    if stage.up is not None and stage.up.poll() is None:
        stage.up.terminate()
        try:
            stage.up.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            stage.up.kill()


if __name__ == "__main__":
    sys.exit(main())
