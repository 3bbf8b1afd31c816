"""Which Workflow Sessions the console lists (M-46): whose, what a row proves, and pages that miss none."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server import console_desk
from tests.server.console_desk import INVALID, NOT_FOUND, SESSIONS, Desk
from tests.server.in_process import NOW
from webcodex.core import ledger, sessions
from webcodex.server import console_sessions

DEMO = "agent:r1:demo"
STARTED, FINISHED = ledger.Kind.CALL_STARTED, ledger.Kind.CALL_FINISHED


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with console_desk.opened(tmp_path) as made:
        yield made


async def _row(desk: Desk, session_id: str) -> dict[str, Any]:
    (row,) = [row for row in await desk.rows(SESSIONS, project=DEMO) if row["session_id"] == session_id]
    return row


async def _begun(desk: Desk, instruction: str = "Implement clamp") -> str:
    _, made = await desk.server.call(
        "work_on_project", {"project": DEMO, "instruction": instruction}, desk.tokens["ada"]
    )
    return str(made["output"]["session_id"])


def _ids(page: dict[str, Any]) -> list[str]:
    return [row["session_id"] for row in page["sessions"]]


@requirement("M-46", "H-51", "C-13")
async def test_a_row_says_where_the_work_stands_as_the_brief_does(desk: Desk) -> None:
    session = await _begun(desk)
    row = await _row(desk, session)
    overview = row.pop("overview")
    assert row == {
        "session_id": session,
        "title": "Implement clamp",
        "lifecycle": "active",
        "mode": "normal",
        "created_at": NOW,
        "updated_at": NOW,
        "running_call": False,
    }
    assert set(overview) == {"work", "validation", "attention"}
    for state in ("insufficient_evidence", "closed"):
        _, answer = await desk.server.call(
            "get_session_handoff_state", {"project": DEMO, "session_id": session}, desk.tokens["ada"]
        )
        brief, row = answer["output"]["handoff_brief"], await _row(desk, session)
        assert row["overview"]["work"] == brief["progress"]["state"] == state
        assert row["overview"]["validation"] == brief["validation"]["status"]
        counts = ("open_guidance", "open_risks", "open_questions", "open_todos")
        assert row["overview"]["attention"] == {name: brief["attention"][name] for name in counts}
        await desk.server.call("close_session", {"session_id": session}, desk.tokens["ada"])
    assert (await _row(desk, session))["lifecycle"] == "closed"


@requirement("M-46", "S-50", "S-10")
async def test_the_last_activity_is_the_newest_call_that_ended(desk: Desk) -> None:
    session = await _begun(desk)
    desk.server.now += 7
    await desk.server.call("read_session_summary", {"session_id": session}, desk.tokens["ada"])
    row = await _row(desk, session)
    assert row["last_activity"] == {
        "tool_name": "read_session_summary",
        "status": "succeeded",
        "at": NOW + 7,
    }
    assert (row["running_call"], row["updated_at"], "current_activity" in row) == (False, NOW + 7, False)
    body = {
        "tool": "read_files",
        "params": {"project": DEMO, "items": [{"path": "a"}]},
        "recording_session_id": session,
    }
    status, _ = await desk.post("/api/tools/call", body)
    assert status == 400
    row = await _row(desk, session)
    assert row["last_activity"] == {"tool_name": "read_files", "status": "failed", "at": NOW + 7}


@requirement("M-46", "S-14", "S-76")
async def test_a_call_without_its_end_runs_for_150_seconds(desk: Desk) -> None:
    session = await _begun(desk)
    await desk.add_events(session, (STARTED, NOW, {"call_id": "wc_call_1", "tool_name": "read_files"}))
    desk.server.now = NOW + 149
    row = await _row(desk, session)
    assert row["running_call"] is True
    assert row["current_activity"] == {"tool_name": "read_files", "status": "running", "at": NOW}
    desk.server.now = NOW + 150
    row = await _row(desk, session)
    assert (row["running_call"], "current_activity" in row) == (False, False)


@requirement("M-46")
async def test_a_running_call_is_found_beneath_many_newer_events(desk: Desk) -> None:
    (session,) = await desk.add_sessions(1)
    ended = [
        event
        for number in range(300)
        for facts in [{"call_id": f"wc_call_{number}", "tool_name": "list_sessions"}]
        for event in [(STARTED, NOW, facts), (FINISHED, NOW, {**facts, "status": "succeeded"})]
    ]
    await desk.add_events(
        session, (STARTED, NOW - 100, {"call_id": "wc_call_slow", "tool_name": "run_process"}), *ended
    )
    row = await _row(desk, session)
    assert row["current_activity"] == {"tool_name": "run_process", "status": "running", "at": NOW - 100}
    assert row["last_activity"] == {"tool_name": "list_sessions", "status": "succeeded", "at": NOW}


@requirement("M-46", "M-47")
async def test_a_page_that_had_to_read_much_ends_early(desk: Desk) -> None:
    made = await desk.add_sessions(4)
    unended = [
        (STARTED, NOW, {"call_id": f"wc_call_{number}", "tool_name": "x"})
        for number in range(console_sessions.PAGE_EVENTS // 2)
    ]
    for session in made:
        await desk.add_events(session, *unended)
    pages = await desk.pages(SESSIONS, project=DEMO, limit=100)
    assert [page["returned"] for page in pages] == [2, 2]
    assert [session for page in pages for session in _ids(page)] == made[::-1]


@requirement("M-46", "S-03")
async def test_a_title_is_cut_and_a_mode_is_shown(desk: Desk) -> None:
    (session,) = await desk.add_sessions(1, title="😀" * 4000, mode=sessions.Mode.READ_ONLY)
    row = await _row(desk, session)
    assert (row["title"], row["mode"]) == ("😀" * 240, "read_only")


@requirement("M-46", "C-17", "C-19", "C-20", "S-70")
async def test_only_the_own_groups_sessions_of_exactly_that_project_are_listed(desk: Desk) -> None:
    mine = await desk.add_sessions(2)
    theirs = await desk.add_sessions(1, by="bootstrap")
    await desk.add_sessions(1, project="agent:r1:demo2")
    await desk.add_sessions(1, by="eve", project="agent:r2:foreign")
    assert _ids(await desk.page(SESSIONS, project=DEMO)) == mine[::-1]
    assert _ids(await desk.page(SESSIONS, "bootstrap", project=DEMO)) == theirs
    desk.tokens["second"] = await desk.server.make_pat("ada", *console_desk.READ)
    assert _ids(await desk.page(SESSIONS, "second", project=DEMO)) == mine[::-1]


@requirement("M-44", "M-62", "C-15")
async def test_a_project_that_is_not_seen_is_not_found(desk: Desk) -> None:
    await desk.server.call("list_projects", {}, desk.tokens["ada"])
    for project in ("agent:r2:foreign", "agent:r2:absent", "agent:r1:absent", "demo", "~p1", "agent:r1", "x"):
        assert await desk.post(SESSIONS, {"project": project}) == NOT_FOUND
    desk.tokens["admin"] = await desk.server.make_pat("eve", "admin")
    assert await desk.post(SESSIONS, {"project": DEMO}, "admin") == NOT_FOUND
    await desk.add_projects("ada", "r1", ["demo"], disabled=True)
    assert await desk.post(SESSIONS, {"project": DEMO}) == NOT_FOUND


@requirement("M-46", "M-44")
async def test_the_limit_is_clamped_and_fields_are_strict(desk: Desk) -> None:
    await desk.add_sessions(120)
    for asked, shown in [(1, 1), (0, 1), (-(10**20), 1), (100, 100), (101, 100), (None, 20)]:
        page = await desk.page(SESSIONS, project=DEMO, limit=asked)
        assert (page["returned"], page["total"]) == (shown, 120)
    assert (await desk.page(SESSIONS, project=DEMO))["returned"] == 20
    wrong: list[dict[str, object]] = [
        {},
        {"project": None},
        {"project": 1},
        {"project": ""},
        {"project": "a" * 1025},
        {"project": "\ud800"},
        {"project": DEMO, "limit": True},
        {"project": DEMO, "limit": 2.0},
        {"project": DEMO, "query": "x"},
        {"project": DEMO, "offset": 1},
    ]
    for body in wrong:
        assert await desk.post(SESSIONS, body) == INVALID, body


@requirement("M-46")
async def test_sessions_made_in_one_second_are_ordered_by_their_id(desk: Desk) -> None:
    made = await desk.add_sessions(50, created_at=lambda number: NOW + number // 20)
    later, middle, first = made[40:], made[20:40], made[:20]
    rows = await desk.rows(SESSIONS, project=DEMO, limit=7)
    assert [row["session_id"] for row in rows] == [*sorted(later), *sorted(middle), *sorted(first)]


@requirement("M-67", "M-46", "M-47")
async def test_250_sessions_page_completely_while_others_are_updated_and_made(desk: Desk) -> None:
    made = await desk.add_sessions(250)
    desk.server.now = NOW + 1000
    rows: list[str] = []
    totals: list[int] = []
    cursor = None
    while True:
        page = await desk.page(SESSIONS, project=DEMO, limit=100, cursor=cursor)
        rows += _ids(page)
        totals.append(page["total"])
        cursor = page["next_cursor"]
        if cursor is None:
            break
        # Of those shown, those to come and the one the cursor stands on, some move and one is closed.
        for session in (made[0], made[-1], made[150], made[149], made[100]):
            await desk.server.call("read_session_summary", {"session_id": session}, desk.tokens["ada"])
        await desk.server.call("close_session", {"session_id": made[10]}, desk.tokens["ada"])
        await _begun(desk, "made meanwhile")
        desk.server.now += 1
    assert rows == made[::-1]
    assert totals == [250, 251, 252]


@requirement("M-47")
async def test_a_page_ends_early_below_its_size_and_the_next_goes_on(desk: Desk) -> None:
    made = await desk.add_sessions(150, title="\x01" * 240)
    pages = await desk.pages(SESSIONS, project=DEMO, limit=100)
    assert len(pages) > 2
    assert [session for page in pages for session in _ids(page)] == made[::-1]
