"""A private home of Codex with the registrations that our scripts print, trusted as a client trusts them."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.hosts import app_server, codex_configuration, model_service, packages

UNTRUSTED: Final = "untrusted"
TRUSTED: Final = "trusted"
MODIFIED: Final = "modified"


class HookedCodex:
    """One home; the user's own is never looked at."""

    def __init__(self, folder: Path, package: str, service: model_service.ModelService) -> None:
        """Makes the home; ``package`` says which Codex."""
        self.home = folder / "codex-home"
        self.home.mkdir(mode=0o700)
        self._words = packages.command(package)
        self._log = folder / "app-server.log"
        self._token = "none"
        self._configuration = codex_configuration.model(service, slug=model_service.KNOWN_SLUG)

    def connect(self, url: str, token: str, *tools: str) -> None:
        """These tools of the Server can be called from now on."""
        self._token = token
        self._configuration += codex_configuration.mcp(url, tools)

    def register(self, lines: Mapping[str, str], **chosen: Any) -> None:
        """Each event has one hook: a printed line, placed where an operator would paste it."""
        hooks = {
            event: [{"hooks": [{"type": "command", "command": line, **chosen}]}]
            for event, line in lines.items()
        }
        (self.home / "hooks.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")

    @contextmanager
    def running(self) -> Iterator[app_server.AppServer]:
        """Yields an app-server of this home; trust that was given before is kept."""
        configuration = self.home / "config.toml"
        if not configuration.exists():
            configuration.write_text(self._configuration, encoding="utf-8")
        variables = codex_configuration.variables(str(self.home), os.environ["PATH"], self._token)
        with app_server.running(self._words, variables, self.home, self._log) as server:
            yield server


def trust(server: app_server.AppServer, folder: Path) -> None:
    """Every hook for ``folder`` is trusted as it stands now."""
    value = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in _listed(server, folder)}
    edit = {"keyPath": "hooks.state", "mergeStrategy": "upsert", "value": value}
    server.call("config/batchWrite", {"edits": [edit]})
    assert set(trusts(server, folder).values()) == {TRUSTED}


def trusts(server: app_server.AppServer, folder: Path) -> dict[str, str]:
    """Returns what Codex says of the trust in each hook, by event."""
    return {hook["eventName"]: hook["trustStatus"] for hook in _listed(server, folder)}


def _listed(server: app_server.AppServer, folder: Path) -> list[Any]:
    (listed,) = server.call("hooks/list", {"cwds": [str(folder)]})["data"]
    hooks: list[Any] = listed["hooks"]
    assert hooks, listed
    return hooks
