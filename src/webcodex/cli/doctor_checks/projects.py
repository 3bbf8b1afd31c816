"""Judges each Project: registered, its root is the directory the Runner holds, and the Server serves it."""

import shlex
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

from webcodex.cli import program
from webcodex.cli.doctor_checks import checks, server, standing
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.doctor_checks.conversation import MOST_PROJECTS, Heard
from webcodex.cli.doctor_checks.exchange import Reply, Silence
from webcodex.cli.doctor_checks.standing import Registered, Standing
from webcodex.runner.settings import Settings

_AREA: Final = Area.PROJECTS


def told(now: Standing, heard: Heard) -> list[Check]:
    """Returns a line for each registered Project, at most MOST_PROJECTS of them."""
    add = program.command("project add /path/to/repository")
    if isinstance(now.registered, standing.Fault):
        return [checks.attention(_AREA, "registry", now.registered.sentence, add)]
    if not isinstance(now.runner, Settings):
        return []
    if not now.registered:
        return [checks.attention(_AREA, "registry", "No Project is registered.", add)]
    client_id = now.runner.client_id
    lines = [
        _project(now, each, f"agent:{client_id}:{each.id}", heard) for each in now.registered[:MOST_PROJECTS]
    ]
    left = len(now.registered) - len(lines)
    if left:
        lines.append(checks.unknown(_AREA, "registry", f"{left} more Projects were not looked at."))
    return lines


def _project(now: Standing, each: Registered, project: str, heard: Heard) -> Check:
    if each.rule is not None:
        return _broken(each, project)
    if each.disabled:
        return checks.ok(_AREA, project, "Registered and disabled, so it is not served.")
    if isinstance(heard.served, Silence):
        found = f"Registered, and its root is there. Whether it is served: {server.unheard(heard.served)}"
        return checks.unknown(_AREA, project, found, now.restart)
    row = heard.served.get(project)
    if row is None or row.get("path", each.root) != each.root:
        found = "Registered, but the Runner has not told the Server so; adding it again makes it look."
        return checks.attention(_AREA, project, found, _add(each))
    if row.get("connected") is not True:
        return checks.attention(_AREA, project, "Registered, but its Runner is not connected.", now.restart)
    return _opened(now, each, project, heard.roots)


def _broken(each: Registered, project: str) -> Check:
    file = checks.quoted(each.file)
    if each.root and not Path(each.root).is_dir():
        found = f"Registered, but {each.root} is no directory any more. Remove it, then add its new place."
        remove = program.command(f"project remove {shlex.quote(project)}")
        return checks.attention(_AREA, project, found, remove)
    found = f"{each.file} yields no Project: {each.rule}"
    return checks.attention(_AREA, project, found, f"${{EDITOR:-vi}} {file}")


def _opened(now: Standing, each: Registered, project: str, roots: Mapping[str, Reply]) -> Check:
    reply = roots.get(project, Silence.NOT_ASKED)
    if isinstance(reply, Silence):
        found = f"Registered, visible and connected. Whether its root can be read: {server.unheard(reply)}"
        return checks.unknown(_AREA, project, found, program.command("doctor"))
    if reply.status == HTTPStatus.OK:
        return checks.ok(_AREA, project, f"Registered, visible, connected; {_root(each)}.")
    kind = reply.output.get("error_kind")
    if kind == "project_root_replaced":
        found = f"{each.root} is not the directory that the Runner holds; adding it again makes it look."
        return checks.attention(_AREA, project, found, _add(each))
    found = f"Registered, visible and connected, but the Runner does not read it: {checks.word(kind)}."
    return checks.attention(_AREA, project, found, now.restart)


def _root(each: Registered) -> str:
    git = "a Git repository" if (Path(each.root) / ".git").exists() else "not the top of a Git repository"
    return f"{each.root} is the directory that the Runner holds, and {git}"


def _add(each: Registered) -> str:
    return program.command(f"project add {shlex.quote(each.root)}")
