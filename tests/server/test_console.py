"""Who may look at the console, how it refuses, and what a cursor is good for (M-44, M-47, M-62)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server import console_desk, in_process
from tests.server.console_desk import INVALID, PROJECTS, SESSIONS, Desk
from webcodex.core import access
from webcodex.core.access import Scope
from webcodex.server import console_cursor
from webcodex.storage.database import Transaction
from webcodex.storage.schema import session_events

DEMO = "agent:r1:demo"
ASKED: dict[str, dict[str, Any]] = {PROJECTS: {}, SESSIONS: {"project": DEMO}}
EACH = pytest.mark.parametrize("path", [PROJECTS, SESSIONS])


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with console_desk.opened(tmp_path) as made:
        yield made


async def _cursor(desk: Desk, path: str, by: str = "ada", **asked: Any) -> str:
    return str((await desk.page(path, by, **{**ASKED[path], **asked}, limit=1))["next_cursor"])


async def _fill(desk: Desk) -> None:
    await desk.add_projects("ada", "r1", ["demo", "other", "third"])
    for project in (DEMO, "agent:r1:other"):
        await desk.add_sessions(3, project=project)
        await desk.add_sessions(3, by="bootstrap", project=project)


@requirement("M-44", "C-13", "M-62", "M-05", "M-06")
@EACH
async def test_each_way_in_is_refused_in_its_words(desk: Desk, path: str) -> None:
    server, body = desk.server, ASKED[path]
    assert await server.post(path, body, None) == (401, {"error": "Unauthorized"})
    made = await server.make_user("zoe", issue_credential=True)
    status, answer = await server.post(path, body, made["account_credential"])
    assert (status, answer["error"].partition(" are")[0]) == (403, "account credentials")
    every = {scope.value for scope in Scope if scope is not Scope.ADMIN}
    refused = {
        "Runtime read access required": [every - {"runtime:read"}, {"account:manage"}],
        "Project read access required": [every - {"project:read"}, {"runtime:read"}],
    }
    for sentence, lists in refused.items():
        for scopes in lists:
            token = await server.make_pat("ada", *scopes)
            # The scopes are looked at before the fields (C-22).
            for sent in (body, {"no": "field"}):
                assert await server.post(path, sent, token) == (403, {"status": 403, "error": sentence})
    for scopes in (set(console_desk.READ), {"admin"}):
        token = await server.make_pat("ada", *scopes)
        assert (await server.post(path, body, token))[0] == 200


@requirement("M-62", "M-03", "M-04", "M-01", "M-09")
@EACH
async def test_host_origin_method_and_body_are_checked_as_everywhere(desk: Desk, path: str) -> None:
    server, body = desk.server, ASKED[path]
    evil = {"Host": "evil.example"}, {"Origin": "http://evil.example"}
    assert [(await server.post(path, body, headers=headers))[0] for headers in evil] == [403, 403]
    answer = await server.client.get(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert await server.post(path, b"") == (400, {"status": 400, "error": "Invalid JSON: not JSON"})
    status, _ = await server.post(path, body, headers={"Content-Type": "text/plain"})
    assert status == 415
    assert (await server.post(path + "/", body))[0] == 404


@requirement("M-44", "M-02")
@EACH
async def test_a_store_that_cannot_be_read_is_said_and_no_more(desk: Desk, path: str) -> None:
    await desk.add_sessions(1)
    token = desk.tokens["ada"]

    def drop(tx: Transaction) -> None:
        session_events.drop(tx._connection)
        for table in ("wc_project_refs", "wc_sessions"):
            tx._connection.exec_driver_sql(f"DROP TABLE {table}")

    await desk.server.database.write(drop)
    expected = (500, {"status": 500, "error": "Runtime Console unavailable"})
    assert await desk.server.post(path, {**ASKED[path]}, token) == expected


@requirement("M-47", "M-44", "M-02")
@EACH
async def test_what_is_no_cursor_is_an_invalid_request(desk: Desk, path: str) -> None:
    await _fill(desk)
    cursor = await _cursor(desk, path)
    flipped = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    wrong = ["", "x", "garbage", "A" * 256, "A" * 257, cursor + "A", cursor[:-2], flipped, cursor + "="]
    wrong += [
        cursor[0].swapcase() + cursor[1:] if cursor[0].isalpha() else "A" + cursor[1:],
        "é",
        "a b",
        "\0",
    ]
    for value in (*wrong, 1, True, [cursor], {}):
        assert await desk.post(path, {**ASKED[path], "cursor": value}) == INVALID, value
    assert (await desk.post(path, {**ASKED[path], "cursor": cursor}))[0] == 200
    assert (await desk.post(path, {**ASKED[path], "cursor": None}))[0] == 200


@requirement("M-47", "M-44")
async def test_a_cursor_is_good_for_its_route_its_caller_and_its_question_only(desk: Desk) -> None:
    await _fill(desk)
    projects, listed = await _cursor(desk, PROJECTS), await _cursor(desk, SESSIONS)
    for path, body in (
        (SESSIONS, {"project": DEMO, "cursor": projects}),
        (PROJECTS, {"cursor": listed}),
        (PROJECTS, {"cursor": projects, "query": "demo"}),
        (PROJECTS, {"cursor": projects, "client_id": "r1"}),
        (SESSIONS, {"project": "agent:r1:other", "cursor": listed}),
    ):
        assert await desk.post(path, body) == INVALID
    # Bootstrap sees the same Projects and is another caller.
    for by in ("bootstrap", "eve"):
        assert await desk.post(PROJECTS, {"cursor": projects}, by) == INVALID
    assert await desk.post(SESSIONS, {"project": DEMO, "cursor": listed}, "bootstrap") == INVALID
    own = await _cursor(desk, SESSIONS, "bootstrap")
    assert await desk.post(SESSIONS, {"project": DEMO, "cursor": own}) == INVALID
    # A bad cursor is found before the Project is looked for, so neither says anything of the other.
    assert await desk.post(SESSIONS, {"project": "agent:r2:absent", "cursor": listed}) == INVALID
    assert await desk.post(SESSIONS, {"project": "agent:r2:foreign", "cursor": listed}) == INVALID


@requirement("M-47", "C-19")
async def test_a_cursor_outlives_another_limit_another_token_and_a_restart(tmp_path: Path) -> None:
    async with console_desk.opened(tmp_path) as desk:
        await _fill(desk)
        second = await desk.server.make_pat("ada", *console_desk.READ)
        whole = [row["session_id"] for row in await desk.rows(SESSIONS, project=DEMO)]
        cursor = await _cursor(desk, SESSIONS)
    async with in_process.server(tmp_path) as again:
        body = {"project": DEMO, "cursor": cursor, "limit": 50}
        status, page = await again.post(SESSIONS, body, second)
    assert status == 200
    assert [row["session_id"] for row in page["sessions"]] == whole[1:]


@requirement("M-47", "M-02")
async def test_a_forged_place_harms_nobody(desk: Desk) -> None:
    await _fill(desk)
    group = access.group_of_user(desk.users["ada"])
    for place in ("x", "1", ":", "1:", ":a", "1" * 200 + ":a", "-1:a", "1.5:a", ""):
        for path, question in ((PROJECTS, (None, None)), (SESSIONS, (DEMO,))):
            forged = console_cursor.made((path, group, *question), place)
            assert await desk.post(path, {**ASKED[path], "cursor": forged}) == INVALID, place
    for place in ("0:r1:demo", "9:zzz", "999999999999999:a"):
        forged = console_cursor.made((PROJECTS, group, None, None), place)
        rows = (await desk.page(PROJECTS, cursor=forged))["projects"]
        assert {row["client_id"] for row in rows} <= {"r1"}
        forged = console_cursor.made((SESSIONS, group, DEMO), place)
        mine = {row["session_id"] for row in await desk.rows(SESSIONS, project=DEMO)}
        rows = (await desk.page(SESSIONS, project=DEMO, cursor=forged))["sessions"]
        assert {row["session_id"] for row in rows} <= mine


@requirement("M-44", "M-45", "M-02", "M-13")
async def test_an_unknown_or_wrong_field_is_refused_without_its_name(desk: Desk) -> None:
    wrong: list[dict[str, object]] = [
        {"planted": 1},
        {"query": 1},
        {"limit": "planted"},
        {"project": DEMO},
        {"client_id": ["planted"]},
    ]
    for body in wrong:
        assert await desk.post(PROJECTS, body) == INVALID


@requirement("M-44", "S-51")
@EACH
async def test_looking_leaves_no_trace_and_asks_no_runner(desk: Desk, path: str) -> None:
    await _fill(desk)
    before = await desk.rows(SESSIONS, project=DEMO)
    desk.server.now += 500
    await desk.rows(path, **ASKED[path])
    assert await desk.rows(SESSIONS, project=DEMO) == before
