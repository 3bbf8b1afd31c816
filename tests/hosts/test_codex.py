"""The real Codex CLI uses /mcp in scripted runs: no model takes part, so this is acceptance by none."""

import concurrent.futures
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.hosts import codex_host, machine, wire
from tests.hosts.codex_host import MCP_SERVER, CodexHome
from tests.hosts.model_service import PAUSE_S, SCRIPTED, Item, ModelService, Pause, Step, calls, says
from tests.requirements import requirement

READ: Final = {"project": machine.PROJECT, "items": [{"path": machine.SOURCE}]}


def asks(tool: str, arguments: dict[str, Any]) -> Item:
    """The step's item that calls a tool of ours."""
    return calls(tool, arguments, server=MCP_SERVER)


def through_gateway(tool: str, **arguments: Any) -> Item:
    """The step's item that calls a tool by way of the gateway."""
    return asks("call_runtime_tool", {"tool": tool, "arguments": arguments})


def text_read(item: Any) -> bytes:
    """The bytes in the receipt of a completed ``read_files``."""
    assert (item["server"], item["tool"], item["status"], item["error"]) == (
        MCP_SERVER,
        "read_files",
        "completed",
        None,
    )
    (read,) = item["result"]["structured_content"]["output"]["items"]
    text = read["output"]["text"].encode()
    assert read["output"]["sha256"] == hashlib.sha256(text).hexdigest()
    return bytes(text)


class Run:
    """One scripted run of Codex, and what went over the wire."""

    def __init__(self, folder: Path, desk: machine.Machine, steps: Sequence[Sequence[Item] | Step]) -> None:
        self.service = ModelService(
            [step if isinstance(step, Step) else Step(items=tuple(step)) for step in steps]
        )
        self.wire = wire.Wire(desk.server.port)
        self._home = CodexHome(folder)

    def end(self, token: str, *tools: str, **chosen: str) -> codex_host.Ended:
        """Returns how it ended."""
        with self.wire.running(), self.service.running():
            return self._home.run(self.service, url=self.wire.url, token=token, tools=tools, **chosen)


@pytest.mark.parametrize(
    ("stateless", "opening"),
    [("false", ["initialize", "notifications/initialized"]), ("true", ["server/discover"])],
)
@requirement("C-14", "M-21", "M-23", "M-24", "M-25", "M-27", "M-30", "M-31", "M-36", "R-50")
def test_scripted_run_reads_a_file_with_a_pat_of_exactly_project_read(
    desk: machine.Machine, tmp_path: Path, stateless: str, opening: list[str]
) -> None:
    before = desk.sessions()
    run = Run(tmp_path, desk, [[asks("read_files", READ)], [says("the file was read")]])
    ended = run.end(desk.pat("project:read"), "read_files", stateless=stateless)
    assert ended.exit_code == 0, ended.complained
    (receipt,) = ended.completed("mcp_tool_call")
    assert text_read(receipt) == (desk.root / machine.SOURCE).read_bytes()
    assert [item["text"] for item in ended.completed("agent_message")] == [f"{SCRIPTED}: the file was read"]
    assert run.wire.asked() == [*opening, "tools/list", "tools/call"]
    sent = {one.request.headers["x-webcodex-mcp-profile"] for one in run.wire.exchanges}
    assert sent == {"direct"}
    assert (run.service.refused, desk.sessions()) == (0, before)


@requirement("M-36", "M-37", "M-65")
def test_scripted_run_with_an_unknown_profile_does_not_begin(desk: machine.Machine, tmp_path: Path) -> None:
    run = Run(tmp_path, desk, [])
    ended = run.end(desk.pat("project:read"), "read_files", profile="of_my_own")
    assert (ended.exit_code, ended.events) == (1, ())
    assert "X-WebCodex-MCP-Profile must be direct or host_code_mode" in ended.complained
    assert "of_my_own" not in ended.complained
    assert [(one.asked, one.status) for one in run.wire.exchanges] == [("initialize", 400)]
    assert run.service.requests == []


@requirement("C-14", "C-22", "M-07", "M-28", "M-31", "M-34")
def test_scripted_run_is_refused_what_its_pat_does_not_carry(desk: machine.Machine, tmp_path: Path) -> None:
    before = desk.sessions()
    begin = {"project": machine.PROJECT, "instruction": "Take over"}
    run = Run(
        tmp_path,
        desk,
        [
            [asks("list_sessions", {"project": machine.PROJECT})],
            [asks("work_on_project", begin)],
            [through_gateway("list_sessions", project=machine.PROJECT)],
            [through_gateway("work_on_project", **begin)],
            [asks("read_files", READ)],
            [says("all was tried")],
        ],
    )
    allowed = ("read_files", "list_sessions", "work_on_project", "call_runtime_tool")
    ended = run.end(desk.pat("project:read"), *allowed, approval="approve")
    assert ended.exit_code == 0, ended.complained
    shown = list(run.service.outputs().values())
    assert [str(said).startswith("unsupported call") for said in shown] == [True, True, False, False, False]
    assert [(one.status, one.answer.json) for one in run.wire.answers_to("tools/call")[:2]] == [
        (403, {"status": 403, "error": "missing required scope: runtime:read"})
    ] * 2
    first, second, last = ended.completed("mcp_tool_call")
    for refused in (first, second):
        assert (refused["status"], refused["result"]) == ("failed", None)
        assert "missing required scope: runtime:read" in refused["error"]["message"]
    assert text_read(last) == (desk.root / machine.SOURCE).read_bytes()
    assert desk.sessions() == before


@requirement("M-22", "M-64")
def test_scripted_run_does_not_notice_that_the_server_was_killed_and_started(tmp_path: Path) -> None:
    pause = Pause()
    between = Step(items=(asks("read_files", READ),), pause=pause)
    (tmp_path / "machine").mkdir()
    with (
        machine.running(tmp_path / "machine") as desk,
        concurrent.futures.ThreadPoolExecutor(1) as background,
    ):
        run = Run(tmp_path, desk, [[asks("read_files", READ)], between, [says("both were read")]])
        running = background.submit(run.end, desk.pat("project:read"), "read_files")
        try:
            assert pause.reached.wait(PAUSE_S)
            desk.restart()
        finally:
            pause.over.set()
        ended = running.result(PAUSE_S)
        expected = (desk.root / machine.SOURCE).read_bytes()
    assert ended.exit_code == 0, ended.complained
    assert [text_read(item) for item in ended.completed("mcp_tool_call")] == [expected, expected]
    assert run.wire.asked() == [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
        "tools/call",
    ]
    assert run.service.refused == 0
