"""``webcodex session``: lists the Workflow Sessions of the caller, and prints the record of one (30.9)."""

from typing import Any, Final

import click

from webcodex.cli import options, printed, project_registry, server_client, session_page, tool_results

_PAGE: Final = 20  # S-62
_MOST_EVENTS: Final = 200  # S-63


@click.group("session")
def command() -> None:
    """List the Workflow Sessions and read the record of one."""


@command.command("list")
@click.option("--project", metavar="ID", help="Only this Project, agent:<client_id>:<project_id>.")
@options.data
@options.token_file
@options.url
@options.as_json
def list_(
    *, project: str | None, data: str | None, token_file: str | None, url: str | None, as_json: bool
) -> None:
    """List the Workflow Sessions, those touched last first."""
    client = options.as_user(data, token_file, url)
    names = [project] if project else [each["project"] for each in project_registry.seen(client)]
    found = [_of_project(client, name) for name in names]
    click.echo(printed.as_json(found) if as_json else session_page.listed(found))


@command.command()
@click.argument("session")
@click.option("--limit", type=click.IntRange(1, _MOST_EVENTS), default=20, help="How many events to print.")
@options.data
@options.token_file
@options.url
@options.as_json
def show(
    *, session: str, limit: int, data: str | None, token_file: str | None, url: str | None, as_json: bool
) -> None:
    """Print what is recorded of SESSION: an id wc_sess_... or a session_ref such as ~s1.

    Reading is work too: the Session records this call, as it does for every reader.
    """
    client = options.as_user(data, token_file, url)
    summary = tool_results.output_of(client, "read_session_summary", {"session_id": session, "limit": limit})
    click.echo(printed.as_json(summary) if as_json else session_page.shown(summary))


def _of_project(client: server_client.Client, project: str) -> dict[str, Any]:
    """Returns every Session of a Project in one answer of ``list_sessions``."""
    params: dict[str, Any] = {"project": project, "limit": _PAGE}
    whole = tool_results.output_of(client, "list_sessions", params)
    offset = whole["next_offset"]
    while offset is not None:
        page = tool_results.output_of(client, "list_sessions", {**params, "offset": offset})
        whole["sessions"] += page["sessions"]
        offset = page["next_offset"]
    return {**whole, "next_offset": None}
