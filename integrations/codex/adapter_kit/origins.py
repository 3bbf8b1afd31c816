"""Which Server an adapter may speak to: https, or plain HTTP to this very machine (A-18)."""

from adapter_kit import refusal

_LOOPBACK = {"127.0.0.1": ("127.0.0.1",), "::1": ("::1",), "localhost": ("127.0.0.1", "::1")}
_NAME_CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
_ADDRESS_CHARS = "0123456789abcdefABCDEF:."
_PORT_DIGITS = 5
_PORT_MAX = 65_535
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin:
    """One origin, parsed; ``addresses`` are tried in order and empty if the host must be looked up."""

    __slots__ = ("addresses", "authority", "host", "is_tls", "port")

    def __init__(self, scheme: str, host: str, port: int) -> None:
        self.is_tls = scheme == "https"
        self.host = host
        self.port = port
        self.authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.addresses = _LOOPBACK.get(host, ())


def parse(text: str) -> Origin:
    """The origin that ``text`` names.

    Raises:
        Refused: ``https_or_loopback_origin_required`` for userinfo, a query, a fragment, a path, a host that
            is not plain ASCII, or http to another machine.
    """
    scheme, mark, rest = text.partition("://")
    authority = rest.removesuffix("/")
    host, colon, port = _split(authority)
    if (
        mark
        and scheme in _DEFAULT_PORTS
        and host
        and (scheme == "https" or host in _LOOPBACK)
        and (not colon or _is_port(port))
    ):
        return Origin(scheme, host, int(port) if colon else _DEFAULT_PORTS[scheme])
    raise refusal.Refused("https_or_loopback_origin_required")


def _split(authority: str) -> tuple[str, str, str]:
    """Host, colon and port; the host is empty if it is malformed."""
    if authority.startswith("["):
        host, bracket, rest = authority[1:].partition("]")
        if not bracket or ":" not in host or host.strip(_ADDRESS_CHARS) or (rest and rest[0] != ":"):
            return "", "", ""
        return host, rest[:1], rest[1:]
    host, colon, port = authority.partition(":")
    return ("" if host.strip(_NAME_CHARS) else host), colon, port


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _PORT_DIGITS and 0 < int(text) <= _PORT_MAX
