"""``webcodex adapters``: prepares the local adapters for one chosen piece of work, and looks at them.

It installs no hook, changes no trust, and creates no Session and no conversation (A-02, A-64).
"""

import os
import sys

import click

from webcodex.cli import adapter_setup, installation, options, printed
from webcodex.cli.doctor_checks import checks


@click.group("adapters")
def command() -> None:
    """Set up the local adapters for one piece of work, and see how they are."""


@command.command()
@click.option(
    "--project",
    required=True,
    metavar="ID",
    help="The Project, agent:<client_id>:<project_id>, or its folder.",
)
@click.option("--session", required=True, metavar="ID", help="The existing Workflow Session, wc_sess_...")
@click.option("--conversation", required=True, metavar="ID", help="The exact local conversation.")
@options.data
def setup(*, project: str, session: str, conversation: str, data: str | None) -> None:
    """Write the private files that bind one conversation to one Session, after its user has confirmed both.

    It creates neither of them, and it leaves the host's own files alone: registering the hooks and trusting
    them is yours, in the host.
    """
    made = adapter_setup.made(
        installation.existing(data), project=project, session=session, conversation=conversation
    )
    click.echo(adapter_setup.page(made))


@command.command()
@options.data
@click.option("--json", "as_json", is_flag=True, help="Print the lines as `webcodex doctor --json` does.")
def check(*, data: str | None, as_json: bool) -> None:
    """Say what is registered and approved, what last ran, waits, was refused or set aside, and what is next.

    It changes and sends nothing. Exit 0 when nothing needs attention.
    """
    from webcodex.cli import doctor

    everything = doctor.examined(installation.existing(data), os.environ)
    found = [each for each in everything if each.area in {checks.Area.HOST, checks.Area.ADAPTERS}]
    click.echo(printed.as_json(checks.shape(found)) if as_json else doctor.report(found))
    sys.exit(0 if checks.all_right(found) else 1)
