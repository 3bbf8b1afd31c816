"""``webcodex user``: creates and lists the users of this installation's Server."""

import click

from webcodex.cli import options, printed, program


@click.group("user")
def command() -> None:
    """Create and list users; needs the data directory of `webcodex up`."""


@command.command()
@click.argument("username")
@click.option("--display-name", metavar="TEXT", help="A name for people.")
@click.option("--role", type=click.Choice(["user", "admin"]), default="user", show_default=True)
@options.data
@options.as_json
def create(*, username: str, display_name: str | None, role: str, data: str | None, as_json: bool) -> None:
    """Create the user USERNAME, who has no token yet."""
    body = {"username": username, "role": role}
    if display_name is not None:
        body["display_name"] = display_name
    answer = options.as_operator(data).ask("/api/users/create", body)
    if as_json:
        click.echo(printed.as_json(answer))
        return
    create_token = program.command(f"token create --username {username}")
    click.echo(f"Created {username}. Make a token for it with: {create_token}")


@command.command("list")
@options.data
@options.as_json
def list_(*, data: str | None, as_json: bool) -> None:
    """List the users."""
    answer = options.as_operator(data).ask("/api/users/list", {})
    if as_json:
        click.echo(printed.as_json(answer))
        return
    rows = [
        (
            user["username"],
            user["role"],
            "disabled" if user["disabled"] else "active",
            user["display_name"] or "",
        )
        for user in answer["users"]
    ]
    click.echo(printed.table(("USER", "ROLE", "STATE", "NAME"), rows))
