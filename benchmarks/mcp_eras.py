"""Measures listing and calling over MCP in both eras: rate, times and processor time of each request."""

import asyncio
import statistics
from dataclasses import dataclass
from typing import Final

from benchmarks import http_load, mcp_calls, real_server

CLIENTS: Final = 16
EACH: Final = 50
ROUNDS: Final = 5
ERAS: Final = {"2026-07-28": mcp_calls.REVISION, "2025-11-25": "2025-11-25"}
METHODS: Final = ("tools/call", "tools/list")
BASELINE: Final = ("tools/call", "2026-07-28")


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One load of one kind of request, and the Server's processor time for each, seconds."""

    load: http_load.Load
    processor_s: float


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    turns = _measured()
    base = statistics.median(turn.load.rate for turn in turns[BASELINE])
    return [_row(case, taken, base) for case, taken in turns.items() if case != BASELINE] + [
        _row(BASELINE, turns[BASELINE], base)
    ]


def _measured() -> dict[tuple[str, str], list[Turn]]:
    turns: dict[tuple[str, str], list[Turn]] = {(method, era): [] for method in METHODS for era in ERAS}
    with real_server.running() as server:
        for turn in range(-1, ROUNDS):
            for (method, era), taken in turns.items():
                sent = mcp_calls.request(server.authorization, method=method, revision=ERAS[era])
                before = server.processor_s()
                load = asyncio.run(http_load.run(server.port, [[sent] * EACH] * CLIENTS))
                if turn >= 0:
                    used = (server.processor_s() - before) / (CLIENTS * EACH)
                    taken.append(Turn(load=load, processor_s=used))
    return turns


def _row(case: tuple[str, str], taken: list[Turn], base: float) -> tuple[str, str, str, str]:
    rate = statistics.median(turn.load.rate for turn in taken)
    middle = statistics.median(turn.load.percentile_ms(0.5) for turn in taken)
    late = statistics.median(turn.load.percentile_ms(0.95) for turn in taken)
    used = statistics.median(turn.processor_s for turn in taken)
    return (
        f"MCP {case[0]}, revision {case[1]}, {CLIENTS} clients",
        f"{rate:,.0f}/s, p50 {middle:.1f} ms, p95 {late:.1f} ms, processor {used * 1_000_000:,.0f} us",
        f"{BASELINE[0]}, revision {BASELINE[1]}: {base:,.0f}/s",
        f"{rate / base:.2f} of its rate",
    )


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
