"""Asks the running Server what the checks need to know, with the credentials that lie in the data directory.

No credential leaves before ``up`` is known to hold the data directory: whoever listens at the remembered
address while it does not may be somebody else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from webcodex.cli.doctor_checks import exchange, standing
from webcodex.cli.doctor_checks.exchange import Answer, Conversation, Reply, Request, Silence
from webcodex.cli.doctor_checks.standing import Standing, Up
from webcodex.runner import private_files
from webcodex.runner.settings import Settings

MOST_PROJECTS: Final = 100
_MOST_PAGES: Final = 10
_TOKEN_BYTES: Final = 4096
_BEARER: Final = "Bearer "
_ME: Final = "/api/users/me"
_TOOL: Final = "/api/tools/call"


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """What one private file holds: a token, or the reason why it holds none."""

    file: Path
    text: str = field(default="", repr=False)
    fault: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """Everything the Server said; what was not asked says so."""

    ready: Reply = Silence.NOT_ASKED
    status: Reply = Silence.NOT_ASKED
    tools: Reply = Silence.NOT_ASKED
    runners: Reply = Silence.NOT_ASKED
    user: Reply = Silence.NOT_ASKED
    tokens: Reply = Silence.NOT_ASKED
    runner_tokens: Reply = Silence.NOT_ASKED
    adapters: Reply = Silence.NOT_ASKED
    runner: Reply = Silence.NOT_ASKED
    served: Mapping[str, Mapping[str, Any]] | Silence = Silence.NOT_ASKED
    roots: Mapping[str, Reply] = field(default_factory=dict)


def held(now: Standing) -> dict[str, Token]:
    """Returns what the private files hold, by the name of the credential."""
    found = now.found
    runner = now.runner
    token = Token(file=found.runner_file, text=runner.token) if isinstance(runner, Settings) else None
    return {
        "pat": _token(found.pat_file, ""),
        "adapters": _token(found.authorization_file, _BEARER),
        "runner": token or Token(file=found.runner_file, fault="cannot be used"),
    }


def _token(file: Path, prefix: str) -> Token:
    try:
        content, _ = private_files.read(file, most_bytes=_TOKEN_BYTES)
        text = content.decode("ascii").strip()
    except FileNotFoundError:
        return Token(file=file, fault="is not there")
    except private_files.NotPrivate as refused:
        return Token(file=file, fault=str(refused))
    except (OSError, UnicodeDecodeError):
        return Token(file=file, fault="cannot be read as a line of ASCII")
    if not text.startswith(prefix) or not exchange.is_token(text.removeprefix(prefix)):
        return Token(file=file, fault=f"does not hold {f'`{prefix.strip()}` and ' if prefix else ''}a token")
    return Token(file=file, text=text.removeprefix(prefix))


def heard(now: Standing, tokens: Mapping[str, Token]) -> Heard:
    """Returns what the Server said, within the bounds of ``exchange``."""
    if isinstance(now.url, standing.Fault):
        return Heard()
    talk = Conversation(now.url)
    ready = talk.ask(Request(path="/readyz"))
    if now.up is not Up.RUNNING or not isinstance(ready, Answer):
        return Heard(ready=ready)
    pat = tokens["pat"]
    user = _me(talk, pat)
    is_known = isinstance(user, Answer) and user.status == HTTPStatus.OK
    whose = user.body.get("user") if isinstance(user, Answer) else None
    owner = {"username": whose.get("username") if isinstance(whose, dict) else None}
    return Heard(
        ready=ready,
        user=user,
        adapters=_me(talk, tokens["adapters"]),
        runner=_me(talk, tokens["runner"]),
        **(_told_to(talk, pat.text, owner, now) if is_known else {}),
    )


def _me(talk: Conversation, token: Token) -> Reply:
    if token.fault is not None:
        return Silence.NOT_ASKED
    return talk.ask(Request(path=_ME, body={}, token=token.text))


def _told_to(talk: Conversation, pat: str, owner: dict[str, Any], now: Standing) -> dict[str, Any]:
    def asked(path: str, body: dict[str, Any]) -> Reply:
        return talk.ask(Request(path=path, body=body, token=pat))

    answers: dict[str, Any] = {
        "tokens": asked("/api/tokens/list", owner),
        "runner_tokens": asked("/api/agent-tokens/list", owner),
        "status": asked(_TOOL, {"tool": "get_runtime_status", "params": {}}),
        "tools": asked("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        "runners": asked(_TOOL, {"tool": "list_runners", "params": {}}),
    }
    if isinstance(now.runner, Settings) and not isinstance(now.registered, standing.Fault):
        client_id = now.runner.client_id
        answers["served"] = served = _served(talk, pat, client_id)
        mine = [f"agent:{client_id}:{each.id}" for each in now.registered if each.rule is None]
        answers["roots"] = {
            project: asked(_TOOL, {"tool": "list_project_files", "params": _first_name(project)})
            for project in mine[:MOST_PROJECTS]
            if isinstance(served, dict) and served.get(project, {}).get("connected") is True
        }
    return answers


def _first_name(project: str) -> dict[str, Any]:
    """Asks for the least that makes the Runner open the Project's root (R-11)."""
    return {"project": project, "depth": 1, "limit": 1}


def _served(talk: Conversation, pat: str, client_id: str) -> dict[str, dict[str, Any]] | Silence:
    """Returns the Projects of one Runner that the Server shows, by id (M-45)."""
    rows: dict[str, dict[str, Any]] = {}
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        body = {"client_id": client_id, "limit": 100, **({"cursor": cursor} if cursor else {})}
        page = talk.ask(Request(path="/api/runtime-console/projects", body=body, token=pat))
        if isinstance(page, Silence):
            return page
        shown = page.body.get("projects")
        if page.status != HTTPStatus.OK or not isinstance(shown, list):
            return Silence.FOREIGN
        rows |= {str(row.get("id")): row for row in shown if isinstance(row, dict)}
        cursor = page.body.get("next_cursor")
        if not isinstance(cursor, str):
            break
    return rows
