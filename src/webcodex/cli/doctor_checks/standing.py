"""Gathers what the data directory says of itself: the address, whether ``up`` runs, the Runner's projects.

Must never print or keep a secret beyond the moment in which it is sent to the Server.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

from webcodex.cli import installation, program, project_registry, refusal
from webcodex.cli.doctor_checks import checks
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.installation import Installation
from webcodex.runner import private_files, projects, settings, toml_table

_LOCK_BYTES: Final = 32
_PLACEHOLDER: Final = "/path/to/repository"


class Up(Enum):
    """Whether an ``up`` holds the data directory."""

    RUNNING = auto()
    STARTING = auto()
    STOPPED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Why something cannot be used: a sentence that names the key or the file, never a value."""

    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """One registry file as the Runner reads it; ``rule`` is what it breaks, or none."""

    id: str
    root: str
    file: Path
    disabled: bool
    rule: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What can be known without asking the Server."""

    found: Installation
    url: str | Fault
    up: Up
    up_pid: int | None
    runner: settings.Settings | Fault = field(repr=False)
    registered: tuple[Registered, ...] | Fault

    @property
    def start(self) -> str:
        """The command that starts this installation."""
        usable = [] if isinstance(self.registered, Fault) else self.registered
        roots = [each.root for each in usable if each.rule is None and not each.disabled]
        return program.command(f"up --project {shlex.quote(roots[0]) if roots else _PLACEHOLDER}")

    @property
    def restart(self) -> str:
        """The command that ends what runs, waits for its end and starts it again."""
        if self.up_pid is None:
            return self.start
        waiting = f"while kill -0 {self.up_pid} 2>/dev/null; do sleep 0.2; done"
        return f"kill -INT {self.up_pid}; {waiting}; {self.start}"


def gathered(found: Installation, environment: Mapping[str, str]) -> Standing:
    """Returns how the installation stands on this machine's disk now."""
    up, up_pid = _up(found)
    runner = _runner(found, environment)
    return Standing(
        found=found,
        url=_url(found),
        up=up,
        up_pid=up_pid,
        runner=runner,
        registered=runner if isinstance(runner, Fault) else _registered(runner),
    )


def told(standing: Standing) -> list[Check]:
    """Returns what the installation's own files say."""
    area = Area.INSTALLATION
    lines = []
    if isinstance(standing.url, Fault):
        file = checks.quoted(standing.found.settings_file)
        lines.append(checks.attention(area, "settings", standing.url.sentence, f"mv {file} {file}.old"))
    process = "" if standing.up_pid is None else f" (process {standing.up_pid})"
    match standing.up:
        case Up.RUNNING:
            lines.append(checks.ok(area, "up", f"`webcodex up` runs{process}."))
        case Up.STARTING:
            found = f"`webcodex up`{process} is starting or stopping."
            lines.append(checks.unknown(area, "up", found, program.command("doctor")))
        case Up.STOPPED:
            lines.append(checks.attention(area, "up", "`webcodex up` does not run.", standing.start))
        case Up.UNKNOWN:
            lock = checks.quoted(standing.found.lock_file)
            found = "Whether `webcodex up` runs is not known: its lock cannot be opened."
            lines.append(checks.unknown(area, "up", found, f"chmod 600 {lock}"))
    return lines


def _url(found: Installation) -> str | Fault:
    try:
        return installation.url(found)
    except (OSError, refusal.Refused) as refused:
        sentence = refused.message if isinstance(refused, refusal.Refused) else "It cannot be read."
        return Fault(sentence=" ".join(sentence.splitlines()))


def _up(found: Installation) -> tuple[Up, int | None]:
    try:
        if not installation.is_held(found):
            return Up.STOPPED, None
    except OSError:
        return Up.UNKNOWN, None
    up = Up.RUNNING if found.running_file.exists() else Up.STARTING
    return up, _holder(found.lock_file)


def _holder(lock: Path) -> int | None:
    try:
        content, _ = private_files.read(lock, most_bytes=_LOCK_BYTES)
        return int(content)
    except (OSError, ValueError, private_files.NotPrivate):
        return None


def _runner(found: Installation, environment: Mapping[str, str]) -> settings.Settings | Fault:
    try:
        return settings.load(found.runner_file, environment)
    except toml_table.BadConfiguration as refused:
        return Fault(sentence=str(refused))


def _registered(runner: settings.Settings) -> tuple[Registered, ...] | Fault:
    """Returns each registry file, held to the rules that the Runner holds it to (R-03)."""
    directory = runner.project_registry_dir
    rules = projects.Rules(
        registry_dir=directory, allowed_roots=runner.policy.allowed_roots, state_dir=runner.state_dir
    )
    try:
        loaded = projects.load(rules)
    except projects.RegistryUnreadable as refused:
        return Fault(sentence=f"The project registry {refused}.")
    broken = {fault.file: fault.rule for fault in loaded.faults}
    read = []
    for entry in project_registry.entries(directory):
        sound = loaded.projects.get(entry.id)
        rule = None
        if sound is None or sound.root != entry.path:
            rule = broken.pop(entry.file.name, "The file cannot be used.")
        read.append(
            Registered(id=entry.id, root=entry.path, file=entry.file, disabled=entry.disabled, rule=rule)
        )
    left = [
        Registered(id=name.removesuffix(".toml"), root="", file=directory / name, disabled=False, rule=rule)
        for name, rule in broken.items()
    ]
    return (*read, *left)
