"""What the recovery hook adds to a prompt, over a bare start of the same interpreter, and how much it says.

Each round starts a bare interpreter, the hook for a conversation's start and for a prompt that changes
nothing, and the hook against a dead Server, one after the other, so that whatever else the machine does
falls on all of them. The peer is a process of its own that answers both requests as the product would.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ENTRY = HERE.parent / "integrations" / "codex" / "session_recovery.py"
ROUNDS = 100
WARM_UP = 3
TARGET_P50_MS = 25.0
TARGET_P95_MS = 80.0
DEADLINE_MS = 10_000.0
UNCHANGED_BYTES = 1_000
PROJECT = "agent:bench:project"
SESSION = "wc_sess_bench"
EVENTS = {"start": "SessionStart", "prompt": "UserPromptSubmit"}

Row = tuple[str, str, str, str]


def _brief() -> dict[str, Any]:
    """A brief of ordinary size, as the Server makes it without a workspace."""
    names = [f"src/package/module_{number}.py" for number in range(8)]
    listed = {"items": names, "total": 8, "returned": 8, "truncated": False}
    said = {"excerpt": "Make the clamp inclusive at both ends and test it. " * 6, "truncated": False}
    return {
        "version": 1,
        "session": {"session_id": SESSION, "lifecycle": "active", "mode": "normal"},
        "task": {"root_instruction": said, "latest_instruction": said},
        "progress": {"state": "insufficient_evidence", "changes": listed, "recent_files": listed},
        "external_observations": _reports(),
        "next_actions": ["Reread the recent files before editing."],
        "basis": {"complete": False, "reason_codes": ["workspace_not_requested"]},
        "deterministic": True,
        "llm_summary": False,
    }


def _reports() -> dict[str, Any]:
    tool = {"adapter_id": "a" * 64, "tool": "Bash", "exit_code": None, "status": "unknown"}
    return {
        "status": "available",
        "reason_code": None,
        "provenance": "external_report",
        "coverage": {
            "complete": False,
            "reason": "source_sequence_unavailable",
            "ordering": "server_recorded_at_then_identity",
        },
        "total": 40,
        "returned": 5,
        "truncated": True,
        "unknown_count": 40,
        "observations": [{**tool, "event_id": f"{at:064x}", "recorded_at": at} for at in range(1, 6)],
    }


def answer_for(root: str) -> None:
    """Answers both requests of every hook on a loopback port that it prints, until it is ended."""
    handoff = {"project": PROJECT, "session_id": SESSION, "handoff_brief": _brief()}
    rows = [{"id": PROJECT, "client_id": "bench", "path": root}]
    page = {"projects": rows, "total": 1, "returned": 1, "truncated": False, "next_cursor": None}
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            head = _received(connection)
            said = {"success": True, "output": handoff} if b"/api/tools/call" in head else page
            body = json.dumps(said).encode()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def _received(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65_536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65_536)
    return head


@contextmanager
def _peer(root: Path) -> Iterator[int]:
    command = [sys.executable, __file__, "--answer", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _dead_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _registry(place: Path, port: int, root: Path) -> Path:
    """A private registry with one binding for a Server on ``port``."""
    place.mkdir(mode=0o700)
    (place / "state").mkdir(mode=0o700)
    found = root.stat()
    identity = [found.st_dev, found.st_ino]
    binding = {
        "project": PROJECT,
        "project_root": str(root),
        "project_identity": identity,
        "entry_roots": [{"path": str(root), "identity": identity}],
        "workflow_session_id": SESSION,
        "local_session_id": "",
    }
    stored = {
        "version": 1,
        "server_url": f"http://127.0.0.1:{port}",
        "authorization_file": str(place / "authorization"),
        "state_dir": str(place / "state"),
        "bindings": [binding],
    }
    for name, text in (("authorization", "Bearer bench"), ("recovery.json", json.dumps(stored))):
        file = place / name
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
    return place / "recovery.json"


def _ran(command: list[str], payload: bytes, expected: int) -> tuple[float, bytes]:
    began = time.perf_counter()
    done = subprocess.run(command, input=payload, capture_output=True, check=False)
    took = (time.perf_counter() - began) * 1_000
    assert done.returncode == expected, done.stdout
    return took, done.stdout


def _payload(root: Path, event: str) -> bytes:
    return json.dumps(
        {
            "session_id": "local-bench",
            "transcript_path": "/nowhere/rollout.jsonl",
            "cwd": str(root),
            "hook_event_name": event,
            "prompt": "go on with the clamp " * 20,
        }
    ).encode()


def measure(rounds: int = ROUNDS) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Milliseconds of each start, sorted, and bytes put into the conversation, by what was started."""
    taken: dict[str, list[float]] = {"bare": [], "start": [], "prompt": [], "dead": []}
    sizes: dict[str, int] = {}
    quick = [sys.executable, "-I", "-S"]
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder).resolve()
        root = top / "project"
        root.mkdir()
        with _peer(root) as port:
            live, dead = _registry(top / "live", port, root), _registry(top / "dead", _dead_port(), root)
            entry = [*quick, str(ENTRY), "--registry"]
            for number in range(-WARM_UP, rounds):
                took = {"bare": _ran([*quick, "-c", "pass"], b"", 0)[0]}
                for name, event in EVENTS.items():
                    took[name], said = _ran([*entry, str(live), "hook"], _payload(root, event), 0)
                    sizes[name] = len(json.loads(said)["hookSpecificOutput"]["additionalContext"].encode())
                took["dead"] = _ran([*entry, str(dead), "hook"], _payload(root, EVENTS["prompt"]), 1)[0]
                if number >= 0:
                    for name, value in took.items():
                        taken[name].append(value)
    return {name: sorted(values) for name, values in taken.items()}, sizes


