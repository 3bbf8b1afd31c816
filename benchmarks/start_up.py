"""Measures how long the Server takes to accept and how long ``webcodex --help`` takes, over a bare Python."""

import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROUNDS: Final = 7
STOP_S: Final = 20
FOLDER: Final = Path(sys.executable).parent


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    bare = statistics.median(_ended([sys.executable, "-c", "pass"]) for _ in range(ROUNDS))
    help_page = statistics.median(_ended([str(FOLDER / "webcodex"), "--help"]) for _ in range(ROUNDS))
    with tempfile.TemporaryDirectory() as folder:
        first = _server_ready(folder)
        later = statistics.median(_server_ready(folder) for _ in range(ROUNDS))
    return [
        _row("`webcodex --help`", help_page, bare),
        _row("Server accepts, first start (migration)", first, bare),
        _row("Server accepts, later starts", later, bare),
    ]


def _row(figure: str, measured_s: float, bare_s: float) -> tuple[str, str, str, str]:
    return (
        figure,
        f"{measured_s * 1000:,.0f} ms",
        f"`python -c pass`: {bare_s * 1000:,.0f} ms",
        f"{measured_s / bare_s:.1f} times",
    )


def _ended(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _server_ready(folder: str) -> float:
    environment = {
        **os.environ,
        "WEBCODEX_ADDR": "127.0.0.1:0",
        "WEBCODEX_DATA": folder,
        "WEBCODEX_TOKEN": secrets.token_hex(32),
    }
    began = time.perf_counter()
    server = subprocess.Popen(
        [str(FOLDER / "webcodex-server")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    if server.stdout is None or "ready" not in server.stdout.readline():
        raise RuntimeError("the Server did not accept")
    taken = time.perf_counter() - began
    server.terminate()
    server.wait(STOP_S)
    return taken


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
