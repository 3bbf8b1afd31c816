"""``webcodex handoff``: prints where a Workflow Session stands, as the next worker will read it (40.9)."""

import click

from webcodex.cli import handoff_page, options, printed, tool_results


@click.command("handoff")
@click.argument("session")
@click.option("--workspace/--no-workspace", default=True, help="Ask the Runner for the Git facts, or not.")
@options.data
@options.token_file
@options.url
@options.as_json
def command(
    *,
    session: str,
    workspace: bool,
    data: str | None,
    token_file: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Say where SESSION stands and what to do next: an id wc_sess_... or a session_ref such as ~s1.

    Reading is work too: the Session records this call, as it does for every reader.
    """
    client = options.as_user(data, token_file, url)
    params = {"session_id": session, "include_workspace": workspace}
    output = tool_results.output_of(client, "read_session_handoff", params)
    click.echo(printed.as_json(output) if as_json else handoff_page.text(output))
