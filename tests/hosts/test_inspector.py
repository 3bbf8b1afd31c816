"""The MCP Inspector's command line lists and calls our tools, and finds nothing to complain about."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.hosts import machine, packages
from tests.requirements import requirement

INSPECT_S: Final = 120
IS_ERROR: Final = 5
ERAS: Final = ("legacy", "modern")


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspector:
    """The Inspector in front of one Server, with one credential."""

    url: str
    token: str
    home: Path

    def said(self, era: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Returns how one method ended."""
        reach = ("--cli", f"{self.url}/mcp", "--transport", "http", "--protocol-era", era, "--format", "json")
        header = ("--header", f"Authorization: Bearer {self.token}")
        return subprocess.run(
            [*packages.command(packages.INSPECTOR), *reach, *header, *words],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=INSPECT_S,
            check=False,
        )

    def listed(self, era: str) -> list[dict[str, Any]]:
        """Returns the tools that are listed; strictly, nothing may be wrong with their schemas."""
        ended = self.said(era, "--method", "tools/list", "--strict")
        assert (ended.returncode, ended.stderr) == (0, "")
        tools: list[dict[str, Any]] = json.loads(ended.stdout)["result"]["tools"]
        return tools

    def called(self, era: str, tool: str, arguments: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Returns how one call ended."""
        words = ("--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        return self.said(era, *words)


@pytest.fixture
def inspector(desk: machine.Machine, tmp_path: Path) -> Inspector:
    token = desk.pat("runtime:read", "project:read", "session:collaborate")
    return Inspector(url=desk.server.url, token=token, home=tmp_path)


@pytest.mark.parametrize("era", ERAS)
@requirement("M-19", "M-23", "M-31", "M-32", "M-63")
def test_strict_inspection_of_every_listed_schema_finds_nothing(inspector: Inspector, era: str) -> None:
    names = [tool["name"] for tool in inspector.listed(era)]
    assert names[:2] == ["work_on_project", "read_files"]
    assert names[-1] == "call_runtime_tool"
    assert "record_external_observation" not in names


@pytest.mark.parametrize("era", ERAS)
@requirement("M-30", "M-33", "R-50")
def test_called_tool_reads_the_file_that_lies_there(
    inspector: Inspector, desk: machine.Machine, era: str
) -> None:
    arguments = {"project": machine.PROJECT, "items": [{"path": machine.SOURCE}]}
    ended = inspector.called(era, "read_files", arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    result = json.loads(ended.stdout)["result"]
    (item,) = result["structuredContent"]["output"]["items"]
    assert item["output"]["text"].encode() == (desk.root / machine.SOURCE).read_bytes()
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@pytest.mark.parametrize("era", ERAS)
@requirement("M-14", "M-30", "C-16")
def test_failed_call_is_an_error_with_its_kind(inspector: Inspector, era: str) -> None:
    arguments = {"project": "agent:desk:nowhere", "items": [{"path": machine.SOURCE}]}
    ended = inspector.called(era, "read_files", arguments)
    assert ended.returncode == IS_ERROR
    result = json.loads(ended.stdout)["result"]
    assert result["isError"] is True
    assert result["structuredContent"]["output"]["error_kind"] == "unknown_project"