def rows() -> list[Row]:
    """Figure, measured, baseline, and target or ratio, for the page of figures."""
    load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    taken, sizes = measure()
    return [
        *_costs(taken),
        _said(sizes),
        ("load before the runs", load, "", "targets are for an idle machine"),
    ]


def _costs(taken: dict[str, list[float]]) -> list[Row]:
    middle = {name: values[len(values) // 2] for name, values in taken.items()}
    late = {name: values[len(values) * 95 // 100] for name, values in taken.items()}
    bare = f"bare start {middle['bare']:.1f} ms"
    added = {name: middle[name] - middle["bare"] for name in (*EVENTS, "dead")}
    added_late = late["prompt"] - middle["bare"]
    slowest = taken["dead"][-1]
    return [
        (
            "recovery hook, unchanged prompt, added p50",
            f"{added['prompt']:.1f} ms",
            bare,
            _verdict(f"<= {TARGET_P50_MS:.0f} ms", added["prompt"] <= TARGET_P50_MS),
        ),
        (
            "recovery hook, unchanged prompt, added p95",
            f"{added_late:.1f} ms",
            bare,
            _verdict(f"<= {TARGET_P95_MS:.0f} ms", added_late <= TARGET_P95_MS),
        ),
        (
            "recovery hook, start with the whole brief, added p50",
            f"{added['start']:.1f} ms",
            f"unchanged prompt {added['prompt']:.1f} ms",
            f"{added['start'] / added['prompt']:.1f} times",
        ),
        (
            "recovery hook, dead Server, slowest",
            f"{slowest:.1f} ms, added p50 {added['dead']:.1f} ms",
            bare,
            _verdict(f"<= {DEADLINE_MS:.0f} ms", slowest <= DEADLINE_MS),
        ),
    ]


def _said(sizes: dict[str, int]) -> Row:
    return (
        "recovery hook, bytes put into an unchanged prompt",
        f"{sizes['prompt']} bytes",
        f"whole evidence {sizes['start']} bytes",
        _verdict(f"<= {UNCHANGED_BYTES} bytes", sizes["prompt"] <= UNCHANGED_BYTES),
    )


def _verdict(target: str, is_met: bool) -> str:  # noqa: FBT001  # one word of a table
    return f"{target}: {'met' if is_met else 'MISSED'}"


def main() -> None:
    """The table of figures was printed."""
    if sys.argv[1:2] == ["--answer"]:
        answer_for(sys.argv[2])
    for row in rows():
        print(" | ".join(row))


if __name__ == "__main__":
    main()
