"""The options that several commands share, and the Server they lead to."""

from pathlib import Path
from typing import Final

import click

from webcodex.cli import installation, server_client

data: Final = click.option(
    "--data",
    metavar="DIR",
    help="The data directory; else WEBCODEX_DATA, else this user's usual place.",
)
token_file: Final = click.option(
    "--token-file", metavar="FILE", help="A private file with the token to use; else the installation's PAT."
)
url: Final = click.option("--url", help="The Server to speak to; else the installation's.")
as_json: Final = click.option("--json", "as_json", is_flag=True, help="Print the Server's answer as JSON.")


def as_user(
    data_dir: str | None, token_path: str | None = None, at: str | None = None
) -> server_client.Client:
    """Returns the Server spoken to with the installation's PAT, or with the token of another file.

    Raises:
        Refused: there is no installation, or the file cannot be used.

    """
    if token_path is not None and at is not None:
        return server_client.Client(url=at, token=_token(Path(token_path)))
    found = installation.existing(data_dir)
    path = found.pat_file if token_path is None else Path(token_path)
    return server_client.Client(url=at or installation.url(found), token=_token(path))


def as_operator(data_dir: str | None) -> server_client.Client:
    """Returns the Server of the installation spoken to with its bootstrap credential.

    Raises:
        Refused: there is no installation.

    """
    found = installation.existing(data_dir)
    token = installation.read_secret(found.bootstrap_file)
    return server_client.Client(url=installation.url(found), token=token)


def _token(path: Path) -> str:
    return installation.read_secret(path).removeprefix("Bearer ")
