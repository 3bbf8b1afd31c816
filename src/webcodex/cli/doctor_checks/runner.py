"""Judges the Runner: its configuration can be used, names this Server, and the Server hears from it."""

from typing import Any, Final
from urllib.parse import urlsplit

from webcodex.cli.doctor_checks import checks, server, standing
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.doctor_checks.conversation import Heard
from webcodex.cli.doctor_checks.exchange import Answer
from webcodex.cli.doctor_checks.standing import Standing
from webcodex.runner.settings import Settings

_AREA: Final = Area.RUNNER


def told(now: Standing, heard: Heard, at: float) -> list[Check]:
    """Returns what is known of the Runner at the time ``at``, in Unix s."""
    configuration = _configuration(now)
    if isinstance(now.runner, standing.Fault):
        return [configuration]
    return [configuration, _connection(now, now.runner, heard, at)]


def _configuration(now: Standing) -> Check:
    name, file = "configuration", now.found.runner_file
    if isinstance(now.runner, standing.Fault):
        found = f"{file} cannot be used: {now.runner.sentence}"
        tool = "chmod 600" if "(mode 0600)" in found else "${EDITOR:-vi}"
        return checks.attention(_AREA, name, found, f"{tool} {checks.quoted(file)}")
    own = None if isinstance(now.url, standing.Fault) else urlsplit(now.url).netloc
    if own is not None and urlsplit(now.runner.link_url).netloc != own:
        found = f"{file} names another Server; a start makes it name this one."
        return checks.attention(_AREA, name, found, now.restart)
    return checks.ok(_AREA, name, f"{file} can be used and names this Server.")


def _connection(now: Standing, runner: Settings, heard: Heard, at: float) -> Check:
    name, reply = "connection", heard.runners
    rows = reply.output.get("runners") if isinstance(reply, Answer) else None
    if not isinstance(rows, list):
        return checks.unknown(_AREA, name, server.unheard(reply), now.restart)
    own = [row for row in rows if isinstance(row, dict) and row.get("client_id") == runner.client_id]
    row = own[0] if own else None
    log = now.found.logs_dir / "runner.log"
    if row is None:
        found = f"The Server has never heard of the Runner {runner.client_id}. Its log: {log}"
        return checks.attention(_AREA, name, found, now.restart)
    if row.get("connected") is not True:
        found = f"The Runner {runner.client_id} is not connected; last seen {_seen(row, at)}. Its log: {log}"
        return checks.attention(_AREA, name, found, now.restart)
    return checks.ok(_AREA, name, f"The Runner {runner.client_id} is connected; last seen {_seen(row, at)}.")


def _seen(row: dict[str, Any], at: float) -> str:
    seen_at = row.get("last_seen_at")
    return checks.age(at - seen_at) if isinstance(seen_at, int) else "at an unknown time"
