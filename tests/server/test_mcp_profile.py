"""Two headers say which host is calling; a bad one fails before anything runs (10.6)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.server import mcp_desk
from tests.server.late_runner import LateRunner
from tests.server.mcp_desk import Desk, Header
from tests.tools import house
from webcodex.server import mcp_endpoint, mcp_envelope, mcp_profile, settings
from webcodex.server.mcp_answers import Form
from webcodex.server.mcp_profile import Host
from webcodex.tools import contract
from webcodex.tools.contract import Profile, Waits

PROFILE, BUDGET = "x-webcodex-mcp-profile", "X-WebCodex-MCP-Budget-Secs"
PLANTED = "planted-9d1f"
PROFILE_TEXT = "X-WebCodex-MCP-Profile must be direct or host_code_mode"
BUDGET_TEXT = "X-WebCodex-MCP-Budget-Secs must be a positive integer"
HEADERS_TEXT = "WebCodex MCP headers must not be repeated and must be ASCII"

REFUSED: list[tuple[list[Header], str]] = [
    ([(PROFILE, "")], PROFILE_TEXT),
    ([(PROFILE, PLANTED)], PROFILE_TEXT),
    ([(PROFILE, "Direct")], PROFILE_TEXT),
    ([(PROFILE, "direct, host_code_mode")], PROFILE_TEXT),
    ([(BUDGET, "")], BUDGET_TEXT),
    ([(BUDGET, "0")], BUDGET_TEXT),
    ([(BUDGET, "-1")], BUDGET_TEXT),
    ([(BUDGET, "+5")], BUDGET_TEXT),
    ([(BUDGET, "1.0")], BUDGET_TEXT),
    ([(BUDGET, "1_0")], BUDGET_TEXT),
    ([(BUDGET, "5s")], BUDGET_TEXT),
    ([(BUDGET, PLANTED)], BUDGET_TEXT),
    ([(PROFILE, "direct"), (PROFILE, "direct")], HEADERS_TEXT),
    ([(BUDGET, "5"), (BUDGET, "5")], HEADERS_TEXT),
    ([(PROFILE, b"dir\xebct")], HEADERS_TEXT),
    ([(BUDGET, b"\xd9\xa5")], HEADERS_TEXT),
    ([(PROFILE, PLANTED), (BUDGET, "5"), (BUDGET, "6")], HEADERS_TEXT),
    ([(PROFILE, PLANTED), (BUDGET, "0")], PROFILE_TEXT),
]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with mcp_desk.opened(tmp_path) as made:
        yield made


async def _is_short(desk: Desk, *headers: Header) -> bool:
    listed = (await desk.ask(Form.INITIALIZE, "tools/list", None, *headers)).result["tools"]
    return "list_sessions" not in {tool["name"] for tool in listed}


@requirement("M-37", "M-65", "M-02", "C-22")
async def test_bad_header_fails_before_dispatch_with_a_fixed_text(desk: Desk) -> None:
    session_id = await desk.house.session()
    for headers, text in REFUSED:
        for form in Form:
            reply = await desk.call("close_session", {"session_id": session_id}, *headers, form=form)
            assert (reply.status, reply.code) == (400, -32602), headers
            assert reply.body["error"] == {"code": -32602, "message": text}, headers
            assert PLANTED not in reply.text
    assert (await desk.house.output("read_session_summary", session_id=session_id))["lifecycle"] == "active"


@requirement("M-36", "M-37", "M-65")
async def test_profile_is_the_one_of_each_request(desk: Desk) -> None:
    assert not await _is_short(desk)
    assert await _is_short(desk, (PROFILE, "host_code_mode"))
    assert not await _is_short(desk)
    assert not await _is_short(desk, (PROFILE, " direct "), (BUDGET, "20"))
    assert await _is_short(desk, (PROFILE, "host_code_mode"), (BUDGET, "007"))


@requirement("M-37")
async def test_absent_profile_is_the_configured_one(tmp_path: Path) -> None:
    for word, short in (("host_code_mode", True), ("direct", False), (PLANTED, False)):
        folder = tmp_path / word
        folder.mkdir()
        async with mcp_desk.opened(folder, WEBCODEX_MCP_HOST_PROFILE=word) as desk:
            assert await _is_short(desk) is short
            assert not await _is_short(desk, (PROFILE, "direct"))


def _waits(environment: dict[str, str], *headers: tuple[bytes, bytes]) -> tuple[Host, Waits]:
    chosen = settings.load({"WEBCODEX_TOKEN": "t", **environment})
    host = mcp_profile.host(mcp_envelope.collected(headers, mcp_endpoint.HEARD), chosen)
    return host, mcp_profile.waits(host, chosen)


@requirement("M-38")
def test_waits_are_those_of_the_profile() -> None:
    host, waits = _waits({})
    assert host == Host(profile=Profile.DIRECT, budget_s=60)
    assert waits == Waits(safe_s=55, handoff_s=10, sync_s=55, observe_s=55)
    host, waits = _waits({}, (b"x-webcodex-mcp-profile", b"host_code_mode"))
    assert host == Host(profile=Profile.HOST_CODE_MODE, budget_s=55)
    assert waits == Waits(safe_s=50, handoff_s=5, sync_s=5, observe_s=5)
    _, patient = _waits({"WEBCODEX_MCP_HOST_BUDGET_SECS": "300"})
    assert patient == Waits(safe_s=295, handoff_s=10, sync_s=60, observe_s=100)


@requirement("M-38", "M-39")
def test_header_budget_can_only_lower_the_configured_one() -> None:
    for sent, seconds in ((b"20", 20), (b"60", 60), (b"61", 60), (b"9" * 6000, 60), (b"3", 3)):
        assert _waits({}, (b"x-webcodex-mcp-budget-secs", sent))[0].budget_s == seconds
    hurried = _waits({}, (b"x-webcodex-mcp-budget-secs", b"3"))[1]
    assert hurried == Waits(safe_s=1, handoff_s=1, sync_s=1, observe_s=1)
    configured = {"WEBCODEX_MCP_HOST_BUDGET_SECS": "30"}
    assert _waits(configured, (b"x-webcodex-mcp-budget-secs", b"40"))[0].budget_s == 30
    assert _waits(configured, (b"x-webcodex-mcp-profile", b"host_code_mode"))[0].budget_s == 30


@requirement("M-39")
def test_configured_limits_lower_the_waits_and_never_raise_them() -> None:
    low = {
        "WEBCODEX_MCP_HOST_SYNC_WAIT_MAX_SECS": "7",
        "WEBCODEX_MCP_HOST_CONTINUATION_WAIT_MAX_SECS": "8",
    }
    assert _waits(low)[1] == Waits(safe_s=55, handoff_s=10, sync_s=7, observe_s=8)
    hosted = _waits(low, (b"x-webcodex-mcp-profile", b"host_code_mode"))[1]
    assert hosted == Waits(safe_s=50, handoff_s=5, sync_s=5, observe_s=5)


def _seconds(runner: LateRunner) -> dict[str, float]:
    said, runner.budgets = dict(runner.budgets), []
    return said


@requirement("M-38", "M-39", "R-50", "H-07")
async def test_runner_is_waited_for_no_longer_than_the_host_waits(tmp_path: Path) -> None:
    runner = LateRunner()
    runner.may_answer.set()
    runner.answer = {"available": False, "reason_code": "non_git_project"}
    async with mcp_desk.opened(tmp_path, runners=runner) as desk:
        session_id = await desk.house.session()
        ada = await desk.pat("ada", *mcp_desk.EVERY_SCOPE)
        read = {"project": house.DEMO, "items": [{"path": "a.py"}]}
        search = {"project": house.DEMO, "pattern": "x", "timeout_secs": 120}
        handoff = {"session_id": session_id, "include_workspace": True}
        for headers, reads, workspace in (
            ([], 30, 8),
            ([(PROFILE, "host_code_mode")], 30, 8),
            ([(BUDGET, "20")], 15, 8),
            ([(BUDGET, "1"), (PROFILE, "host_code_mode")], 1, 1),
        ):
            for form in Form:
                await desk.call("read_files", read, *headers, form=form)
                assert _seconds(runner) == {"read_files": reads}
                await desk.call("search_project_texts", search, *headers, form=form)
                assert _seconds(runner) == {"search_project_texts": 120}
                await desk.call("read_session_handoff", handoff, *headers, form=form, token=ada)
                assert _seconds(runner) == {"git_status": workspace}


@requirement("M-38")
def test_call_over_rest_waits_as_a_direct_host_does() -> None:
    assert _waits({})[1] == contract.DIRECT_WAITS
