"""Judges the recovery entry: what its registry binds, and what it says of itself with ``status`` (A-63)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from webcodex.cli import adapter_setup, program
from webcodex.cli.doctor_checks import checks
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.installation import Installation

STATUS_S: Final = 2.0
_AREA: Final = Area.ADAPTERS
_NAME: Final = "recovery"
_SETUP: Final = "adapters setup --help"
_COUNTS: Final = ("bindings", "snapshots", "snapshots_evicted", "unmounted_roots")


def told(found: Installation, at: float) -> list[Check]:
    """Returns a line for the registry at the time ``at``, in Unix s."""
    registry = found.adapters_dir / "recovery.json"
    if not registry.exists():
        sentence = f"No conversation recovers a Session: there is no {registry}. That is a choice."
        return [checks.unknown(_AREA, _NAME, sentence, program.command(_SETUP))]
    line = _status(registry)
    if line is None:
        return [checks.unknown(_AREA, _NAME, "The entry did not say its status in time.", _again(registry))]
    if "reason" in line:
        sentence = f"The entry cannot use {registry}: {checks.word(line['reason'])}."
        return [checks.attention(_AREA, _NAME, sentence, program.command(_SETUP))]
    if not all(isinstance(line.get(key), int) for key in _COUNTS):
        return [checks.unknown(_AREA, _NAME, "What the entry said cannot be read.", _again(registry))]
    return [_counted(line, registry, at)]


def _counted(line: dict[str, Any], registry: Path, at: float) -> Check:
    bound, kept, evicted, moved = (line[key] for key in _COUNTS)
    ran_at = line.get("last_hook_at")
    ran = f"last ran {checks.age(at - ran_at)}" if isinstance(ran_at, int) else "has never run"
    found = f"{bound} associations, {kept} snapshots, {evicted} made room for others; a hook {ran}."
    if moved:
        found = f"{moved} directories of associations are gone or replaced. {found}"
        return checks.attention(_AREA, _NAME, found, program.command(_SETUP))
    if not isinstance(ran_at, int):
        return checks.unknown(_AREA, _NAME, found, _again(registry, "registration"))
    return checks.ok(_AREA, _NAME, found)


def _again(registry: Path, verb: str = "status") -> str:
    words = (sys.executable, "-I", "-S", str(adapter_setup.RECOVERY))
    return " ".join(map(checks.quoted, map(Path, words))) + f" --registry {checks.quoted(registry)} {verb}"


def _status(registry: Path) -> dict[str, Any] | None:
    """Returns what the entry says, or none where it says nothing in time."""
    words: list[str | Path] = [
        sys.executable,
        "-I",
        "-S",
        "-B",
        adapter_setup.RECOVERY,
        "--registry",
        registry,
        "status",
    ]
    try:
        ended = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, cwd="/", timeout=STATUS_S, check=False
        )
        said = json.loads(ended.stdout)
    except (subprocess.TimeoutExpired, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
