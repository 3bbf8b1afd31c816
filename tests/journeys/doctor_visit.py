"""Runs ``webcodex doctor`` in this process, and makes data directories for it to look at."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click import testing

from tests.journeys.installation import Installed
from webcodex.cli import credentials, main, project_registry, server_client
from webcodex.cli import installation as files
from webcodex.cli.installation import Installation

SERVERS_OWN = ("webcodex.sqlite3", "logs")


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What the doctor said in both forms; each line by its area and name."""

    exit_code: int
    body: dict[str, Any]
    text: str

    def line(self, area: str, name: str) -> dict[str, Any]:
        """The one line of that name."""
        (found,) = [check for check in self.body["checks"] if (check["area"], check["name"]) == (area, name)]
        return dict(found)

    def told(self, area: str, name: str) -> tuple[str, str, str | None]:
        """Status, what was found and the next step of one line."""
        line = self.line(area, name)
        return line["status"], line["found"], line["next_step"]

    def statuses(self) -> dict[str, str]:
        """The status of each line by ``area: name``."""
        return {f"{each['area']}: {each['name']}": each["status"] for each in self.body["checks"]}

    @property
    def everything(self) -> str:
        """All that was printed."""
        return json.dumps(self.body, ensure_ascii=False) + self.text


def visit(home: Path, found: Installation, **variables: str | None) -> Report:
    """What the doctor says of an installation to a user whose home is ``home``, as JSON and as text."""
    unset: dict[str, str | None] = {"CODEX_HOME": None, "WEBCODEX_TOKEN": None}
    environment = {**unset, "HOME": str(home), "WEBCODEX_DATA": str(found.directory), **variables}
    shown = [ended(("doctor", *words), environment) for words in (("--json",), ())]
    assert [each.stderr for each in shown] == ["", ""]
    assert shown[0].exit_code == shown[1].exit_code
    body = json.loads(shown[0].stdout)
    assert (body["ok"], set(body)) == (shown[0].exit_code == 0, {"ok", "checks"})
    return Report(exit_code=shown[0].exit_code, body=body, text=shown[1].stdout)


def ended(words: tuple[str, ...], environment: Mapping[str, str | None]) -> testing.Result:
    """How one command ended, run in this process."""
    return testing.CliRunner().invoke(main.main, words, env=environment, catch_exceptions=False)


def tree(top: Path, without: tuple[str, ...] = ()) -> dict[str, tuple[object, ...]]:
    """Everything beneath ``top`` that a change would show in, but for what begins like one of ``without``."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [top, *sorted(top.rglob("*"))]:
        if not any(part.startswith(without) for part in path.parts if without):
            status = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path)] = (status.st_mode, status.st_ino, status.st_mtime_ns, status.st_size, content)
    return found


def stopped(folder: Path, root: Path, addr: str = "127.0.0.1:1") -> Installation:
    """A data directory in ``folder`` as ``up`` leaves it, with one project, at an address where nobody is."""
    found = files.Installation(directory=folder / "data")
    files.prepare(found)
    credentials.make_missing(found, f"http://{addr}")
    project_registry.register(found, root)
    files.remember_addr(found, addr)
    return found


def operator(installed: Installed) -> server_client.Client:
    """The Server of an installation, spoken to with its bootstrap credential."""
    return server_client.Client(url=installed.url, token=files.read_secret(installed.files.bootstrap_file))


@contextmanager
def beside(folder: Path, installed: Installed) -> Iterator[Installation]:
    """Yields a second data directory that the running Server knows, held as a running ``up`` holds it."""
    found = stopped(folder, installed.project_root, installed.url.removeprefix("http://"))
    credentials.register(operator(installed), found)
    with running(found, installed.url):
        yield found


@contextmanager
def running(found: Installation, url: str) -> Iterator[None]:
    """Holds a data directory as a running ``up`` does."""
    with files.held(found):
        files.note_running(found, files.Running(url=url, server_pid=1, runner_pid=1))
        yield


def revoke(installed: Installed, token: str) -> None:
    """The Server accepts that token no longer."""
    asking = operator(installed)
    owner = {"username": files.USERNAME}
    for route in ("/api/tokens", "/api/agent-tokens"):
        for known in asking.ask(f"{route}/list", owner)["tokens"]:
            if token.startswith(known["token_prefix"]):
                asking.ask(f"{route}/revoke", {**owner, "token_id": known["id"]})
