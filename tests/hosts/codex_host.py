"""Runs the real Codex CLI, without a terminal, a login or a network, against a scripted model service."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.hosts import model_service, packages

MCP_SERVER: Final = "webcodex"
RUN_S: Final = 120
TOKEN_VARIABLE: Final = "WEBCODEX_TOKEN"
KEY_VARIABLE: Final = "SCRIPTED_RUN_KEY"

# Without the last three it waits for services that are not there.
CONFIGURATION: Final = """
model = "{slug}"
model_provider = "scripted"

[model_providers.scripted]
name = "{scripted}"
base_url = "{base_url}"
wire_api = "responses"
env_key = "{key}"
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = 90000

[mcp_servers.{server}]
url = "{url}/mcp"
bearer_token_env_var = "{token}"
http_headers = {{ "X-WebCodex-MCP-Profile" = "{profile}" }}
enabled_tools = {tools}
required = true
default_tools_approval_mode = "{approval}"
startup_timeout_sec = 30
tool_timeout_sec = 60

[analytics]
enabled = false

[features]
plugins = false
unbounded_connection_retries = false
mcp_2026_07_28 = {stateless}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a run ended, and the events it told."""

    exit_code: int
    events: tuple[Mapping[str, Any], ...]
    complained: str

    def completed(self, kind: str) -> list[Mapping[str, Any]]:
        """Returns the completed items of one kind, in order."""
        items = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in items if item["type"] == kind]


class CodexHome:
    """A private home of Codex in a temporary folder; the user's own is never looked at."""

    def __init__(self, folder: Path) -> None:
        """Makes the home and the empty folder that Codex works in."""
        self._home = folder / "codex-home"
        self._work = folder / "elsewhere"
        for made in (self._home, self._work):
            made.mkdir(mode=0o700)

    def run(
        self,
        service: model_service.ModelService,
        *,
        url: str,
        token: str,
        tools: Sequence[str],
        profile: str = "direct",
        approval: str = "auto",
        stateless: str = "false",
    ) -> Ended:
        """Returns how ``codex exec --json`` ended with this one MCP server and these tools of it.

        With ``approval`` ``auto`` Codex calls only what its hints call harmless, with ``approve`` everything.
        ``stateless`` turns on its use of the revision 2026-07-28.
        """
        text = CONFIGURATION.format(
            slug=model_service.SLUG,
            scripted=model_service.SCRIPTED,
            base_url=service.base_url,
            key=KEY_VARIABLE,
            server=MCP_SERVER,
            url=url,
            token=TOKEN_VARIABLE,
            profile=profile,
            approval=approval,
            stateless=stateless,
            tools=json.dumps(list(tools)),
        )
        (self._home / "config.toml").write_text(text, encoding="utf-8")
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "CODEX_HOME": str(self._home),
            KEY_VARIABLE: "no-key",
            TOKEN_VARIABLE: token,
        }
        words = ["exec", "--json", "--skip-git-repo-check", f"{model_service.SCRIPTED}."]
        return _ended([*packages.command(packages.CODEX), *words], self._work, variables)


def _ended(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Ended:
    with subprocess.Popen(
        words,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        try:
            told, complained = process.communicate(timeout=RUN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"codex exec did not end within {RUN_S} s") from None
    events = tuple(json.loads(line) for line in told.splitlines())
    return Ended(exit_code=process.returncode, events=events, complained=complained)
