"""Edits the Runner's project registry: one private file per Project (R-03)."""

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webcodex.cli import refusal, runner_file, server_client
from webcodex.cli.installation import Installation
from webcodex.protocol import bounds
from webcodex.runner import private_files

_MOST_BYTES: Final = 64 * 1024
_LONGEST_ID: Final = 100
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One registry file that can be read; ``path`` is the root it names."""

    id: str
    path: str
    file: Path
    disabled: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """A Project that is in the registry, and what its owner should know about that."""

    canonical: str
    needs_restart: bool
    notes: tuple[str, ...]


def register(found: Installation, root: Path) -> Registered:
    """Leaves ``root`` in the registry and among the places that the Runner may serve (R-02, R-03).

    Raises:
        Refused: it is registered and disabled, or the Runner's configuration cannot be used.

    """
    runner = runner_file.read(found.runner_file)
    notes = []
    if not any(_lies_within(root, Path(allowed)) for allowed in runner.allowed_roots):
        runner_file.allow(runner.path, str(root))
        places = ", ".join(runner.allowed_roots)
        notes.append(f"{root} lies outside {places}. The Runner may serve it too now, because you named it.")
    entry = add(runner.registry_dir, root)
    canonical = f"agent:{runner.client_id}:{entry.id}"
    return Registered(canonical=canonical, needs_restart=bool(notes), notes=tuple(notes))


def entries(directory: Path) -> list[Entry]:
    """Returns what the registry's readable files say, by name; the Runner reports the others."""
    found = []
    for file in sorted(directory.glob("[!.]*.toml")):
        stored = _stored(file)
        if isinstance(stored.get("id"), str) and isinstance(stored.get("path"), str):
            disabled = stored.get("disabled") is True
            found.append(Entry(id=stored["id"], path=stored["path"], file=file, disabled=disabled))
    return found


def add(directory: Path, root: Path) -> Entry:
    """Returns the entry of ``root``, which is in the registry after this.

    Raises:
        Refused: it is registered and disabled.

    """
    directory.mkdir(mode=0o700, exist_ok=True)
    known = entries(directory)
    for entry in known:
        if entry.path == str(root):
            if entry.disabled:
                raise refusal.Refused(f"{root} is registered and disabled. Enable it in {entry.file}")
            return entry
    taken = [entry.id for entry in known] + [file.stem for file in directory.glob("*.toml")]
    project_id = fit(root.name, taken)
    entry = Entry(id=project_id, path=str(root), file=directory / f"{project_id}.toml", disabled=False)
    lines = [f"id = {runner_file.quoted(project_id)}", f"path = {runner_file.quoted(entry.path)}"]
    if root.name != project_id:
        lines.append(f"name = {runner_file.quoted(root.name[:_LONGEST_ID])}")
    private_files.write(entry.file, "".join(f"{line}\n" for line in lines).encode())
    return entry


def remove(directory: Path, project_id: str) -> Entry:
    """Returns the entry that was removed; the project's own files are untouched.

    Raises:
        Refused: there is none of that id.

    """
    known = entries(directory)
    for entry in known:
        if entry.id == project_id:
            entry.file.unlink()
            private_files.sync_directory(directory)
            return entry
    ids = ", ".join(entry.id for entry in known) or "none"
    raise refusal.Refused(f"No project {project_id} is registered here. Registered: {ids}.")


def fit(name: str, taken: Iterable[str]) -> str:
    """Returns ``name`` made to fit a Project id (R-03) and unlike every one of ``taken``, in any case."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    base = _UNFIT.sub("-", plain).strip(".-")[:_LONGEST_ID] or "project"
    used = {other.casefold() for other in taken}
    number, candidate = 1, base
    while candidate.casefold() in used:
        number += 1
        candidate = f"{base}-{number}"
    assert bounds.PROJECT_ID.fullmatch(candidate)
    return candidate


def seen(client: server_client.Client) -> list[dict[str, Any]]:
    """Returns the Projects that the Server shows to this credential."""
    listed = client.ask("/api/tools/call", {"tool": "list_projects", "params": {}})
    projects: list[dict[str, Any]] = listed["output"]["projects"]
    return projects


def is_served(client: server_client.Client, canonical: str) -> bool:
    """Says whether the Server sees that Project through a connected Runner."""
    return any(each["project"] == canonical and each["connected"] for each in seen(client))


def _lies_within(root: Path, allowed: Path) -> bool:
    place = allowed.resolve()
    return root == place or place in root.parents


def _stored(file: Path) -> dict[str, Any]:
    try:
        content = private_files.read_bounded(file, most_bytes=_MOST_BYTES)
        return tomllib.loads(content.decode())
    except (OSError, ValueError, private_files.NotPrivate):
        return {}
