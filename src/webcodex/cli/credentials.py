"""Sees to it that the Server knows the credentials that lie in the data directory.

A token is made and kept here before the Server hears its hash, so whatever is interrupted, the file holds a
token that is either known already or can be registered at the next start.
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from webcodex.cli import installation, refusal, runner_file, server_client
from webcodex.cli.installation import Installation
from webcodex.core.access import CODING_SCOPES, Scope

PAT: Final = "wc_pat_"
RUNNER: Final = "wc_agent_"
ADAPTER_SCOPES: Final = (
    Scope.RUNTIME_READ,
    Scope.PROJECT_READ,
    Scope.SESSION_COLLABORATE,
    Scope.COMMUNICATION_READ,
)  # C-14: hook, handoff reader and recovery entry
_BEARER: Final = "Bearer "
_ENTROPY_BYTES: Final = 32
_PREFIX_CHARS: Final = 16


class Standing(Enum):
    """What the Server knows of a token."""

    VALID = auto()
    ENDED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Credential:
    """One token of the installation: how the Server is to know it, and where it is kept."""

    name: str
    kind: str
    scopes: tuple[Scope, ...] = ()
    client_id: str | None = None
    read: Callable[[], str]
    write: Callable[[str], None]

    @property
    def routes(self) -> str:
        """Where the Server keeps its kind (10.9)."""
        return "/api/tokens" if self.kind == PAT else "/api/agent-tokens"


def minted(kind: str) -> str:
    """Returns a new token of that kind with 256 random bits (C-08)."""
    return kind + secrets.token_bytes(_ENTROPY_BYTES).hex()


def make_missing(found: Installation, url: str) -> None:
    """Leaves every file of the installation that holds a credential in place."""
    if not found.bootstrap_file.exists():
        installation.write_secret(found.bootstrap_file, secrets.token_hex(_ENTROPY_BYTES))
    if not found.pat_file.exists():
        installation.write_secret(found.pat_file, minted(PAT))
    if not found.authorization_file.exists():
        installation.write_secret(found.authorization_file, _BEARER + minted(PAT))
    if not found.runner_file.exists():
        runner_file.create(
            found.runner_file,
            url=url,
            token=minted(RUNNER),
            client_id=installation.CLIENT_ID,
            roots=[str(Path.home().resolve())],
        )


def of(found: Installation) -> tuple[Credential, ...]:
    """Returns the credentials that the Server has to know."""

    def write_authorization(token: str) -> None:
        installation.write_secret(found.authorization_file, _BEARER + token)

    return (
        Credential(
            name="coding",
            kind=PAT,
            scopes=CODING_SCOPES,
            read=lambda: installation.read_secret(found.pat_file),
            write=lambda token: installation.write_secret(found.pat_file, token),
        ),
        Credential(
            name="adapters",
            kind=PAT,
            scopes=ADAPTER_SCOPES,
            read=lambda: installation.read_secret(found.authorization_file).removeprefix(_BEARER),
            write=write_authorization,
        ),
        Credential(
            name="runner",
            kind=RUNNER,
            client_id=runner_file.read(found.runner_file).client_id,
            read=lambda: runner_file.read(found.runner_file).token,
            write=lambda token: runner_file.replace_token(found.runner_file, token),
        ),
    )


def register(client: server_client.Client, found: Installation) -> list[str]:
    """Returns what had to be replaced, in sentences; the Server knows every credential after this.

    Raises:
        Failed: the Server refused.

    """
    username = installation.USERNAME
    if client.post("/api/tokens/list", {"username": username}).status == HTTPStatus.NOT_FOUND:
        client.ask("/api/users/create", {"username": username})
    known = {
        route: client.ask(f"{route}/list", {"username": username})["tokens"]
        for route in ("/api/tokens", "/api/agent-tokens")
    }
    notes = []
    for credential in of(found):
        token = credential.read()
        standing = _standing(token, known[credential.routes])
        if standing is Standing.ENDED:
            token = minted(credential.kind)
            credential.write(token)
            notes.append(
                f"The token for {credential.name} was revoked or had expired; a new one took its place."
            )
        if standing is not Standing.VALID:
            _register(client, credential, token)
    return notes


def _standing(token: str, known: list[dict[str, Any]]) -> Standing:
    same = [summary for summary in known if summary["token_prefix"] == token[:_PREFIX_CHARS]]
    if not same:
        return Standing.UNKNOWN
    now = time.time()
    is_valid = any(
        summary["revoked_at"] is None and (summary["expires_at"] is None or summary["expires_at"] > now)
        for summary in same
    )
    return Standing.VALID if is_valid else Standing.ENDED


def _register(client: server_client.Client, credential: Credential, token: str) -> None:
    body: dict[str, Any] = {
        "username": installation.USERNAME,
        "name": f"up: {credential.name}",
        "token_hash": hashlib.sha256(token.encode()).hexdigest(),
        "token_prefix": token[:_PREFIX_CHARS],
    }
    if credential.scopes:
        body["scopes"] = [scope.value for scope in credential.scopes]
    if credential.client_id is not None:
        body["client_id"] = credential.client_id
    answer = client.post(f"{credential.routes}/register_hash", body)
    is_known = answer.status == HTTPStatus.CONFLICT and credential.kind == PAT
    if answer.status != HTTPStatus.OK and not is_known:
        raise refusal.Failed(f"The Server did not register the token for {credential.name}: {answer.error}.")
