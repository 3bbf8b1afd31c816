"""Measures ``read_files`` of eight files through Server and Runner, against reading them where they lie."""

import asyncio
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks import http_load, real_server

FILES: Final = 8
LINES: Final = 200
READS: Final = 200
READY_S: Final = 20
RUNNER: Final = Path(sys.executable).parent / "webcodex-runner"


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    with tempfile.TemporaryDirectory() as folder, real_server.running() as server:
        root = _project(Path(folder).resolve())
        runner = subprocess.Popen([str(RUNNER), "--config", str(_config(root, server))])
        try:
            _wait(server)
            load = asyncio.run(http_load.run(server.port, [[_request(server)] * READS]))
        finally:
            runner.terminate()
            runner.wait(READY_S)
        direct = sorted(_read(root) for _ in range(READS))
    direct_ms = direct[READS // 2] * 1000
    return [
        (
            f"`read_files` of {FILES} files of {LINES} lines, one client",
            f"p50 {load.percentile_ms(0.5):.1f} ms, p95 {load.percentile_ms(0.95):.1f} ms",
            f"open, read, hash them here: p50 {direct_ms:.2f} ms",
            f"{load.percentile_ms(0.5) / direct_ms:.0f} times",
        )
    ]


def _project(folder: Path) -> Path:
    root = folder / "project"
    root.mkdir()
    for number in range(FILES):
        (root / f"file_{number}.py").write_text("value = 1  # one line of a file\n" * LINES, encoding="utf-8")
    return root


def _config(root: Path, server: real_server.RunningServer) -> Path:
    home = root.parent / "runner"
    projects = home / "projects.d"
    projects.mkdir(parents=True, mode=0o700)
    (projects / "files.toml").write_text(f'id = "files"\npath = "{root}"\n', encoding="utf-8")
    config = home / "runner.toml"
    config.touch(0o600)
    config.write_text(
        f'server_url = "http://127.0.0.1:{server.port}"\ntoken = "{server.token}"\nclient_id = "files"\n'
        f'[policy]\nallowed_roots = ["{root.parent}"]\n',
        encoding="utf-8",
    )
    home.chmod(0o700)
    return config


def _wait(server: real_server.RunningServer) -> None:
    ends = time.monotonic() + READY_S
    while time.monotonic() < ends:
        projects = server.call("list_projects")["projects"]
        if any(project["project"] == "agent:files:files" and project["connected"] for project in projects):
            return
        time.sleep(0.1)
    raise RuntimeError("the Runner did not connect")


def _request(server: real_server.RunningServer) -> bytes:
    items = [{"path": f"file_{number}.py"} for number in range(FILES)]
    body = json.dumps({"tool": "read_files", "params": {"project": "agent:files:files", "items": items}})
    return http_load.post("/api/tools/call", body.encode(), server.authorization)


def _read(root: Path) -> float:
    began = time.perf_counter()
    for number in range(FILES):
        content = (root / f"file_{number}.py").read_bytes()
        hashlib.sha256(content).hexdigest()
        content.decode()
    return time.perf_counter() - began


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
