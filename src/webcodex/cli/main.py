"""The command ``webcodex``: finds the module of one command and imports no other."""

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "up": ("webcodex.cli.up", "Start WebCodex for a project and keep it running."),
    "doctor": ("webcodex.cli.doctor", "Say what is right, what is wrong, and what to do next."),
    "project": ("webcodex.cli.projects", "List, add and remove projects."),
    "session": ("webcodex.cli.sessions", "List the Workflow Sessions and read the record of one."),
    "handoff": ("webcodex.cli.handoff", "Say where a Workflow Session stands and what to do next."),
    "tools": ("webcodex.cli.tools", "Call the tools of the running Server."),
    "adapters": ("webcodex.cli.adapters", "Set up the local adapters for one piece of work."),
    "user": ("webcodex.cli.users", "Create and list users."),
    "token": ("webcodex.cli.tokens", "Create, list and revoke tokens."),
}


class Commands(click.Group):
    """The commands by name; one is imported when it is run, none to list them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Returns the names in the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Returns the command of that name, or none."""
        found = COMMANDS.get(cmd_name)
        if found is None:
            return None
        command: click.Command = importlib.import_module(found[0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Writes the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="webcodex", message="%(package)s %(version)s")
def main() -> None:
    """Keep work on a code project continuous and honest across hosts.

    Begin with: webcodex up --project /path/to/repository
    """
