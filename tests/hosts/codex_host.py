"""Runs the real Codex CLI, without a terminal, a login or a network, against a scripted model service."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.hosts import codex_configuration, model_service, packages

MCP_SERVER: Final = codex_configuration.MCP_SERVER
RUN_S: Final = 120


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
        model = codex_configuration.model(service, slug=model_service.SLUG, stateless=stateless)
        server = codex_configuration.mcp(url, tools, profile=profile, approval=approval)
        (self._home / "config.toml").write_text(model + server, encoding="utf-8")
        variables = codex_configuration.variables(str(self._home), os.environ["PATH"], token)
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
