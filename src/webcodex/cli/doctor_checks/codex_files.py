"""Reads what Codex's own configuration says of WebCodex: servers by name, and the commands of its hooks.

Must never write there, and takes nothing on trust: whatever has another shape than expected is left out.
"""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webcodex.runner import private_files

_MOST_BYTES: Final = 1024 * 1024
_MOST_HOOKS: Final = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    """One command that Codex runs on an event, and the file that says so."""

    file: Path
    event: str
    command: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CodexFiles:
    """What the files in Codex's own folder say; ``unreadable`` names those that say nothing."""

    folder: Path
    servers: Mapping[str, Mapping[str, Any]]
    hooks: tuple[Hook, ...]
    unreadable: tuple[Path, ...]


def read(environment: Mapping[str, str]) -> CodexFiles:
    """Returns what CODEX_HOME, or else ``.codex`` in the home directory, holds."""
    folder = Path(environment.get("CODEX_HOME") or Path.home() / ".codex")
    unreadable = []
    found: dict[str, Mapping[str, Any]] = {}
    for name, parse in (("config.toml", _toml), ("hooks.json", _json)):
        try:
            content = private_files.read_bounded((folder / name).resolve(), most_bytes=_MOST_BYTES)
            found[name] = _table(parse(content))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, RecursionError, RuntimeError, private_files.NotPrivate):
            unreadable.append(folder / name)
    servers = _table(found.get("config.toml", {}).get("mcp_servers"))
    hooks = [hook for name, table in found.items() for hook in _hooks(folder / name, table.get("hooks"))]
    return CodexFiles(
        folder=folder,
        servers={name: _table(server) for name, server in servers.items()},
        hooks=tuple(hooks[:_MOST_HOOKS]),
        unreadable=tuple(unreadable),
    )


def _toml(content: bytes) -> Any:
    return tomllib.loads(content.decode())


_json: Final[Callable[[bytes], Any]] = json.loads


def _hooks(file: Path, events: object) -> Iterator[Hook]:
    for event, groups in _table(events).items():
        for group in _rows(groups):
            for hook in _rows(group.get("hooks")):
                command = hook.get("command")
                if isinstance(command, str):
                    yield Hook(file=file, event=event, command=command)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(value: object) -> Iterator[Mapping[str, Any]]:
    yield from (row for row in (value if isinstance(value, list) else []) if isinstance(row, dict))
