"""``webcodex adapters``: writes the private configuration of the local adapters for one chosen piece of work.

It installs no hook, changes no trust, and creates no Session and no conversation (A-02, A-64).
"""

import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

import click

import webcodex
from webcodex.cli import installation, options, program, project_registry, refusal, runner_file, server_client
from webcodex.cli.installation import Installation
from webcodex.runner import private_files

_SESSION: Final = re.compile(r"wc_sess_[A-Za-z0-9_-]{1,128}")
_MOST_BYTES: Final = 131_072
_MOST_CONFIGURATIONS: Final = 1000
SCRIPTS: Final = Path(webcodex.__file__).parents[2] / "integrations" / "codex"


@click.group("adapters")
def command() -> None:
    """Set up the local adapters for one piece of work."""


@command.command()
@click.option("--project", required=True, metavar="ID", help="The Project, agent:<client_id>:<project_id>.")
@click.option("--session", required=True, metavar="ID", help="The existing Workflow Session, wc_sess_...")
@click.option("--conversation", required=True, metavar="ID", help="The exact local Codex conversation.")
@options.data
def setup(*, project: str, session: str, conversation: str, data: str | None) -> None:
    """Write the private configuration that binds one conversation to one Session.

    It creates neither of them, and it leaves the host's own files alone: registering the hook and trusting it
    is yours, in the host.
    """
    found = installation.existing(data)
    if _SESSION.fullmatch(session) is None:
        raise refusal.Refused("--session must be the whole id of a Workflow Session, wc_sess_...")
    if not conversation or not conversation.isprintable():
        raise refusal.Refused("--conversation must be the id that the host gives this conversation.")
    root = _root(found, project)
    _check_session(found, project, session)
    wanted = {
        "server_url": installation.url(found),
        "authorization_file": str(found.authorization_file),
        "project": project,
        "project_root": root,
        "workflow_session_id": session,
        "local_session_id": conversation,
    }
    config = _written(found, wanted)
    click.echo(f"The configuration is in {config}")
    _show_next(config, root)


def _root(found: Installation, project: str) -> str:
    runner = runner_file.read(found.runner_file)
    for entry in project_registry.entries(runner.registry_dir):
        if project == f"agent:{runner.client_id}:{entry.id}":
            return entry.path
    raise refusal.Refused(
        f"{project} is no Project of this machine. List them with: {program.command('project list')}"
    )


def _check_session(found: Installation, project: str, session: str) -> None:
    token = installation.read_secret(found.authorization_file).removeprefix("Bearer ")
    client = server_client.Client(url=installation.url(found), token=token)
    params = {"project": project, "session_id": session}
    answer = client.post("/api/tools/call", {"tool": "list_external_observations", "params": params})
    if answer.body.get("success") is not True:
        raise refusal.Refused(f"The Server does not offer that Session for reports: {answer.error}.")


def _written(found: Installation, wanted: dict[str, str]) -> Path:
    """Returns the configuration file of ``wanted``, whose outbox no other configuration uses (A-31)."""
    for number in range(1, _MOST_CONFIGURATIONS):
        suffix = "" if number == 1 else f"-{number}"
        config = found.adapters_dir / f"observation{suffix}.json"
        outbox = found.outbox_dir.with_name(f"{found.outbox_dir.name}{suffix}")
        content = {**wanted, "state_dir": str(outbox)}
        if not config.exists():
            outbox.mkdir(mode=0o700, exist_ok=True)
            private_files.write(config, json.dumps(content, indent=1).encode())
            return config
        if _stored(config) == content:
            return config
    raise refusal.Refused(f"{found.adapters_dir} is full of configurations; remove those no longer needed.")


def _stored(config: Path) -> Any:
    try:
        return json.loads(private_files.read(config, most_bytes=_MOST_BYTES)[0])
    except (OSError, ValueError, private_files.NotPrivate):
        return None


def _show_next(config: Path, root: str) -> None:
    hook = shlex.quote(str(SCRIPTS / "external_observation_hook.py"))
    reader = shlex.quote(str(SCRIPTS / "read_handoff.py"))
    named = shlex.quote(str(config))
    click.echo(
        "The hook to register for PostToolUse, and to trust, in the host itself is the line printed by:"
    )
    click.echo(f"  python3 {hook} --config {named} --print-registration")
    click.echo("Read the handoff from inside the project with:")
    click.echo(f"  cd {shlex.quote(root)} && python3 {reader} --config {named}")
