"""Reads what Codex's own configuration says of WebCodex: servers by name, and the commands of its hooks.

Must never write there, and takes nothing on trust: whatever has another shape than expected is left out.
"""

import json
import re
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
    """One command that Codex runs on an event, and the file that says so.

    ``is_approved`` says that Codex has an approval on file for this place; only Codex knows whether it is of
    the present line.
    """

    file: Path
    event: str
    command: str
    is_approved: bool = False


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
    approved = _approved(found.get("config.toml", {}))
    hooks = [
        hook for name, table in found.items() for hook in _hooks(folder / name, table.get("hooks"), approved)
    ]
    return CodexFiles(
        folder=folder,
        servers={name: _table(server) for name, server in servers.items()},
        hooks=tuple(hooks[:_MOST_HOOKS]),
        unreadable=tuple(unreadable),
    )


def _toml(content: bytes) -> Any:
    return tomllib.loads(content.decode())


_json: Final[Callable[[bytes], Any]] = json.loads


def _hooks(file: Path, events: object, approved: frozenset[str]) -> Iterator[Hook]:
    for event, groups in _table(events).items():
        for group, row in enumerate(_rows(groups)):
            for number, hook in enumerate(_rows(row.get("hooks"))):
                command = hook.get("command")
                if isinstance(command, str):
                    place = f"{file}:{_snake(event)}:{group}:{number}"
                    yield Hook(file=file, event=event, command=command, is_approved=place in approved)


def _approved(config: Mapping[str, Any]) -> frozenset[str]:
    """Returns the places of the hooks that somebody approved in Codex, as it keeps them."""
    states = _table(_table(config.get("hooks")).get("state"))
    return frozenset(place for place, state in states.items() if _table(state).get("trusted_hash"))


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(value: object) -> Iterator[Mapping[str, Any]]:
    yield from (row for row in (value if isinstance(value, list) else []) if isinstance(row, dict))
