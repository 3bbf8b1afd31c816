"""Judges the credentials in the data directory, each by what the Server answers to it (C-08).

A Runner token is held to a path that takes none: the refusal of its kind, rather than of the token, proves
that the Server knows it (C-22 rows 3 and 4), and no Runner is disturbed.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from webcodex.cli import credentials as kinds
from webcodex.cli import program
from webcodex.cli.doctor_checks import checks, server
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.doctor_checks.conversation import Heard, Token
from webcodex.cli.doctor_checks.exchange import Answer, Reply
from webcodex.cli.doctor_checks.standing import Standing
from webcodex.core.access import CODING_SCOPES, Scope
from webcodex.runner.settings import Settings

_AREA: Final = Area.CREDENTIALS
_PREFIX_CHARS: Final = 16
_LAST_MOMENT_S: Final = 253_402_300_799
_WANTED: Final[Mapping[str, Sequence[Scope]]] = {"PAT": CODING_SCOPES, "adapters": kinds.ADAPTER_SCOPES}


def told(now: Standing, tokens: Mapping[str, Token], heard: Heard) -> list[Check]:
    """Returns a line for each credential that a running installation needs."""
    lines = [
        _pat(now, "PAT", tokens["pat"], heard.user, heard.tokens),
        _pat(now, "adapters", tokens["adapters"], heard.adapters, heard.tokens),
    ]
    if isinstance(now.runner, Settings):
        known = _known(heard.runner_tokens, tokens["runner"])
        lines.append(_runner(now, now.runner.client_id, heard.runner, known))
    return lines


def _known(reply: Reply, token: Token) -> dict[str, Any] | None:
    """Returns what the Server tells of the token, where that can only be this one."""
    listed = reply.body.get("tokens") if isinstance(reply, Answer) else None
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    same = [row for row in rows if row.get("token_prefix") == token.text[:_PREFIX_CHARS]]
    return same[0] if len(same) == 1 else None


def _pat(now: Standing, name: str, token: Token, reply: Reply, listed: Reply) -> Check:
    if token.fault is not None:
        return _unusable(now, name, token)
    if not isinstance(reply, Answer):
        return checks.unknown(_AREA, name, server.unheard(reply), now.restart)
    if reply.status != HTTPStatus.OK:
        return _refused(now, name, token)
    known = _known(listed, token)
    if known is None:
        found = "The Server accepts it; which scopes it carries is not known."
        return checks.unknown(_AREA, name, found, program.command("token list"))
    scopes = _texts(known.get("scopes"))
    lacking = [scope.value for scope in _WANTED[name] if scope not in scopes and Scope.ADMIN not in scopes]
    if lacking:
        found = f"The Server accepts it, but for its work it lacks {' '.join(lacking)}."
        return checks.attention(_AREA, name, found, f"rm {checks.quoted(token.file)}; {now.restart}")
    found = f"The Server accepts it; it {_end(known)} and carries {' '.join(map(checks.word, scopes))}."
    return checks.ok(_AREA, name, found)


def _unusable(now: Standing, name: str, token: Token) -> Check:
    file = checks.quoted(token.file)
    found = f"{token.file} {token.fault}."
    if "(mode 0600)" in found:
        return checks.attention(_AREA, name, found, f"chmod 600 {file}")
    step = now.restart if not token.file.exists() else f"rm {file}; {now.restart}"
    return checks.attention(_AREA, name, f"{found} A start makes a new one.", step)


def _refused(now: Standing, name: str, token: Token) -> Check:
    found = (
        f"The Server does not accept the token in {token.file}: it was revoked, has expired or is not known. "
        "A start puts that right."
    )
    return checks.attention(_AREA, name, found, now.restart)


def _runner(now: Standing, client_id: str, reply: Reply, known: dict[str, Any] | None) -> Check:
    name = "Runner token"
    if not isinstance(reply, Answer):
        return checks.unknown(_AREA, name, server.unheard(reply), now.restart)
    is_of_its_kind = reply.status == HTTPStatus.FORBIDDEN and "status" not in reply.body  # M-06
    if not is_of_its_kind and reply.status != HTTPStatus.OK:
        return _refused(now, name, Token(file=now.found.runner_file))
    if known is not None and known.get("allowed_client_id") != client_id:
        found = f"The Server accepts it, but for another Runner than {client_id}."
        step = program.command(f"token create --runner {client_id}")
        return checks.attention(_AREA, name, found, step)
    end = "" if known is None else f"; it {_end(known)} and is for {client_id}"
    return checks.ok(_AREA, name, f"The Server accepts it{end}.")


def _end(known: Mapping[str, Any]) -> str:
    expires_at = known.get("expires_at")
    if not isinstance(expires_at, int):
        return "never expires"
    if expires_at > _LAST_MOMENT_S:
        return "expires after the year 9999"
    moment = dt.datetime.fromtimestamp(expires_at, dt.UTC)
    return f"expires at {moment.isoformat(timespec='minutes')}"


def _texts(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
