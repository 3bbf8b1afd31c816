"""Stands before every route and the WebSocket: who is addressed, and from where (M-03, M-04, C-22 row 1).

What passes has header values without surrounding blanks and exactly one ``Host`` that this Server answers to.
httptools lets a missing or repeated ``Host`` through, also in HTTP/1.0, so nothing earlier can be relied on.
"""

from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from webcodex.server import answers, origins
from webcodex.server.origins import Authority, Origin
from webcodex.server.settings import Settings

_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - recognised here, bound only if so configured
_REMEMBERED: Final = 256


class HttpGuard:
    """Passes to ``app`` what is addressed to this Server from a place it trusts."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._is_wildcard = settings.addr_host in _WILDCARDS
        self._authorities = frozenset(_authorities(settings))
        self._origins = frozenset({settings.public_origin, *settings.allowed_origins})
        self._admitted: dict[bytes, Authority] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers C-22 row 1, or lets ``app`` answer."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        refusal = self._refusal(headers)
        if refusal is None:
            scope["headers"] = headers
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await answers.send_whole(refusal, send)
        else:
            await answers.deny_websocket(refusal, scope, send)

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> answers.Answer | None:
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not hosts[0]:
            return answers.BAD_HOST
        host = self._admitted.get(hosts[0]) or self._admit(hosts[0])
        if host is None:
            return answers.HOST_NOT_ALLOWED
        for name, value in headers:
            if name == b"origin" and not self._trusts(value, host):
                return answers.ORIGIN_NOT_ALLOWED
        return None

    def _admit(self, value: bytes) -> Authority | None:
        host = origins.authority(value.decode("latin-1"))
        if host is None or not self._is_ours(host):
            return None
        if len(self._admitted) >= _REMEMBERED:
            self._admitted.clear()
        self._admitted[value] = host
        return host

    def _is_ours(self, host: Authority) -> bool:
        if host in self._authorities or Authority(host.host, None) in self._authorities:
            return True
        return self._is_wildcard and origins.address(host.host) is not None

    def _trusts(self, value: bytes, host: Authority) -> bool:
        origin = origins.origin(value.decode("latin-1"))
        if origin is None:
            return False
        return self._is_same(origin, host) or origin in self._origins

    def _is_same(self, origin: Origin, host: Authority) -> bool:
        return origin.authority == host.without_default_port(origin.scheme)


def _authorities(settings: Settings) -> Iterable[Authority]:
    names = [_in_brackets(settings.addr_host), settings.public_origin.authority.host]
    if settings.is_loopback:
        names += _LOOPBACK_NAMES
    yield from (Authority(name, None) for name in names)
    yield from settings.allowed_hosts


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host
