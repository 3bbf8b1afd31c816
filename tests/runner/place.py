"""A place for a Runner: its configuration, its registry and its projects, all beneath one folder."""

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

from webcodex.runner import deadline, file_tools, own_files, private_files, projects

TOKEN = "wc_agent_" + "5e" * 32


def toml(keys: Mapping[str, Any]) -> str:
    """Returns a TOML text; JSON spells the scalars and keys used here, and tables stand in one line."""
    return "".join(f"{json.dumps(name)} = {_value(value)}\n" for name, value in keys.items())


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_value(item)}" for name, item in value.items()) + "}"
    return json.dumps(value)


@dataclass(frozen=True)
class Place:
    """One folder with everything a Runner needs."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "runner.toml"

    @property
    def state_dir(self) -> Path:
        return self.root / "runner-state"

    def configure(self, **changes: Any) -> Path:
        """Writes a sound configuration with `changes`; a key changed to None is left out."""
        keys = {
            "server_url": "http://127.0.0.1:1",
            "token": TOKEN,
            "client_id": "my-runner",
            "policy": {"allowed_roots": [str(self.root / "work")]},
            **changes,
        }
        text = toml({name: value for name, value in keys.items() if value is not None})
        return self.write_config(text)

    def write_config(self, text: str) -> Path:
        self.registry.mkdir(exist_ok=True)
        self.config.unlink(missing_ok=True)
        self.config.touch(mode=0o600)
        self.config.write_text(text, encoding="utf-8")
        return self.config

    @property
    def registry(self) -> Path:
        return self.root / "projects.d"

    def add_project(self, project_id: str, file: str | None = None, **changes: Any) -> Path:
        """Makes a folder and registers it; returns the folder."""
        folder = self.root / "work" / project_id
        folder.mkdir(parents=True, exist_ok=True)
        self.registry.mkdir(exist_ok=True)
        keys = {"id": project_id, "path": str(folder), **changes}
        text = toml({name: value for name, value in keys.items() if value is not None})
        (self.registry / f"{file or project_id}.toml").write_text(text, encoding="utf-8")
        return folder

    def rules(self) -> projects.Rules:
        return projects.Rules(
            registry_dir=self.registry,
            allowed_roots=[str(self.root / "work")],
            state_dir=self.state_dir,
        )

    def own(self) -> own_files.OwnFiles:
        """Returns what is the Runner's own here; the configuration and the state directory exist then."""
        if not self.config.exists():
            self.configure()
        self.state_dir.mkdir(mode=0o700, exist_ok=True)
        _, identity = private_files.read(self.config, most_bytes=100_000)
        return own_files.OwnFiles(
            config_path=self.config,
            config_identity=identity,
            directories=(self.state_dir, self.registry),
        )


def registered(folder: Path) -> projects.Project:
    """Returns a folder as if it stood in a registry."""
    return projects.Project(
        id="demo",
        root=str(folder),
        identity=private_files.Identity.of(folder.stat()),
        name=None,
        kind=None,
        description=None,
        allow_patch=True,
        disabled=False,
    )


def soon(seconds: float = 20.0) -> deadline.Deadline:
    """Returns a deadline that no test waits for."""
    return deadline.Deadline(at=monotonic() + seconds, given_up=Event())


async def read_files(
    project: projects.Project,
    own: own_files.OwnFiles,
    *items: dict[str, Any] | str,
    until: deadline.Deadline | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Returns what `read_files` answers; a bare text is an item with only a path."""
    asked = [{"path": item} if isinstance(item, str) else item for item in items]
    with ThreadPoolExecutor(file_tools.FILES_AT_ONCE) as pool:
        return await file_tools.read_files(
            project, own, {"items": asked, **more}, pool=pool, until=until or soon()
        )


def as_user(user_id: int) -> None:
    """Makes this process act on files as another user where it is the superuser."""
    if os.getuid() == 0:
        os.seteuid(user_id)
