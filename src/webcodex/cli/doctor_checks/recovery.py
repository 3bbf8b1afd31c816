"""Judges the recovery entry: what its registry binds, and what it says of itself with ``status`` (A-63)."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from webcodex.cli import adapter_setup, program
from webcodex.cli.doctor_checks import adapters, asked, checks, standing
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.doctor_checks.standing import Standing
from webcodex.cli.installation import Installation

_AREA: Final = Area.ADAPTERS
_NAME: Final = "recovery"
SCRIPT: Final = adapter_setup.RECOVERY.name
_SETUP: Final = "adapters setup --help"
_COUNTS: Final = ("bindings", "snapshots", "snapshots_evicted", "unmounted_roots")


def told(now: Standing, at: float) -> list[Check]:
    """Returns a line for the registry at the time ``at``, in Unix s."""
    registry = now.found.recovery_registry
    if not registry.exists():
        sentence = f"No conversation recovers a Session: there is no {registry}. That is a choice."
        return [checks.unknown(_AREA, _NAME, sentence, program.command(_SETUP))]
    return [_bound(now, registry) or _status(registry, at)]


def registration(found: Installation) -> str:
    """Returns the command that prints the entry's registration, or that tells how to set it up first."""
    registry = found.recovery_registry
    return _again(registry, "registration") if registry.exists() else program.command(_SETUP)


def _bound(now: Standing, registry: Path) -> Check | None:
    """Returns that the registry names another Server, if it does."""
    stored = asked.stored(registry)
    if not stored or isinstance(now.url, standing.Fault) or stored.get("server_url") == now.url:
        return None
    sentence = f"{registry} names another Server, so every recovery fails."
    return checks.attention(_AREA, _NAME, sentence, program.command(_SETUP))


def _status(registry: Path, at: float) -> Check:
    process = asked.started(SCRIPT, "--registry", registry, "status")
    try:
        exit_code, line = asked.said(process, time.monotonic() + asked.STATUS_S)
    finally:
        asked.ended(process)
    if exit_code is None or exit_code < 0:
        return checks.unknown(_AREA, _NAME, "The entry did not say its status in time.", _again(registry))
    if exit_code != 0:
        return adapters.unusable(_NAME, registry, line)
    if not all(isinstance(line.get(key), int) for key in _COUNTS):
        return checks.unknown(_AREA, _NAME, "What the entry said cannot be read.", _again(registry))
    return _counted(line, registry, at)


def _counted(line: Mapping[str, Any], registry: Path, at: float) -> Check:
    bound, kept, evicted, moved = (line[key] for key in _COUNTS)
    ran_at = line.get("last_hook_at")
    ran = f"last ran {checks.age(at - ran_at)}" if isinstance(ran_at, int) else "has never run"
    found = f"{bound} associations, {kept} snapshots, {evicted} made room for others; a hook {ran}."
    if moved:
        found = (
            f"{moved} directories of associations are gone or replaced: set up again what was made anew, and "
            f"remove the association of what is gone from {registry} by hand. {found}"
        )
        return checks.attention(_AREA, _NAME, found, program.command(_SETUP))
    if not isinstance(ran_at, int):
        return checks.unknown(_AREA, _NAME, found, _again(registry, "registration"))
    return checks.ok(_AREA, _NAME, found)


def _again(registry: Path, verb: str = "status") -> str:
    return asked.command(SCRIPT, "--registry", registry, verb)
