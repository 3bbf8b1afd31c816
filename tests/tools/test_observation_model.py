"""Draws random histories of reports and compares the real store with a model of a few lines (O-30)."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.tools.house import DEMO, House, report

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(0, 1), st.integers(1, 3), st.sampled_from([None, 0, 7])),
        st.tuples(st.just("close"), st.integers(0, 1), st.just(0), st.none()),
        st.tuples(st.just("reopen"), st.just(0), st.just(0), st.none()),
    ),
    max_size=14,
)


class Model:
    """What the store must hold: per Session its lifecycle and, per event, the code and the first time."""

    def __init__(self) -> None:
        self.closed: set[int] = set()
        self.rows: dict[tuple[int, int], tuple[int | None, int]] = {}

    def record(self, session: int, event: int, code: int | None, now: int) -> str:
        stored = self.rows.get((session, event))
        if stored is not None:
            return "replayed" if stored[0] == code else "external_observation_conflict"
        if session in self.closed:
            return "session_closed"
        self.rows[session, event] = (code, now)
        return "inserted"

    def listed(self, session: int) -> list[tuple[int, int | None, int]]:
        rows = [(time, event, code) for (of, event), (code, time) in self.rows.items() if of == session]
        return [(event, code, time) for time, event, code in sorted(rows, key=lambda row: row[:2])]


def _word(answer: dict[str, Any]) -> str:
    output = answer["output"]
    if not answer["success"]:
        return str(output["error_kind"])
    return "inserted" if output["inserted"] else "replayed"


async def _run(folder: Path, steps: list[tuple[str, int, int, int | None]]) -> None:
    house = await House(folder).furnish()
    sessions = [await house.session() for _ in range(2)]
    model = Model()
    for kind, session, event, code in steps:
        house.now += 1
        if kind == "reopen":
            await house.reopen()
        elif kind == "close":
            model.closed.add(session)
            await house.output("close_session", session_id=sessions[session])
        else:
            given_report = report(sessions[session], event, exit_code=code)
            answer = await house.call("record_external_observation", **given_report)
            assert _word(answer) == model.record(session, event, code, house.now)
    for place, session_id in enumerate(sessions):
        await _compare(house, session_id, model.listed(place))
    house.database.close()


async def _compare(house: House, session: str, expected: list[tuple[int, int | None, int]]) -> None:
    arguments = {"project": DEMO, "session_id": session}
    listed = await house.output("list_external_observations", **arguments)
    rows = listed["observations"]
    assert [(int(row["event_id"], 16), row["exit_code"], row["recorded_at"]) for row in rows] == expected
    through = await house.call_through_gateway("list_external_observations", **arguments)
    assert through["output"] == listed
    brief = (await house.output("get_session_handoff_state", **arguments))["handoff_brief"]
    external = brief["external_observations"]
    assert external["observations"] == rows[-5:]
    assert external["total"] == len(rows)
    assert external["unknown_count"] == sum(row["status"] == "unknown" for row in rows)


@requirement("O-30", "O-11", "O-12", "O-04", "O-06")
@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_random_histories_agree_with_the_model(steps: list[tuple[str, int, int, int | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_run(Path(folder), steps))
