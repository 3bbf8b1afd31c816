"""``webcodex doctor``: looks at everything an installation needs and says the one next step for each fault.

It changes nothing: it writes no file, opens no database, holds no lock, and speaks to no other machine. The
Server notes the use of a token as it does for every request.
"""

import itertools
import os
import sys
import time
from collections.abc import Mapping
from typing import Final

import click

from webcodex.cli import installation, options, printed, program
from webcodex.cli.doctor_checks import (
    adapters,
    checks,
    codex_files,
    conversation,
    credentials,
    host,
    private_tree,
    projects,
    recovery,
    runner,
    server,
    standing,
)
from webcodex.cli.doctor_checks.checks import Area, Check, Status
from webcodex.cli.installation import Installation

_COLOURS: Final = {Status.OK: "green", Status.ATTENTION: "red", Status.UNKNOWN: "yellow"}
_WIDTH: Final = max(len(status) for status in Status)


@click.command("doctor")
@options.data
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help='Print {"ok", "checks": [{"area", "name", "status", "found", "next_step"}]}; next_step may be null.',
)
def command(*, data: str | None, as_json: bool) -> None:
    """Say what is right, what is wrong and what to do next; change nothing.

    Each line is ok, attention (wrong) or unknown; a next step is a command for a shell. Exit 0 when the
    installation, the Server, the Runner, the Projects and the credentials are all known to be right and
    nothing else needs attention; else 1.
    """
    found = examined(installation.locate(data), os.environ)
    click.echo(printed.as_json(checks.shape(found)) if as_json else report(found))
    sys.exit(0 if checks.all_right(found) else 1)


def examined(found: Installation, environment: Mapping[str, str]) -> list[Check]:
    """Returns every check of the installation in the order of the report; nothing has changed."""
    absent = _absent(found)
    if absent is not None:
        return [absent]
    now = standing.gathered(found, environment)
    tokens = conversation.held(now)
    heard = conversation.heard(now, tokens)
    codex, at = codex_files.read(environment), time.time()
    registrations = {
        adapters.SCRIPT: adapters.registration(found),
        recovery.SCRIPT: recovery.registration(found),
    }
    return [
        private_tree.told(found.directory, private_tree.walked(found.directory)),
        *standing.told(now),
        *server.told(now, heard),
        *runner.told(now, heard, at),
        *projects.told(now, heard),
        *credentials.told(now, tokens, heard),
        *host.told(now, codex, tokens["pat"], environment, registrations),
        *adapters.told(now, adapters.configured(found), at),
        *recovery.told(now, at),
    ]


def _absent(found: Installation) -> Check | None:
    area, name = Area.INSTALLATION, "data directory"
    try:
        found.settings_file.lstat()
    except FileNotFoundError:
        sentence = f"There is no installation in {found.directory} yet."
        return checks.attention(area, name, sentence, program.command(installation.START))
    except OSError:
        sentence = f"{found.directory} cannot be read by this user."
        return checks.attention(area, name, sentence, f"ls -ld {checks.quoted(found.directory)}")
    return None


def report(found: list[Check]) -> str:
    """Returns the report for people, in which a step that several lines need stands only once."""
    lines = []
    steps: set[str | None] = {None}
    for area, members in itertools.groupby(found, key=lambda check: check.area):
        lines.append(click.style(area.value, bold=True))
        for check in members:
            status = click.style(check.status.value.ljust(_WIDTH), fg=_COLOURS[check.status])
            lines.append(f"  {status}  {printed.one_line(f'{check.name}: {check.found}')}")
            if check.next_step not in steps:
                steps.add(check.next_step)
                lines.append(f"  {' ' * _WIDTH}  next: {printed.one_line(str(check.next_step))}")
    lines += ["", _verdict(found)]
    return "\n".join(lines)


def _verdict(found: list[Check]) -> str:
    wrong = sum(check.status is Status.ATTENTION for check in found)
    unknown = sum(check.status is Status.UNKNOWN for check in found)
    if checks.all_right(found):
        return f"Everything that is needed is right; {unknown} unknown."
    return f"Not everything is right: {wrong} need attention, {unknown} unknown."
