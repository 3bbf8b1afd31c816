"""``webcodex project``: lists what the Server sees, and edits the registry of this machine's Runner."""

import os
import shlex
import signal
import time
from typing import Final

import click

from webcodex.cli import (
    installation,
    options,
    printed,
    program,
    project_path,
    project_registry,
    refusal,
    runner_file,
)
from webcodex.cli.installation import Installation

SEEN_WITHIN_S: Final = 15.0
_POLL_S: Final = 0.05


@click.group("project")
def command() -> None:
    """List, add and remove projects."""


@command.command("list")
@options.data
@options.token_file
@options.as_json
def list_(*, data: str | None, token_file: str | None, as_json: bool) -> None:
    """List the projects that the Server sees."""
    found = project_registry.seen(options.as_user(data, token_file))
    if as_json:
        click.echo(printed.as_json(found))
        return
    rows = [(each["project"], "connected" if each["connected"] else "away", each["path"]) for each in found]
    click.echo(printed.table(("PROJECT", "RUNNER", "ROOT"), rows) if rows else "No project is registered.")


@command.command()
@click.argument("directory")
@options.data
def add(*, directory: str, data: str | None) -> None:
    """Serve the project in DIRECTORY too."""
    found = installation.existing(data)
    chosen = project_path.chosen(directory, found.directory)
    project = project_registry.register(found, chosen.root)
    for note in (*chosen.notes, *project.notes):
        click.echo(f"Note: {note}")
    running = installation.running(found)
    if running is None:
        start = program.command(f"up --project {shlex.quote(str(chosen.root))}")
        click.echo(f"{project.canonical} is registered. Serve it with: {start}")
    elif project.needs_restart:
        click.echo(
            f"{project.canonical} is registered. The Runner serves it after a restart of `webcodex up`."
        )
    else:
        _reread(running)
        _wait(found, data, project.canonical, is_served=True)
        click.echo(f"{project.canonical} is served.")


@command.command()
@click.argument("project")
@options.data
def remove(*, project: str, data: str | None) -> None:
    """Serve PROJECT no longer; its files stay as they are."""
    found = installation.existing(data)
    runner = runner_file.read(found.runner_file)
    prefix = f"agent:{runner.client_id}:"
    entry = project_registry.remove(runner.registry_dir, project.removeprefix(prefix))
    running = installation.running(found)
    if running is not None:
        _reread(running)
        _wait(found, data, f"{prefix}{entry.id}", is_served=False)
    click.echo(f"{prefix}{entry.id} is served no longer. Its files in {entry.path} are untouched.")


def _reread(running: installation.Running) -> None:
    """Has the Runner read its registry again (R-01)."""
    os.kill(running.runner_pid, signal.SIGHUP)


def _wait(found: Installation, data: str | None, canonical: str, *, is_served: bool) -> None:
    client = options.as_user(data)
    until = time.monotonic() + SEEN_WITHIN_S
    while project_registry.is_served(client, canonical) is not is_served:
        if time.monotonic() > until:
            raise refusal.Failed(
                f"The Runner has not taken up the change to {canonical} within {SEEN_WITHIN_S:.0f} s. "
                f"Its log says why: {found.logs_dir / 'runner.log'}"
            )
        time.sleep(_POLL_S)
