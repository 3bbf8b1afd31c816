"""What the observation hook adds to a tool call, over a bare start of the same interpreter (A-81).

Each round starts a bare interpreter, the hook, a conventional hook and the hook against a dead Server one
after the other, so that whatever else the machine does falls on all of them. The targets are for an idle
machine: a run waits for the disk, for its peer and for a processor, so the load is printed beside them.
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

HERE = Path(__file__).resolve().parent
HOOK = HERE.parent / "integrations" / "codex" / "external_observation_hook.py"
CONVENTIONAL = HERE / "conventional_hook.py"
ROUNDS = 200
WARM_UP = 5
TARGET_P50_MS = 8.0
TARGET_P95_MS = 25.0
TARGET_RATIO = 4.0

Row = tuple[str, str, str, str]


def acknowledge() -> None:
    """Acknowledges every report on a loopback port that it prints, until it is ended."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            head, body = _request(connection)
            if not head:
                continue
            event = json.loads(body)["params"]
            observation = {"tool": event["observed_tool"], "recorded_at": 1, "status": "unknown"}
            observation |= {key: event[key] for key in ("adapter_id", "event_id", "exit_code")}
            output = {"provenance": "external_report", "inserted": True, "observation": observation}
            output |= {key: event[key] for key in ("project", "session_id")}
            answer = json.dumps({"success": True, "output": output}).encode()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)


def _request(connection: socket.socket) -> tuple[bytes, bytes]:
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65_536)
        if not part:
            return b"", b""
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65_536)
    return head, body


@contextmanager
def _peer() -> Iterator[int]:
    command = [sys.executable, __file__, "--acknowledge"]
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


def _operator_folder(place: Path, port: int) -> Path:
    """A private configuration for a Server on ``port``, and a project beside it."""
    place.mkdir(mode=0o700)
    (place / "outbox").mkdir(mode=0o700)
    root = place.parent / "project"
    root.mkdir(exist_ok=True)
    stored = {
        "server_url": f"http://127.0.0.1:{port}",
        "authorization_file": str(place / "authorization"),
        "project": "agent:bench:project",
        "project_root": str(root),
        "workflow_session_id": "wc_sess_bench",
        "local_session_id": "local-bench",
        "state_dir": str(place / "outbox"),
    }
    for name, text in (("authorization", "Bearer bench"), ("config.json", json.dumps(stored))):
        file = place / name
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
    return place / "config.json"


def _took_ms(command: list[str], payload: bytes, expected: int) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, input=payload, capture_output=True, check=False)
    took = (time.perf_counter() - began) * 1_000
    assert done.returncode == expected, done.stderr
    return took


def _payload(root: Path, number: int) -> bytes:
    return json.dumps(
        {
            "hook_event_name": "PostToolUse",
            "session_id": "local-bench",
            "cwd": str(root),
            "tool_use_id": f"call-{number}",
            "tool_name": "Bash",
            "tool_input": {"command": "make check " * 20},
            "tool_response": "ok\n" * 200,
        }
    ).encode()


def measure(rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Milliseconds of each start, sorted, by what was started."""
    taken: dict[str, list[float]] = {"bare": [], "hook": [], "conventional": [], "dead": []}
    with tempfile.TemporaryDirectory() as folder, _peer() as port:
        top = Path(folder).resolve()
        live, dead = _operator_folder(top / "live", port), _operator_folder(top / "dead", _dead_port())
        root = top / "project"
        quick = [sys.executable, "-I", "-S"]
        for number in range(-WARM_UP, rounds):
            payload = _payload(root, number)
            took = {
                "bare": _took_ms([*quick, "-c", "pass"], b"", 0),
                "hook": _took_ms([*quick, str(HOOK), "--config", str(live)], payload, 0),
                "conventional": _took_ms(
                    [sys.executable, str(CONVENTIONAL), "--config", str(live)], payload, 0
                ),
                "dead": _took_ms([*quick, str(HOOK), "--config", str(dead)], _payload(root, 0), 1),
            }
            if number >= 0:
                for name, value in took.items():
                    taken[name].append(value)
    return {name: sorted(values) for name, values in taken.items()}


def rows() -> list[Row]:
    """Figure, measured, baseline, and target or ratio, for the page of figures."""
    load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    taken = measure()
    middle = {name: values[len(values) // 2] for name, values in taken.items()}
    late = {name: values[len(values) * 95 // 100] for name, values in taken.items()}
    bare = f"bare start {middle['bare']:.1f} ms"
    added = middle["hook"] - middle["bare"]
    added_late = late["hook"] - middle["bare"]
    conventional = middle["conventional"] - middle["bare"]
    dead = middle["dead"] - middle["bare"]
    ratio = conventional / added
    return [
        (
            "hook, added p50",
            f"{added:.1f} ms",
            bare,
            _verdict(f"<= {TARGET_P50_MS:.0f} ms", added <= TARGET_P50_MS),
        ),
        (
            "hook, added p95",
            f"{added_late:.1f} ms",
            bare,
            _verdict(f"<= {TARGET_P95_MS:.0f} ms", added_late <= TARGET_P95_MS),
        ),
        (
            "conventional hook, added p50",
            f"{conventional:.1f} ms",
            f"hook {added:.1f} ms",
            _verdict(f"{ratio:.1f} times, >= {TARGET_RATIO:.0f}", ratio >= TARGET_RATIO),
        ),
        ("hook, dead Server, added p50", f"{dead:.1f} ms", bare, f"{dead / added:.1f} times the live one"),
        ("load before the runs", load, "", "targets are for an idle machine"),
    ]


def _verdict(target: str, is_met: bool) -> str:  # noqa: FBT001  # one word of a table
    return f"{target}: {'met' if is_met else 'MISSED'}"


def main() -> None:
    """The table of figures was printed."""
    if sys.argv[1:] == ["--acknowledge"]:
        acknowledge()
    table = [("figure", "measured", "baseline", "target"), *rows()]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
