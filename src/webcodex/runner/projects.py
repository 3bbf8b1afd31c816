"""Reads the Project registry: one file per Project, and a bad one disables only its own (R-03)."""

import os
import re
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from webcodex.protocol import bounds, hello, inventory
from webcodex.runner import private_files, toml_table

MAX_PROJECTS: Final = bounds.MAX_PAGES * bounds.MAX_PAGE_PROJECTS
_MAX_FILE_BYTES: Final = 64 * 1024
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """One registered Project; `identity` is its root directory as it was when the registry was read."""

    id: str
    root: str
    identity: private_files.Identity
    name: str | None
    kind: str | None
    description: str | None
    allow_patch: bool
    disabled: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A registry file that yields no Project; `file` is its bare name, `rule` names the key."""

    file: str
    rule: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Registry:
    """What the registry said when it was read."""

    projects: Mapping[str, Project]
    faults: tuple[Fault, ...] = ()

    def entries(self) -> tuple[hello.ProjectEntry, ...]:
        """Returns the Projects as the Server hears of them, by id."""
        return tuple(_entry(self.projects[project_id]) for project_id in sorted(self.projects))


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What the settings ask of every Project."""

    registry_dir: Path
    allowed_roots: Sequence[str]
    state_dir: Path


class RegistryUnreadable(Exception):
    """The registry as a whole cannot be read; no Project is ruled on."""


def load(rules: Rules) -> Registry:
    """Returns every sound Project of the registry, and a fault for each file that is not one.

    Raises:
        RegistryUnreadable: the directory cannot be listed, or its Projects are too many to publish.

    """
    try:
        names = sorted(name for name in os.listdir(rules.registry_dir) if _is_entry(name))  # noqa: PTH208
    except OSError as error:
        raise RegistryUnreadable("must be a directory that can be listed") from error
    if len(names) > MAX_PROJECTS:
        raise RegistryUnreadable(f"must not hold more than {MAX_PROJECTS} files")
    read: list[tuple[str, Project]] = []
    faults: list[Fault] = []
    for name in names:
        try:
            read.append((name, _project(rules.registry_dir / name, rules)))
        except toml_table.BadConfiguration as error:
            faults.append(Fault(file=_shown(name), rule=str(error)))
    times = Counter(project.id for _, project in read)
    faults += [
        Fault(file=_shown(name), rule="duplicate_project_id")
        for name, project in read
        if times[project.id] > 1
    ]
    registry = Registry(
        projects={project.id: project for _, project in read if times[project.id] == 1},
        faults=tuple(faults),
    )
    try:
        inventory.pages(registry.entries(), generation=0, snapshot_sequence=0)
    except ValueError as error:
        raise RegistryUnreadable("must not be longer than 64 pages of an inventory") from error
    return registry


def lies_within(path: str, directory: str) -> bool:
    """Says whether a canonical path is `directory` or beneath it, by its spelling."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _is_entry(name: str) -> bool:
    return name.endswith(".toml") and not name.startswith(".")


def _shown(name: str) -> str:
    return name if _FILE_NAME.fullmatch(name) else "(unprintable name)"


def _project(path: Path, rules: Rules) -> Project:
    try:
        content = private_files.read_bounded(path, most_bytes=_MAX_FILE_BYTES)
    except private_files.NotPrivate as error:
        raise toml_table.BadConfiguration("The file", str(error)) from error
    except OSError as error:
        raise toml_table.BadConfiguration("The file", "cannot be read") from error
    table = toml_table.Table(toml_table.parse(content, "The file"))
    table.skip("shell_profile")
    table.skip("hooks")
    root = table.absolute("path")
    project = Project(
        id=table.text("id", most=128, pattern=bounds.PROJECT_ID),
        root=root,
        identity=_root_identity(table, root, rules),
        name=table.text_or_none("name", most=128),
        kind=table.text_or_none("kind", most=64),
        description=table.text_or_none("description", most=1024),
        allow_patch=table.boolean("allow_patch", default=True),
        disabled=table.boolean("disabled", default=False),
    )
    table.finish()
    return project


def _root_identity(table: toml_table.Table, root: str, rules: Rules) -> private_files.Identity:
    if os.path.realpath(root) != root:
        raise table.refuse("path", "must be canonical: without links, dots and doubled slashes")
    if not any(lies_within(root, os.path.realpath(allowed)) for allowed in rules.allowed_roots):
        raise table.refuse("path", "must lie beneath one of policy.allowed_roots")
    state_dir = os.path.realpath(rules.state_dir)
    if lies_within(state_dir, root) or lies_within(root, state_dir):
        raise table.refuse("path", "must not hold the Runner's state_dir, nor lie in it")
    try:
        descriptor = os.open(root, _DIRECTORY)
    except OSError:
        raise table.refuse("path", "must be a directory that can be opened") from None
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    assert stat.S_ISDIR(status.st_mode)
    return private_files.Identity.of(status)


def _entry(project: Project) -> hello.ProjectEntry:
    return hello.ProjectEntry(
        id=project.id,
        path=project.root,
        name=project.name,
        allow_patch=project.allow_patch,
        disabled=project.disabled,
        kind=project.kind,
        description=project.description,
    )
