"""The stage of the demonstration: processes, calls and files that every step may use.

A Server, a Runner and everything they keep live in one temporary folder.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
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
    job: str = ""
    server_pid: int = 0
    programs: list[subprocess.Popen[str]] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)

    @property
    def repository(self) -> Path:
        """The project."""
        return self.folder / "demo-project"

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"


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


def start_server(stage: Stage) -> None:
    """The Server runs as a program of its own, at the address and with the data it had before."""
    variables = {
        "WEBCODEX_TOKEN": secret(stage, "bootstrap"),
        "WEBCODEX_ADDR": urlsplit(stage.url).netloc,
    }
    process = started(stage, [str(WEBCODEX.with_name("webcodex-server"))], variables)
    stage.server_pid = process.pid
    assert process.stdout is not None
    expect("ready on" in process.stdout.readline(), "the Server did not start")


def start_runner(stage: Stage) -> None:
    """The Runner runs as a program of its own and serves the project."""
    words = [
        str(WEBCODEX.with_name("webcodex-runner")),
        "--config",
        str(stage.data / "runner" / "runner.toml"),
    ]
    started(stage, words, {})


def started(stage: Stage, words: list[str], variables: dict[str, str]) -> subprocess.Popen[str]:
    """Returns a program that runs until the end of the stage; what it logs is kept with the other logs."""
    with (stage.data / "logs" / f"{Path(words[0]).name}.log").open("ab") as log:
        process = subprocess.Popen(
            words,
            env={**environment(stage), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
        )
    stage.programs.append(process)
    stage.pids.add(process.pid)
    return process


def mcp(stage: Stage, tool: str, arguments: dict[str, Any], *, budget_s: int = 30) -> dict[str, Any]:
    """Returns the output of one tool, called over MCP as any client would; a Runner may need a moment."""
    until = time.monotonic() + CALL_S
    while True:
        result = tool_result(stage, tool, arguments, budget_s=budget_s)
        if result["success"] or result["output"]["error_kind"] != "runner_unavailable":
            break
        expect(time.monotonic() < until, "the Runner does not come back")
        time.sleep(0.1)
    expect(result["success"], f"{tool} was refused: {result['error']}")
    output: dict[str, Any] = result["output"]
    return output


def tool_result(stage: Stage, tool: str, arguments: dict[str, Any], *, budget_s: int = 30) -> dict[str, Any]:
    """Returns the ToolResult of one call over MCP by a client that waits ``budget_s`` at most."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    headers = {
        "Authorization": f"Bearer {secret(stage, 'pat')}",
        "Content-Type": "application/json",
        "X-WebCodex-MCP-Budget-Secs": str(budget_s),
    }
    connection = http.client.HTTPConnection(urlsplit(stage.url).netloc, timeout=CALL_S)
    with contextlib.closing(connection):
        connection.request("POST", "/mcp", json.dumps(message).encode(), headers)
        answer = json.loads(connection.getresponse().read())
    expect("result" in answer, f"{tool} was refused: {answer.get('error')}")
    result: dict[str, Any] = answer["result"]["structuredContent"]
    return result


def native_handoff(stage: Stage) -> dict[str, Any]:
    """Returns the handoff, read over MCP."""
    return mcp(stage, "read_session_handoff", {"session_id": stage.session})


def secret(stage: Stage, name: str) -> str:
    """Returns one credential of the installation."""
    return (stage.data / "credentials" / name).read_text(encoding="ascii").strip()


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


def show_logs(stage: Stage) -> None:
    """The last lines of the logs are on stderr; they hold identifiers and no secrets."""
    for log in sorted((stage.data / "logs").glob("*.log")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
        print(f"{log.name}:", *lines, sep="\n  ", file=sys.stderr)


def end(stage: Stage) -> None:
    """Whatever was started has ended."""
    everything = [*stage.programs, *([] if stage.up is None else [stage.up])]
    for process in everything:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate(timeout=STOP_S)
    stage.programs.clear()
