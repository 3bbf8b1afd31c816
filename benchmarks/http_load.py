"""Sends prepared HTTP requests over keep-alive connections and times each; says nothing of what they mean."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What one run took: seconds in all, and the sorted seconds of each request."""

    total_s: float
    each_s: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Returns requests per second."""
        return len(self.each_s) / self.total_s

    def percentile_ms(self, share: float) -> float:
        """Returns the time below which ``share`` of the requests ended, in ms."""
        return self.each_s[min(len(self.each_s) - 1, int(len(self.each_s) * share))] * 1000


def post(path: str, body: bytes, *headers: str) -> bytes:
    """Returns one HTTP/1.1 request as it goes over the wire."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


async def run(port: int, per_client: Sequence[Sequence[bytes]]) -> Load:
    """Returns the load of sending each client's requests one after the other, all clients at once.

    Raises:
        RuntimeError: a request was not answered with 200.

    """
    began = time.perf_counter()
    times = await asyncio.gather(*(_client(port, requests) for requests in per_client))
    total_s = time.perf_counter() - began
    return Load(total_s=total_s, each_s=tuple(sorted(one for client in times for one in client)))


async def _client(port: int, requests: Sequence[bytes]) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times = []
    for request in requests:
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n", 1)[0])
        body = await reader.readexactly(length)
        times.append(time.perf_counter() - began)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"not answered with 200: {head[:20]!r} {body[:200]!r}")
    writer.close()
    await writer.wait_closed()
    return times
