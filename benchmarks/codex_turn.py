"""What both hooks together add to a turn of the real Codex, over the same turn without them, in one run.

Two homes of one Codex, one with both registrations and one with none, take turns against one scripted model
service and one real Server. Each turn is a prompt, a shell command and an answer, so the hooks run once each.
It downloads nothing: without the clients that ``make test-hosts`` installs the row says that.
"""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.hosts import app_server, hooked_codex, machine, observing, packages, recovering
from tests.hosts.model_service import ModelService, Step, runs, says

TURNS: Final = 15
WARM_UP: Final = 2
BARE: Final = "without hooks"
HOOKED: Final = "with both hooks"
FIGURE: Final = "turn of Codex with a shell command, added by both hooks, p50"

Row = tuple[str, str, str, str]


class Side:
    """One home of Codex and the conversation in it."""

    def __init__(self, place: Path, root: Path, lines: dict[str, str], stack: ExitStack) -> None:
        place.mkdir()
        self._service = ModelService([])
        codex = hooked_codex.HookedCodex(place, packages.CODEX, self._service)
        stack.enter_context(self._service.running())
        if lines:
            codex.register(lines)
        server = stack.enter_context(codex.running())
        if lines:
            hooked_codex.trust(server, root)
        self.conversation = server.conversation(root)

    def turn(self) -> app_server.Turn:
        """Returns one whole turn, which no hook has disturbed."""
        self._service.write(Step(items=(runs("true"),)), Step(items=(says("done"),)))
        turn = self.conversation.turn("Run it.")
        assert (turn.status, turn.disturbed()) == ("completed", [])
        return turn


def measure(turns: int = TURNS) -> tuple[dict[str, list[float]], list[float]]:
    """Milliseconds of each turn by kind, sorted, and what Codex says its hooks took in a turn, sorted."""
    taken: dict[str, list[float]] = {BARE: [], HOOKED: []}
    inside = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        top = Path(folder).resolve()
        desk = stack.enter_context(machine.running(top))
        (top / "recovery").mkdir()
        recovery = recovering.Recovering(top / "recovery", desk.server, desk.root)
        reports = observing.Observing(top / "reports", desk)
        lines = {
            "PostToolUse": reports.line(),
            **dict.fromkeys(("SessionStart", "UserPromptSubmit"), recovery.line()),
        }
        sides = {
            BARE: Side(top / "bare", desk.root, {}, stack),
            HOOKED: Side(top / "hooked", desk.root, lines, stack),
        }
        reports.bind(sides[HOOKED].conversation.id)
        for number in range(-WARM_UP, turns):
            for kind, side in sides.items():
                turn = side.turn()
                if number >= 0:
                    taken[kind].append((turn.ended_at - turn.began_at) * 1_000)
                    inside += [float(sum(run["durationMs"] for run in turn.hooks))] if turn.hooks else []
        assert len(reports.reports()) == turns + WARM_UP
    return {kind: sorted(values) for kind, values in taken.items()}, sorted(inside)


def rows() -> list[Row]:
    """Figure, measured, baseline, and target or ratio, for the page of figures."""
    if not packages.is_installed():
        return [(FIGURE, "not measured", "", "Codex is not in the cache; run make test-hosts once")]
    load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    taken, inside = measure()
    bare, hooked = (values[len(values) // 2] for values in taken.values())
    version = packages.pinned()[packages.CODEX]
    return [
        (
            FIGURE,
            f"{hooked - bare:.0f} ms",
            f"Codex {version}, the same turn without hooks {bare:.0f} ms",
            f"{hooked / bare:.2f} times",
        ),
        (
            "of that, hook runs as Codex times them, its shell and the interpreter included, p50",
            f"{inside[len(inside) // 2]:.0f} ms",
            f"slowest {inside[-1]:.0f} ms",
            f"{TURNS} turns",
        ),
        ("load before the turns", load, "", "a scripted model answers at once; a real one takes seconds"),
    ]


def main() -> None:
    """The table of figures was printed."""
    for row in rows():
        print(" | ".join(row))


if __name__ == "__main__":
    main()
