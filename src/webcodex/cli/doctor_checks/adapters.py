"""Judges the local adapters: what each configuration binds, and what its hook says with ``--status``."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webcodex.cli import adapter_setup, program
from webcodex.cli.doctor_checks import asked, checks, standing
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.doctor_checks.standing import Standing
from webcodex.cli.installation import Installation
from webcodex.runner import private_files
from webcodex.runner.settings import Settings

MOST_CONFIGURATIONS: Final = 8
_COUNT_BYTES: Final = 32
_REFUSED: Final = ".refused"
_AREA: Final = Area.ADAPTERS
SCRIPT: Final = adapter_setup.OBSERVATION.name
_SETUP: Final = "adapters setup --help"


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """How one ``--status`` ended: its exit code, none if it did not end in time, and what it said."""

    config: Path
    exit_code: int | None
    line: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Configured:
    """The adapters' configurations: those that were asked for their status, and how many there are."""

    count: int
    said: tuple[Said, ...]


def hook_command(config: Path, verb: str) -> str:
    """Returns the command that runs the observation hook by hand with one verb."""
    return asked.command(SCRIPT, "--config", config, verb)


def registration(found: Installation) -> str:
    """Returns the command that prints the hook's registration, or that tells how to set it up first."""
    configs = _configurations(found)
    return hook_command(configs[0], "--print-registration") if configs else program.command(_SETUP)


def _configurations(found: Installation) -> list[Path]:
    return sorted(found.adapters_dir.glob("observation*.json"))


def configured(found: Installation) -> Configured:
    """Returns what ``--status`` says of the first configurations, all asked at once (A-34)."""
    configs = _configurations(found)
    until = time.monotonic() + asked.STATUS_S
    running = [
        (config, asked.started(SCRIPT, "--config", config, "--status"))
        for config in configs[:MOST_CONFIGURATIONS]
    ]
    try:
        heard = [(config, *asked.said(process, until)) for config, process in running]
    finally:
        for _, process in running:
            asked.ended(process)
    said = tuple(Said(config=config, exit_code=code, line=line) for config, code, line in heard)
    return Configured(count=len(configs), said=said)


def told(now: Standing, looked_at: Configured, at: float) -> list[Check]:
    """Returns a line for each configuration at the time ``at``, in Unix s."""
    if not looked_at.count:
        found = f"None is configured in {now.found.adapters_dir}, so nothing is reported. That is a choice."
        return [checks.unknown(_AREA, "observation", found, program.command(_SETUP))]
    lines = [_bound(now, said.config) or _status(said, at) for said in looked_at.said]
    left = looked_at.count - len(lines)
    if left:
        found = f"{left} more configurations were not looked at."
        folder = checks.quoted(now.found.adapters_dir)
        lines.append(checks.unknown(_AREA, "observation", found, f"ls {folder}"))
    return lines


def _bound(now: Standing, config: Path) -> Check | None:
    """Returns what is wrong with the target that a configuration names, if anything is."""
    stored = asked.stored(config)
    if stored and not isinstance(now.url, standing.Fault) and stored.get("server_url") != now.url:
        found = f"{config} names another Server, so its reports never arrive here."
        return checks.attention(_AREA, config.stem, found, program.command(_SETUP))
    if stored and isinstance(now.runner, Settings) and not isinstance(now.registered, standing.Fault):
        mine = {(f"agent:{now.runner.client_id}:{each.id}", each.root) for each in now.registered}
        if (stored.get("project"), stored.get("project_root")) not in mine:
            found = f"{config} names a Project, or a root of one, that is not registered here."
            return checks.attention(_AREA, config.stem, found, program.command(_SETUP))
    return None


def _status(said: Said, at: float) -> Check:
    name, line, again = said.config.stem, said.line, hook_command(said.config, "--status")
    if said.exit_code is None or said.exit_code < 0:
        return checks.unknown(_AREA, name, "The hook did not say its status in time.", again)
    if said.exit_code != 0:
        return unusable(name, said.config, line)
    counts = [line.get(key) for key in ("pending", "skipped", "rejected")]
    if not all(isinstance(count, int) for count in counts):
        return checks.unknown(_AREA, name, "What the hook said of its status cannot be read.", again)
    return _counted(said, at, *counts)


def unusable(name: str, file: Path, line: Mapping[str, Any]) -> Check:
    """Returns why a script cannot use the file that binds it, and how to mend that."""
    reason = checks.word(line.get("reason"))
    found = f"The hook cannot use {file}: {reason}."
    is_open = reason == "private_regular_file_required"
    step = f"chmod 600 {checks.quoted(file)}" if is_open else program.command(_SETUP)
    return checks.attention(_AREA, name, found, step)


def _refused(config: Path) -> str:
    """Returns how many reports the Server refused in the last flush of an outbox."""
    place = Path(str(asked.stored(config).get("state_dir"))) / _REFUSED
    try:
        count = private_files.read(place, most_bytes=_COUNT_BYTES)[0].strip()
    except FileNotFoundError:
        return "no flush had one refused"
    except (OSError, private_files.NotPrivate):
        return "how many the last flush had refused cannot be read"
    return f"{count.decode()} refused in the last flush" if count.isdigit() else "no count of the last flush"


def _counted(said: Said, at: float, pending: Any, skipped: Any, rejected: Any) -> Check:
    name, ran_at = said.config.stem, said.line.get("last_hook_at")
    ran = f"last ran {checks.age(at - ran_at)}" if isinstance(ran_at, int) else "has never run"
    found = (
        f"{pending} reports wait, {skipped} are unreadable, {rejected} are set aside; "
        f"{_refused(said.config)}; a hook {ran}."
    )
    if pending or skipped:
        return checks.attention(_AREA, name, found, hook_command(said.config, "--flush"))
    if rejected:
        place = checks.quoted(Path(str(asked.stored(said.config).get("state_dir"))) / "rejected")
        return checks.attention(_AREA, name, found, f"ls -l {place}")
    if not isinstance(ran_at, int):
        found = f"{said.config} is in order, and no hook has ever run under it; register one if it should."
        return checks.unknown(_AREA, name, found, hook_command(said.config, "--print-registration"))
    return checks.ok(_AREA, name, found)
