"""A TLS connection to the configured host, verified against the system's store and nothing else (A-18)."""

import os

# OpenSSL and ``ssl`` read these by themselves; no environment setting may change whom the hook trusts or
# where it writes its keys.
for _name in (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSLKEYLOGFILE",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
):
    os.environ.pop(_name, None)

import socket  # noqa: E402  # after the environment is cleaned
import ssl  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from adapter_kit import server_client


def connected(target: "server_client.Origin", seconds_left: "Callable[[], float]") -> ssl.SSLSocket:
    """A connection whose peer has proven to be ``target.host``.

    Name resolution cannot be given a time-out; the caller's watchdog bounds it (A-20).

    Raises:
        OSError: if no address answers or the certificate does not hold.
        TransportFailure: from ``seconds_left`` when the time is over.
    """
    plain = _first_reached(target, seconds_left)
    try:
        plain.settimeout(seconds_left())
        return ssl.create_default_context().wrap_socket(plain, server_hostname=target.host)
    except BaseException:
        plain.close()
        raise


def _first_reached(target: "server_client.Origin", seconds_left: "Callable[[], float]") -> socket.socket:
    hosts = target.addresses or (target.host,)
    failure: OSError = OSError()
    for host in hosts:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, target.port, type=socket.SOCK_STREAM
        ):
            seconds = seconds_left()
            plain = socket.socket(family, kind, protocol)
            try:
                plain.settimeout(seconds)
                plain.connect(address)
            except OSError as error:
                plain.close()
                failure = error
            else:
                return plain
    raise failure
