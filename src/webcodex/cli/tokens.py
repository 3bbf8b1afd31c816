"""``webcodex token``: creates, lists and revokes tokens at this installation's Server."""

import time
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import click

from webcodex.cli import credentials, installation, options, printed, program, refusal
from webcodex.core.access import CODING_SCOPES, Scope

_DAY_S: Final = 86_400
PURPOSES: Final = {
    "coding": CODING_SCOPES,
    "reading": (Scope.PROJECT_READ,),
    "delegation": (*CODING_SCOPES, Scope.COMMUNICATION_MANAGE),
    "adapters": credentials.ADAPTER_SCOPES,
    "hook": (Scope.SESSION_COLLABORATE,),
    "handoff": (Scope.RUNTIME_READ, Scope.COMMUNICATION_READ),
}  # C-14
_username: Final = click.option(
    "--username", default=installation.USERNAME, show_default=True, help="Whose token."
)


@click.group("token")
def command() -> None:
    """Create, list and revoke tokens; needs the data directory of `webcodex up`."""


@command.command()
@_username
@click.option("--name", default="default", show_default=True, help="What the list will call it.")
@click.option("--for", "purpose", type=click.Choice(list(PURPOSES)), help="Carry the scopes of this purpose.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Carry this scope; may be repeated.")
@click.option("--runner", metavar="CLIENT_ID", help="Make a Runner token for this client_id instead.")
@click.option("--days", type=click.IntRange(min=1, max=3650), help="Let it expire after so many days.")
@click.option("--out", metavar="FILE", help="Write it into a new private file instead of showing it.")
@options.data
def create(
    *,
    username: str,
    name: str,
    purpose: str | None,
    scopes: tuple[str, ...],
    runner: str | None,
    days: int | None,
    out: str | None,
    data: str | None,
) -> None:
    """Create a token and show it once.

    Without --for and --scope it is one for ordinary coding.
    """
    body: dict[str, Any] = {"username": username, "name": name}
    if days is not None:
        body["expires_at"] = int(time.time()) + days * _DAY_S
    if runner is None:
        body["scopes"] = _scopes(purpose, scopes)
    elif purpose or scopes:
        raise refusal.Refused("A Runner token has fixed scopes: leave out --for and --scope.")
    else:
        body["client_id"] = runner
    if out is not None and Path(out).exists():
        raise refusal.Refused(f"{out} exists already; name a new file.")
    route = "/api/tokens/create" if runner is None else "/api/agent-tokens/create"
    answer = options.as_operator(data).ask(route, body)
    if out is None:
        click.echo("This token is shown once; keep it in a private file.", err=True)
        click.echo(answer["token"])
        return
    installation.write_secret(Path(out).absolute(), answer["token"])
    click.echo(f"Token {answer['token_id']} is in {out}")


def _scopes(purpose: str | None, scopes: tuple[str, ...]) -> list[str]:
    chosen = PURPOSES[purpose] if purpose else () if scopes else CODING_SCOPES
    return list(dict.fromkeys([*(scope.value for scope in chosen), *scopes]))


@command.command("list")
@_username
@options.data
@options.as_json
def list_(*, username: str, data: str | None, as_json: bool) -> None:
    """List the tokens of a user; none is shown in full."""
    client = options.as_operator(data)
    found = [
        summary
        for route in ("/api/tokens/list", "/api/agent-tokens/list")
        for summary in client.ask(route, {"username": username})["tokens"]
    ]
    if as_json:
        click.echo(printed.as_json(found))
        return
    rows = [
        (one["id"], one["kind"], one["name"], _state(one), f"{one['token_prefix']}...", _reach(one))
        for one in found
    ]
    click.echo(printed.table(("ID", "KIND", "NAME", "STATE", "BEGINS", "FOR"), rows))


@command.command()
@click.argument("token_id")
@_username
@options.data
def revoke(*, token_id: str, username: str, data: str | None) -> None:
    """Revoke the token TOKEN_ID; its next use is refused."""
    client = options.as_operator(data)
    body = {"username": username, "token_id": token_id}
    answer = client.post("/api/tokens/revoke", body)
    if answer.status == HTTPStatus.NOT_FOUND:
        answer = client.post("/api/agent-tokens/revoke", body)
    if answer.status == HTTPStatus.NOT_FOUND:
        raise refusal.Failed(
            f"{username} has no such token. List them with: "
            f"{program.command(f'token list --username {username}')}"
        )
    if answer.status != HTTPStatus.OK:
        raise refusal.Failed(f"The Server refused: {answer.error}.")
    click.echo(f"Revoked {token_id}.")


def _state(summary: dict[str, Any]) -> str:
    if summary["revoked_at"] is not None:
        return "revoked"
    expires_at = summary["expires_at"]
    if expires_at is None:
        return "valid"
    day = datetime.fromtimestamp(expires_at, UTC).date().isoformat()
    return f"until {day}" if expires_at > time.time() else f"expired {day}"


def _reach(summary: dict[str, Any]) -> str:
    return summary["allowed_client_id"] or " ".join(summary["scopes"])
