"""Which Projects the console lists (M-45): order, search, bounds of a row, and pages that miss none."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server import console_desk
from tests.server.console_desk import INVALID, PROJECTS, Desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with console_desk.opened(tmp_path) as made:
        yield made


def _ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


async def _found(desk: Desk, query: str) -> list[str]:
    return [row["id"].rpartition(":")[2] for row in await desk.rows(PROJECTS, query=query)]


@requirement("M-45", "C-15", "C-11", "M-62")
async def test_each_caller_sees_its_own_projects_and_bootstrap_all(desk: Desk) -> None:
    row = {
        "id": "agent:r1:demo",
        "client_id": "r1",
        "path": "/demo",
        "connected": False,
        "agent_status": "offline",
        "sessions": 0,
    }
    assert await desk.page(PROJECTS) == {
        "projects": [row],
        "total": 1,
        "returned": 1,
        "truncated": False,
        "next_cursor": None,
    }
    assert _ids(await desk.rows(PROJECTS, "eve")) == ["agent:r2:foreign"]
    assert _ids(await desk.rows(PROJECTS, "bootstrap")) == ["agent:r1:demo", "agent:r2:foreign"]
    await desk.server.make_user("zoe")
    desk.tokens["zoe"] = await desk.server.make_pat("zoe", "admin")
    assert await desk.rows(PROJECTS, "zoe") == []


@requirement("M-45", "R-34")
async def test_a_connected_runner_is_online_with_its_present_inventory(desk: Desk) -> None:
    async with console_desk.connected_runner(desk.server, "ada", "r7"):
        away, present = await desk.rows(PROJECTS)
    assert (away["id"], away["connected"], away["agent_status"]) == ("agent:r1:demo", False, "offline")
    assert (present["id"], present["connected"], present["agent_status"]) == ("agent:r7:demo", True, "online")
    assert [row["connected"] for row in await desk.rows(PROJECTS)] == [False, False]


@requirement("M-45", "C-15")
async def test_a_disabled_project_is_not_listed(desk: Desk) -> None:
    await desk.add_projects("ada", "r1", ["demo", "off"], disabled=lambda name: name == "off")
    page = await desk.page(PROJECTS)
    assert (_ids(page["projects"]), page["total"]) == (["agent:r1:demo"], 1)


@requirement("M-45")
async def test_rows_stand_in_the_order_of_their_whole_id(desk: Desk) -> None:
    names = ["b", "a", "a-b", "a.b", "A", "_", "0"]
    for client_id in ("r1", "r1-x", "r1.x", "r", "R1"):
        await desk.add_projects("ada", client_id, names)
    rows = _ids(await desk.rows(PROJECTS, limit=7))
    assert len(rows) == 35
    assert rows == sorted(rows)
    # By its two halves this would come the other way round.
    assert rows.index("agent:r1-x:a") < rows.index("agent:r1:a")


@requirement("M-45")
async def test_the_project_at_the_searched_path_comes_first(desk: Desk) -> None:
    await desk.add_projects("ada", "r1", ["a", "b", "z"], path=lambda name: "/srv/x" + "/sub" * (name != "z"))
    await desk.add_projects("ada", "r9", ["other"], path="/srv/x")
    rows = await desk.rows(PROJECTS, query="/srv/x", limit=1)
    assert _ids(rows) == ["agent:r1:z", "agent:r9:other", "agent:r1:a", "agent:r1:b"]
    assert [row["path"] for row in rows] == ["/srv/x", "/srv/x", "/srv/x/sub", "/srv/x/sub"]
    assert _ids(await desk.rows(PROJECTS, query="/srv/x", client_id="r9")) == ["agent:r9:other"]


@requirement("M-45")
async def test_a_query_is_a_literal_case_sensitive_part(desk: Desk) -> None:
    paths = {"one": "/srv/100%_done", "two": "/srv/100xydone", "three": "/srv/Ärger/*[a]?"}
    names = {"one": "Clamp", "two": None, "three": "with 'quotes' and \\"}
    await desk.add_projects("ada", "r1", paths, path=paths.__getitem__, name=names.__getitem__)
    assert await _found(desk, "100%_d") == ["one"]
    assert await _found(desk, "100") == ["one", "two"]
    assert await _found(desk, "Clamp") == ["one"]
    assert await _found(desk, "clamp") == []
    assert await _found(desk, "ONE") == []
    assert await _found(desk, "agent:r1:t") == ["three", "two"]
    assert await _found(desk, "*[a]?") == ["three"]
    assert await _found(desk, "Ärg") == ["three"]
    assert await _found(desk, "'quotes' and \\") == ["three"]
    assert await _found(desk, "' OR 1=1 --") == []
    assert await _found(desk, "r1") == await _found(desk, "") == ["one", "three", "two"]
    page = await desk.page(PROJECTS, query="100", limit=1)
    assert (page["total"], page["returned"], page["truncated"]) == (2, 1, True)


@requirement("M-45", "M-44", "M-02")
async def test_a_query_is_bounded_in_bytes(desk: Desk) -> None:
    assert (await desk.page(PROJECTS, query="é" * 2048))["total"] == 0
    for query in ("é" * 2048 + "a", "a" * 4097, "a\0", "\ud800", 1, ["a"], True):
        assert await desk.post(PROJECTS, {"query": query}) == INVALID


@requirement("M-45", "M-62")
async def test_a_foreign_runner_is_like_an_absent_one(desk: Desk) -> None:
    foreign = await desk.page(PROJECTS, client_id="r2")
    assert foreign == await desk.page(PROJECTS, client_id="absent")
    assert (foreign["projects"], foreign["total"]) == ([], 0)
    for client_id in ("", "a b", "a" * 81, 1, "a:b"):
        assert await desk.post(PROJECTS, {"client_id": client_id}) == INVALID


@requirement("M-45")
async def test_a_row_stays_within_its_bounds(desk: Desk) -> None:
    paths = {
        "control": "/srv/a\nb",
        "long": "/" + "a" * 4095,
        "longer": "/" + "a" * 4096,
        "wide": "/" + "é" * 2048,
    }
    await desk.add_projects("ada", "r1", paths, path=paths.__getitem__, name="x\n" + "é" * 200)
    rows = {row["id"].rpartition(":")[2]: row for row in await desk.rows(PROJECTS)}
    assert {name: row.get("path") for name, row in rows.items()} == {
        "control": None,
        "long": paths["long"],
        "longer": None,
        "wide": None,
    }
    assert "path" not in rows["control"]
    assert {row["name"] for row in rows.values()} == {"x " + "é" * 158}


@requirement("M-45")
async def test_the_limit_is_clamped(desk: Desk) -> None:
    await desk.add_projects("ada", "r1", [f"p{number:03d}" for number in range(120)])
    for asked, shown in [(1, 1), (0, 1), (-7, 1), (100, 100), (101, 100), (10**30, 100), (None, 50)]:
        page = await desk.page(PROJECTS, limit=asked)
        assert (page["returned"], page["total"], page["truncated"]) == (shown, 120, True)
    assert (await desk.page(PROJECTS))["returned"] == 50
    for wrong in (True, 1.0, "5", [5]):
        assert await desk.post(PROJECTS, {"limit": wrong}) == INVALID


@requirement("M-45", "C-17", "C-19")
async def test_a_row_counts_the_callers_own_sessions_only(desk: Desk) -> None:
    await desk.add_sessions(3)
    await desk.add_sessions(2, by="bootstrap")
    await desk.add_sessions(1, project="agent:r1:other")
    (row,) = await desk.rows(PROJECTS)
    assert row["sessions"] == 3
    assert [row["sessions"] for row in await desk.rows(PROJECTS, "bootstrap")] == [2, 0]


@requirement("M-45", "M-47")
async def test_pages_lead_through_every_project_however_long_its_id(desk: Desk) -> None:
    client_id = "." * 80
    names = [f"{number:03d}" + "-" * 125 for number in range(250)]
    await desk.add_projects("ada", client_id, names)
    pages = await desk.pages(PROJECTS, limit=100)
    assert [page["returned"] for page in pages] == [100, 100, 51]
    assert {page["total"] for page in pages} == {251}
    rows = [row["id"] for page in pages for row in page["projects"]]
    assert rows == sorted([*(f"agent:{client_id}:{name}" for name in names), "agent:r1:demo"])


@requirement("M-47")
async def test_a_page_ends_early_and_the_next_goes_on(desk: Desk) -> None:
    names = [f"p{number:02d}" for number in range(60)]
    await desk.add_projects("ada", "r1", names, path=lambda name: f"/{name}/" + '"' * 4000)
    pages = await desk.pages(PROJECTS, limit=100)
    assert len(pages) > 4
    assert all(page["total"] == 60 for page in pages)
    assert [row["id"] for page in pages for row in page["projects"]] == [f"agent:r1:{name}" for name in names]


@requirement("M-47")
async def test_pages_miss_and_repeat_none_while_others_come_and_go(desk: Desk) -> None:
    stays = [f"p{number:03d}" for number in range(0, 200, 2)]
    await desk.add_projects("ada", "r1", stays)
    first = await desk.page(PROJECTS, limit=30)
    gone = first["projects"][-1]["id"].rpartition(":")[2]
    # The row that the cursor stands on goes; others come before it and behind it.
    await desk.add_projects("ada", "r1", [*(name for name in stays if name != gone), "a", "p001", "p199"])
    rows = _ids(first["projects"])
    cursor = first["next_cursor"]
    while cursor is not None:
        page = await desk.page(PROJECTS, limit=30, cursor=cursor)
        rows += _ids(page["projects"])
        cursor = page["next_cursor"]
    assert rows == [*(f"agent:r1:{name}" for name in stays), "agent:r1:p199"]
