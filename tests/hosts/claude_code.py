"""Runs the real Claude Code, without a terminal, a login or a network, in a private home with our hooks."""

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.hosts import json_lines, messages_service, packages

MCP_SERVER: Final = "webcodex"
TURN_S: Final = 90.0
# Without these it looks for services that are not there.
QUIET: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
OPTIONS: Final = (
    "--print",
    "--verbose",
    "--input-format=stream-json",
    "--output-format=stream-json",
    "--include-hook-events",
    "--strict-mcp-config",
    "--permission-mode=bypassPermissions",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What one prompt came to."""

    result: Mapping[str, Any]
    hooks: tuple[Mapping[str, Any], ...]

    @property
    def is_whole(self) -> bool:
        """Whether the turn went to its own end."""
        return (self.result["subtype"], self.result["is_error"]) == ("success", False)

    def runs_of(self, event: str) -> list[Mapping[str, Any]]:
        """Returns the ended hook runs of one event."""
        return [run for run in self.hooks if run["hook_event"] == event]

    def disturbed(self) -> list[tuple[str, str, int]]:
        """Returns event, outcome and exit code of each hook run that Claude Code was not content with."""
        return [
            (run["hook_event"], run["outcome"], run["exit_code"])
            for run in self.hooks
            if run["outcome"] != "success"
        ]


class Conversation:
    """One running conversation; its id is chosen here and is what the hooks are told as ``session_id``."""

    def __init__(self, lines: json_lines.JsonLines, identity: str) -> None:
        self.id = identity
        self._lines = lines
        self._first = 0

    def turn(self, prompt: str) -> Turn:
        """Returns how the turn of one prompt went; the first one has the start of the conversation in it."""
        self._lines.tell({"type": "user", "message": {"role": "user", "content": prompt}})
        self._lines.wait(self._results, TURN_S, "a prompt")
        (result,) = self._results()
        told, self._first = self._lines.told[self._first :], len(self._lines.told)
        hooks = tuple(one for one in told if one.get("subtype") == "hook_response")
        return Turn(result=result, hooks=hooks)

    def _results(self) -> list[Mapping[str, Any]]:
        return [one for one in self._lines.told[self._first :] if one["type"] == "result"]


class ClaudeCode:
    """One home; the user's own is never looked at."""

    def __init__(self, folder: Path, service: messages_service.MessagesService) -> None:
        """Makes the home."""
        self._home = folder / "claude-home"
        self._home.mkdir(mode=0o700)
        self._log = folder / "claude.log"
        self._origin = service.origin
        self._words = [*packages.command(packages.CLAUDE_CODE), *OPTIONS, f"--model={messages_service.MODEL}"]

    def connect(self, url: str, token: str) -> None:
        """The tools of the Server can be called from now on."""
        headers = {"Authorization": f"Bearer {token}", "X-WebCodex-MCP-Profile": "direct"}
        server = {"type": "http", "url": f"{url}/mcp", "headers": headers}
        configuration = self._home / "mcp.json"
        configuration.touch(mode=0o600)
        configuration.write_text(json.dumps({"mcpServers": {MCP_SERVER: server}}), encoding="utf-8")
        self._words.append(f"--mcp-config={configuration}")

    def register(self, lines: Mapping[str, str]) -> None:
        """Each event has one hook: a printed line, placed where an operator would paste it."""
        hooks = {event: [{"hooks": [{"type": "command", "command": line}]}] for event, line in lines.items()}
        (self._home / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")

    @contextmanager
    def conversation(self, folder: Path, *options: str) -> Iterator[Conversation]:
        """Yields a new conversation in ``folder``; nothing of the process is left afterwards."""
        identity = str(uuid.uuid4())
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "CLAUDE_CONFIG_DIR": str(self._home),
            "ANTHROPIC_BASE_URL": self._origin,
            "ANTHROPIC_API_KEY": "no-key",
            "IS_SANDBOX": "1",  # as root it takes no permission mode that asks nobody elsewhere
            **QUIET,
        }
        words = [*self._words, f"--session-id={identity}", *options]
        with json_lines.running(words, variables, folder, self._log) as lines:
            yield Conversation(lines, identity)
