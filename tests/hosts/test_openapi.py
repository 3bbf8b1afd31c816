"""Schemathesis calls every action that /openapi.json describes, and believes what is written there."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.hosts import machine, packages
from tests.requirements import requirement
from webcodex.core import access

RUN_S: Final = 240
EXAMPLES: Final = 25
SEED: Final = 20260728
PATH: Final = "/openapi.json"
# A refused credential (401) and what is no JSON (415) are answered before there is an action (C-22), so only
# calls that have both can say whether each status is described.
OF_ANY_CALL: Final = (
    "not_a_server_error",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "ignored_auth",
    "unsupported_method",
    "allow_header_conformance",
)
OF_GOOD_CALLS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
# What any machine can be asked for again and again; no drawn command runs, and no drawn edit is made.
CAN_SUCCEED: Final = (
    "work_on_project",
    "read_files",
    "search_project_texts",
    "read_workspace_changes",
    "read_session_handoff",
    "list_projects",
    "read_tool_manifest",
    "call_runtime_tool",
)

# A null optional argument counts as absent (M-13), and no schema offers one; only a tool that succeeds on
# drawn arguments shows this. A body that is too large is refused with 413 (M-01), which schemathesis does not
# count as a refusal; only an array that may be long enough to need such a body shows that.
LENIENT: Final = {
    ("ST201", "POST /api/actions/list_jobs"),
    ("ST201", "POST /api/actions/observe_jobs"),
    ("ST201", "POST /api/actions/read_tool_manifest"),
    ("ST201", "POST /api/actions/run_process"),
}

Report = Mapping[str, Any]


@pytest.fixture
def coding_pat(desk: machine.Machine) -> str:
    """A PAT for ordinary coding (C-14)."""
    return desk.pat(*(scope.value for scope in access.CODING_SCOPES))


def described(desk: machine.Machine) -> dict[str, Any]:
    """The document as it is served to anybody."""
    status, document = desk.server.get(PATH)
    assert status == 200
    assert isinstance(document, dict)
    return document


def report(
    folder: Path,
    document: Mapping[str, Any],
    url: str,
    token: str,
    *,
    mode: str,
    checks: Sequence[str],
) -> Report:
    """Returns what schemathesis reports of the actions at ``url``, after a bounded number of calls."""
    (folder / "openapi.json").write_text(json.dumps(document), encoding="utf-8")
    reach = ("--url", url, "--header", f"Authorization: Bearer {token}", "--request-timeout", "30")
    drawn = ("--max-examples", str(EXAMPLES), "--seed", str(SEED), "--phases", "coverage,fuzzing")
    told = ("--warnings", "off", "--report-json-path", str(folder / "report.json"))
    ended = subprocess.run(
        [
            *packages.schemathesis(),
            *("run", str(folder / "openapi.json"), "--mode", mode, "--checks", ",".join(checks)),
            *(*reach, *drawn, *told, "--continue-on-failure"),
        ],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=RUN_S,
        check=False,
    )
    print(ended.stdout)  # noqa: T201 - pytest shows it beside a failure: how to repeat each call
    read: Report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert (read["stop_reason"], read["errors"]) == ("completed", [])
    return read


def found(read: Report) -> set[tuple[str, str]]:
    """The code and the action of each kind of failure."""
    return {(failure["code"], action) for failure in read["failures"] for action in failure["operations"]}


def narrowed(node: Any, known: Mapping[str, list[Any]]) -> Any:
    """The schema ``node`` with only these values for the properties of these names."""
    if isinstance(node, list):
        return [narrowed(item, known) for item in node]
    if not isinstance(node, dict):
        return node
    schema = {key: narrowed(value, known) for key, value in node.items()}
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["properties"] = {
            name: {"enum": known[name]} if name in known else value for name, value in properties.items()
        }
    return schema


def of_this_project(document: Mapping[str, Any], session_id: str) -> dict[str, Any]:
    """The document, narrowed to calls that can succeed on the one project there is."""
    known: dict[str, list[Any]] = {
        "project": [machine.PROJECT],
        "path": [machine.SOURCE, "README.md"],
        "start_line": [1, 3, 4],
        "pattern": ["clamp", "[a-z]+"],
        "session_id": [session_id],
        "recording_session_id": [session_id],
        "tool": ["list_projects", "get_runtime_status"],
        "arguments": [{}],
        **{name: [None] for name in ("client_id", "base_ref", "cursor", "expected_sha256")},
    }
    copy: dict[str, Any] = json.loads(json.dumps(document))
    copy["paths"] = {f"/api/actions/{name}": copy["paths"][f"/api/actions/{name}"] for name in CAN_SUCCEED}
    for path in copy["paths"].values():
        content = path["post"]["requestBody"]["content"]["application/json"]
        content["schema"] = narrowed(content["schema"], known)
    return copy


@requirement("M-01", "M-02", "M-05", "M-13", "M-14", "M-60", "M-61")
def test_no_call_whatever_is_a_fault_of_the_server_or_is_answered_otherwise_than_described(
    desk: machine.Machine, coding_pat: str, tmp_path: Path
) -> None:
    document, url = described(desk), desk.server.url
    read = report(tmp_path, document, url, coding_pat, mode="all", checks=OF_ANY_CALL)
    assert read["operations"]["tested"] == len(document["paths"])
    assert found(read) == LENIENT


@requirement("M-14", "M-60", "M-61", "R-51")
def test_action_that_reads_a_real_project_succeeds_as_described(
    desk: machine.Machine, coding_pat: str, tmp_path: Path
) -> None:
    begin = {"project": machine.PROJECT, "instruction": "Try every action"}
    status, begun = desk.server.call("work_on_project", begin, coding_pat)
    assert status == 200, begun
    document = of_this_project(described(desk), begun["output"]["session_id"])
    read = report(tmp_path, document, desk.server.url, coding_pat, mode="positive", checks=OF_GOOD_CALLS)
    succeeded = {
        action
        for action, phases in read["valid_rates"].items()
        if any(p["accepted"] for p in phases.values())
    }
    assert succeeded == {f"POST {path}" for path in document["paths"]}
    assert found(read) == set()
