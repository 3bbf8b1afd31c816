"""``webcodex tools``: calls the tools of the running Server, one command for each (10.3)."""

import json
from http import HTTPStatus
from typing import Any, Final

import click

from webcodex.cli import options, printed, server_client, tool_options, tool_results, tool_specs


class ToolCommands(click.Group):
    """The tools by name; a name with dashes means the one with underscores."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the commands of this group, then the tools."""
        return [*super().list_commands(ctx), *tool_specs.known()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command that calls the tool of that name, or none."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        spec = tool_specs.known().get(cmd_name.replace("-", "_"))
        return None if spec is None else _command(spec)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands of this group, then the tools by what they are about."""
        own = [
            (name, self.commands[name].get_short_help_str(limit=80)) for name in super().list_commands(ctx)
        ]
        if own:
            with formatter.section("Commands"):
                formatter.write_dl(own)
        specs = tool_specs.known().values()
        for category in sorted({spec.category for spec in specs}):
            with formatter.section(f"Tools: {category}"):
                formatter.write_dl([(spec.name, spec.summary) for spec in specs if spec.category == category])


class AnyTool(ToolCommands):
    """The tools by name, and a plain call for a name that only the Server may know."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command that calls the tool of that name, known here or not."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        summary = "A tool that this version does not know; give its arguments with --params."
        schema: dict[str, Any] = {}
        return _command(
            tool_specs.Spec(name=cmd_name, summary=summary, category="", is_hidden=True, schema=schema)
        )


@click.group("tools", cls=ToolCommands)
def command() -> None:
    """Call the tools of the running Server, each by its own name.

    For example: webcodex tools list_projects
    """


@command.command("list")
@options.data
@options.token_file
@options.url
@options.as_json
def list_(*, data: str | None, token_file: str | None, url: str | None, as_json: bool) -> None:
    """List the tools that the running Server shows to models."""
    client = options.as_user(data, token_file, url)
    answer = client.ask("/api/tools/list", {"summary_only": not as_json})
    if as_json:
        click.echo(printed.as_json(answer))
        return
    rows = [(tool["name"], tool["description"]) for tool in answer["tools"]]
    click.echo(printed.table(("TOOL", "WHAT IT DOES"), rows))


@command.group("call", cls=AnyTool)
def call() -> None:
    """Call a tool by its name, also one that only the Server knows."""


def _command(spec: tool_specs.Spec) -> click.Command:
    def run(**given: Any) -> None:
        params = {**_object(given["params"]), **tool_options.params_of(spec.schema, given)}
        absent = tool_options.missing(spec.schema, params)
        if absent:
            raise click.UsageError(f"Missing: {' '.join(absent)}")
        body = {"tool": spec.name, "params": params}
        if given["record"] is not None:
            body["recording_session_id"] = given["record"]
        client = options.as_user(given["data"], given["token_file"], given["url"])
        answer = client.post("/api/tools/call", body, deadline_s=server_client.TOOL_DEADLINE_S)
        _show(answer, as_json=given["as_json"])

    made = click.Command(
        spec.name, params=tool_options.of_schema(spec.schema), callback=run, help=spec.summary
    )
    for option in (options.as_json, options.url, options.token_file, options.data, _record, _params):
        option(made)
    return made


_params: Final = click.option("--params", metavar="JSON", help="The arguments as one JSON object.")
_record: Final = click.option(
    "--record", metavar="SESSION", help="Also record the call in this Workflow Session."
)


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise click.UsageError("--params must be one JSON object, in quotes for the shell.")
    return found


def _show(answer: server_client.Answer, *, as_json: bool) -> None:
    is_result = isinstance(answer.body.get("success"), bool)
    if as_json and is_result:
        click.echo(printed.as_json(answer.body))
    elif answer.status == HTTPStatus.OK:
        click.echo(printed.outline(answer.body.get("output")))
    tool_results.check(answer)
