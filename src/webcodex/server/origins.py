"""Reads the authorities and origins that HTTP names; two that mean the same compare equal (M-03, M-04)."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

_AUTHORITY: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
)
_ORIGIN: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,31})://(?P<authority>[^/?#@]{1,300})")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MOST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Authority:
    """A host in lower case, an IPv6 literal short and in brackets, and the port if one is named."""

    host: str
    port: int | None

    def without_default_port(self, scheme: str) -> "Authority":
        """Returns this authority without the port that ``scheme`` means anyway."""
        return Authority(self.host, None) if self.port == _DEFAULT_PORTS.get(scheme, -1) else self


@dataclass(frozen=True, slots=True)
class Origin:
    """A scheme and an authority without its default port."""

    scheme: str
    authority: Authority


def authority(text: str) -> Authority | None:
    """Returns the authority that ``text`` is, or none."""
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return None
    port = None if found["port"] is None else int(found["port"])
    host = found["host"].lower()
    if port is not None and port > _MOST_PORT:
        return None
    if not host.startswith("["):
        return Authority(host, port)
    try:
        return Authority(f"[{ipaddress.IPv6Address(host[1:-1]).compressed}]", port)
    except ValueError:
        return None


def origin(text: str) -> Origin | None:
    """Returns the origin that ``text`` is, or none; ``null`` is none."""
    found = _ORIGIN.fullmatch(text)
    named = None if found is None else authority(found["authority"])
    if found is None or named is None:
        return None
    scheme = found["scheme"].lower()
    return Origin(scheme, named.without_default_port(scheme))


def address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns the IP address that ``host`` is a literal of, or none for a name."""
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Says whether ``host`` can only mean this machine."""
    literal = address(host)
    return host.lower() == "localhost" if literal is None else literal.is_loopback
