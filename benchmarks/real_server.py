"""Starts the real Server on one core for a measurement, with one Project that no Runner serves."""

import json
import os
import secrets
import sqlite3
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PROJECT: Final = "agent:bench:demo"
STOP_S: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningServer:
    """A Server that accepts on loopback."""

    port: int
    token: str
    pid: int
    database: Path

    @property
    def authorization(self) -> str:
        """Returns the header line of the bootstrap credential."""
        return f"Authorization: Bearer {self.token}"

    def call(self, tool: str, **params: Any) -> dict[str, Any]:
        """Returns the output of a tool.

        Raises:
            urllib.error.HTTPError: the call failed.

        """
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/tools/call",
            data=json.dumps({"tool": tool, "params": params}).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            output: dict[str, Any] = json.load(answer)["output"]
            return output

    def processor_s(self) -> float:
        """Returns the processor time the Server has used, seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_kib(self) -> int:
        """Returns the Server's resident memory, KiB."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0])


@contextmanager
def running() -> Iterator[RunningServer]:
    """Gives a fresh Server on the first core; the caller is moved to the others."""
    cores = sorted(os.sched_getaffinity(0))
    token = secrets.token_hex(32)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "WEBCODEX_ADDR": "127.0.0.1:0", "WEBCODEX_DATA": folder}
        environment["WEBCODEX_TOKEN"] = token
        program = str(Path(sys.executable).parent / "webcodex-server")
        process = subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, text=True)
        try:
            if process.stdout is None:
                raise RuntimeError("the Server has no output")
            port = int(process.stdout.readline().rsplit(":", 1)[1])
            if len(cores) > 1:
                os.sched_setaffinity(process.pid, cores[:1])
                os.sched_setaffinity(0, cores[1:])
            database = Path(folder) / "webcodex.sqlite3"
            _register(database)
            yield RunningServer(port=port, token=token, pid=process.pid, database=database)
        finally:
            os.sched_setaffinity(0, cores)
            process.terminate()
            process.wait(STOP_S)


def _register(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute(
        "INSERT INTO wc_projects (client_id, project_id, path, name, allow_patch, disabled)"
        " VALUES ('bench', 'demo', '/srv/demo', 'demo', 1, 0)"
    )
    connection.commit()
    connection.close()
