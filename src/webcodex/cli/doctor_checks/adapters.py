"""Judges the local adapters: what each configuration binds, and what its hook says with ``--status``."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webcodex.cli import adapter_setup, program
from webcodex.cli.doctor_checks import checks, standing
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.doctor_checks.standing import Standing
from webcodex.cli.installation import Installation
from webcodex.runner import private_files
from webcodex.runner.settings import Settings

STATUS_S: Final = 2.0
MOST_CONFIGURATIONS: Final = 8
_CONFIG_BYTES: Final = 131_072
_SAID_BYTES: Final = 65_536
_COUNT_BYTES: Final = 32
_REFUSED: Final = ".refused"
_AREA: Final = Area.ADAPTERS
_SETUP: Final = "adapters setup --help"
_NOT_PRIVATE: Final = "private_regular_file_required"


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
    words = (sys.executable, "-I", "-S", str(adapter_setup.SCRIPTS / "external_observation_hook.py"))
    return " ".join(map(checks.quoted, map(Path, words))) + f" --config {checks.quoted(config)} {verb}"


def registration(found: Installation) -> str:
    """Returns the command that prints the hook's registration, or that tells how to set it up first."""
    configs = _configurations(found)
    return hook_command(configs[0], "--print-registration") if configs else program.command(_SETUP)


def _configurations(found: Installation) -> list[Path]:
    return sorted(found.adapters_dir.glob("observation*.json"))


def configured(found: Installation) -> Configured:
    """Returns what ``--status`` says of the first configurations, all asked at once (A-34)."""
    configs = _configurations(found)
    until = time.monotonic() + STATUS_S
    running = [(config, _started(config)) for config in configs[:MOST_CONFIGURATIONS]]
    try:
        said = [_said(config, process, until) for config, process in running]
    finally:
        for _, process in running:
            process.kill()
            process.communicate()
    return Configured(count=len(configs), said=tuple(said))


def _started(config: Path) -> subprocess.Popen[bytes]:
    script = adapter_setup.SCRIPTS / "external_observation_hook.py"
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", script, "--config", config, "--status"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
    )


def _said(config: Path, process: subprocess.Popen[bytes], until: float) -> Said:
    too_late = threading.Timer(max(0.0, until - time.monotonic()), process.kill)
    too_late.start()
    try:
        assert process.stdout is not None
        content = process.stdout.read(_SAID_BYTES)
        exit_code = process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        exit_code = None
        content = b""
    finally:
        too_late.cancel()
    return Said(config=config, exit_code=exit_code, line=_object(content))


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        stored = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


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
    stored = _stored(config)
    if stored and not isinstance(now.url, standing.Fault) and stored.get("server_url") != now.url:
        found = f"{config} names another Server, so its reports never arrive here."
        return checks.attention(_AREA, config.stem, found, program.command(_SETUP))
    if stored and isinstance(now.runner, Settings) and not isinstance(now.registered, standing.Fault):
        mine = {(f"agent:{now.runner.client_id}:{each.id}", each.root) for each in now.registered}
        if (stored.get("project"), stored.get("project_root")) not in mine:
            found = f"{config} names a Project, or a root of one, that is not registered here."
            return checks.attention(_AREA, config.stem, found, program.command(_SETUP))
    return None


def _stored(config: Path) -> Mapping[str, Any]:
    """Returns what a configuration holds, or nothing where the hook itself says why it cannot be used."""
    try:
        return _object(private_files.read(config, most_bytes=_CONFIG_BYTES)[0])
    except (OSError, private_files.NotPrivate):
        return {}


def _status(said: Said, at: float) -> Check:
    name, line, again = said.config.stem, said.line, hook_command(said.config, "--status")
    if said.exit_code is None or said.exit_code < 0:
        return checks.unknown(_AREA, name, "The hook did not say its status in time.", again)
    if said.exit_code != 0:
        reason = checks.word(line.get("reason"))
        found = f"The hook cannot use {said.config}: {reason}."
        chmod = f"chmod 600 {checks.quoted(said.config)}"
        step = chmod if reason == _NOT_PRIVATE else program.command(_SETUP)
        return checks.attention(_AREA, name, found, step)
    counts = [line.get(key) for key in ("pending", "skipped", "rejected")]
    if not all(isinstance(count, int) for count in counts):
        return checks.unknown(_AREA, name, "What the hook said of its status cannot be read.", again)
    return _counted(said, at, *counts)


def _refused(config: Path) -> str:
    """Returns how many reports the Server refused in the last flush of an outbox."""
    place = Path(str(_stored(config).get("state_dir"))) / _REFUSED
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
        place = checks.quoted(Path(str(_stored(said.config).get("state_dir"))) / "rejected")
        return checks.attention(_AREA, name, found, f"ls -l {place}")
    if not isinstance(ran_at, int):
        found = f"{said.config} is in order, and no hook has ever run under it; register one if it should."
        return checks.unknown(_AREA, name, found, hook_command(said.config, "--print-registration"))
    return checks.ok(_AREA, name, found)
