"""The tools that look at a whole Project: what the Runner is asked, what is told, recorded and refused."""

from typing import Any

import pytest

from tests.requirements import requirement
from tests.tools.house import ADA, BOOTSTRAP, DEMO, FOREIGN, House, user
from webcodex.core.json_value import JsonObject
from webcodex.tools import ports, registry
from webcodex.tools.contract import Audience, BadArguments, MissingScope

PAGE: JsonObject = {"truncated": False, "next_cursor": None}
ENTRIES: JsonObject = {
    "entries": [{"path": "a.py", "type": "file", "size": 3}, {"path": "src", "type": "dir", "size": None}],
    "returned": 2,
    **PAGE,
    "omitted_sensitive": 0,
    "omitted_unnameable": 1,
}
FOUND: JsonObject = {"truncated": False, "searched_files": 2, "skipped_files": 0, "omitted_sensitive": 1}
MATCH: JsonObject = {"path": "a.py", "line": 1, "text": "secret-text", "before": [], "after": []}
CLEAN: JsonObject = {
    "available": True,
    "reason_code": None,
    "branch": "main",
    "head": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "dirty": True,
    "conflicted": False,
    "ahead": 1,
    "behind": 0,
    "entries": [{"path": "b.py", "index": "R", "worktree": ".", "orig_path": "a.py"}],
    "truncated": False,
}
CHANGE: JsonObject = {
    "path": "a.py",
    "status": "modified",
    "additions": 1,
    "deletions": 1,
    "binary": False,
    "withheld": False,
    "diff": "secret-diff",
}
WITHHELD: JsonObject = {
    **dict.fromkeys(("additions", "deletions", "binary", "diff")),
    "path": ".env",
    "status": "untracked",
    "withheld": True,
}
CHANGES: JsonObject = {"available": True, "files": [CHANGE, WITHHELD], **PAGE}
DEFAULTS: dict[str, JsonObject] = {
    "list_project_files": {"path": "", "globs": [], "depth": 4, "limit": 200},
    "search_project_texts": {
        "pattern": "clamp",
        "pattern_mode": "literal",
        "path": "",
        "globs": [],
        "case_sensitive": True,
        "context": 0,
        "limit": 100,
        "result_mode": "matches",
        "timeout_secs": 30,
    },
    "get_git_status": {},
    "read_workspace_changes": {"path": "", "context": 3},
}
KINDS = {
    "list_project_files": "list_project_files",
    "search_project_texts": "search_project_texts",
    "get_git_status": "git_status",
    "read_workspace_changes": "workspace_changes",
}
ANSWERS: dict[str, JsonObject] = {
    "list_project_files": ENTRIES,
    "search_project_texts": {"matches": [MATCH], **FOUND},
    "get_git_status": CLEAN,
    "read_workspace_changes": CHANGES,
}
NAMES = sorted(KINDS)


def needed(name: str) -> dict[str, Any]:
    """Returns the arguments that a call cannot do without."""
    return {"project": DEMO, **({"pattern": "clamp"} if name == "search_project_texts" else {})}


@pytest.fixture
def served(house: House) -> House:
    """A house whose Runner answers each of the tools."""
    for name, answer in ANSWERS.items():
        house.runner.answers[KINDS[name]] = answer
    return house


@requirement("R-41", "R-50", "R-52", "C-16")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("project", [DEMO, "demo"])
async def test_the_runner_is_asked_with_every_default_and_its_answer_is_told(
    name: str, project: str, served: House
) -> None:
    output = await served.output(name, **{**needed(name), "project": project})
    assert served.runner.asked == [(DEMO, KINDS[name], DEFAULTS[name])]
    assert output == {"project": DEMO, **ANSWERS[name]}


@requirement("R-52")
async def test_what_is_asked_for_reaches_the_runner_as_it_is(served: House) -> None:
    asked = {"path": "src", "globs": ["*.py", "!x"], "depth": 16, "limit": 1000, "cursor": "YS5weQ"}
    await served.output("list_project_files", project=DEMO, **asked)
    assert served.runner.asked == [(DEMO, "list_project_files", asked)]


@requirement("R-52")
@pytest.mark.parametrize("answer", [{"files": ["a.py"]}, {"counts": [{"path": "a.py", "count": 2}]}])
async def test_each_result_mode_has_a_list_of_its_own(answer: JsonObject, served: House) -> None:
    served.runner.answers["search_project_texts"] = {**answer, **FOUND}
    session = await served.session()
    output = await served.output("search_project_texts", **needed("search_project_texts"), recorder=session)
    assert {key: value for key, value in output.items() if not key.startswith("session_")} == {
        "project": DEMO,
        **answer,
        **FOUND,
    }
    assert (await recorded(served, session))[-1]["observed_paths"] == ["a.py"]


async def recorded(house: House, session: str) -> list[dict[str, Any]]:
    summary = await house.output("read_session_summary", session_id=session)
    return [event for event in summary["events"] if event.get("tool_name") in KINDS]


@requirement("S-10", "S-12")
@pytest.mark.parametrize(
    ("name", "summary", "more"),
    [
        ("list_project_files", "up to 200 entries, depth 4, 0 globs", {}),
        ("search_project_texts", "literal search, matches, 0 globs", {"observed_paths": ["a.py"]}),
        ("get_git_status", "Git status", {"git_like": True}),
        (
            "read_workspace_changes",
            "changes, 3 lines of context",
            {"git_like": True, "observed_paths": ["a.py"]},
        ),
    ],
)
async def test_a_recorded_call_tells_what_was_read_and_neither_texts_nor_patterns(
    name: str, summary: str, more: dict[str, Any], served: House
) -> None:
    session = await served.session()
    await served.output(name, **needed(name), recorder=session)
    started, finished = await recorded(served, session)
    assert started["input_summary"] == summary
    assert started.get("git_like") == finished.get("git_like") == more.get("git_like")
    assert {key: finished.get(key) for key in more} == more
    assert (finished["status"], finished["read_like"]) == ("succeeded", True)
    assert ("observed_paths" in finished) is ("observed_paths" in more)
    told = str([started, finished])
    assert not any(word in told for word in ("clamp", "secret", "src", ".env"))


@requirement("S-12")
async def test_no_more_than_201_paths_are_recorded(served: House) -> None:
    matches: list[JsonObject] = [{**MATCH, "path": f"{number:03}.py"} for number in range(300)] + [MATCH] * 5
    served.runner.answers["search_project_texts"] = {"matches": matches, **FOUND}
    session = await served.session()
    arguments = {**needed("search_project_texts"), "limit": 500}
    await served.output("search_project_texts", **arguments, recorder=session)
    finished = (await recorded(served, session))[-1]
    assert (len(finished["observed_paths"]), finished["observed_total"]) == (201, 301)


@requirement("M-13", "R-50", "R-52")
@pytest.mark.parametrize(
    ("name", "arguments", "word"),
    [
        ("list_project_files", {"depth": 0}, "invalid_arguments"),
        ("list_project_files", {"depth": 17}, "invalid_arguments"),
        ("list_project_files", {"limit": 0}, "invalid_arguments"),
        ("list_project_files", {"limit": 1001}, "invalid_arguments"),
        ("list_project_files", {"globs": ["*"] * 21}, "invalid_arguments"),
        ("list_project_files", {"globs": [""]}, "invalid_arguments"),
        ("list_project_files", {"cursor": ""}, "invalid_arguments"),
        ("list_project_files", {"cursor": "a b"}, "invalid_arguments"),
        ("list_project_files", {"path": "a" * 4097}, "invalid_path"),
        ("list_project_files", {"path": "a\0b"}, "invalid_path"),
        ("search_project_texts", {"pattern": ""}, "invalid_pattern"),
        ("search_project_texts", {"pattern": "é" * 513}, "invalid_pattern"),
        ("search_project_texts", {"pattern": "\ud800"}, "invalid_pattern"),
        ("search_project_texts", {"pattern": "\0"}, "invalid_pattern"),
        ("search_project_texts", {"pattern_mode": "glob"}, "invalid_arguments"),
        ("search_project_texts", {"result_mode": "all"}, "invalid_arguments"),
        ("search_project_texts", {"globs": ["*"] * 33}, "invalid_arguments"),
        ("search_project_texts", {"context": 81}, "invalid_arguments"),
        ("search_project_texts", {"context": -1}, "invalid_arguments"),
        ("search_project_texts", {"limit": 501}, "invalid_arguments"),
        ("search_project_texts", {"timeout_secs": 0}, "invalid_arguments"),
        ("search_project_texts", {"timeout_secs": 121}, "invalid_arguments"),
        ("read_workspace_changes", {"context": 11}, "invalid_arguments"),
        ("read_workspace_changes", {"cursor": "=" * 4}, "invalid_arguments"),
        ("get_git_status", {"project": ""}, "invalid_arguments"),
    ],
)
async def test_a_value_outside_its_bounds_is_refused_before_the_runner_is_asked(
    name: str, arguments: dict[str, Any], word: str, served: House
) -> None:
    refused = await served.refusal(name, **{**needed(name), **arguments})
    assert refused == {"error_kind": word, "state_changed": False, "recovery_kind": "fix_input"}
    assert served.runner.asked == []


@requirement("M-13")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list_project_files", {"depth": True}),
        ("list_project_files", {"limit": 1.0}),
        ("list_project_files", {"globs": "*"}),
        ("search_project_texts", {"pattern": None}),
        ("search_project_texts", {"case_sensitive": 1}),
        ("search_project_texts", {"pattern_mode": 1}),
        ("get_git_status", {"path": ""}),
        ("read_workspace_changes", {"project": None}),
    ],
)
async def test_a_wrong_structure_is_a_protocol_error(
    name: str, arguments: dict[str, Any], served: House
) -> None:
    with pytest.raises(BadArguments):
        await served.call(name, **{**needed(name), **arguments})
    assert served.runner.asked == []


@requirement("R-50", "R-52", "M-15")
@pytest.mark.parametrize(
    ("error", "word", "recovery"),
    [
        (ports.RunnerUnavailable(), "runner_unavailable", "wait"),
        (ports.RunnerTimeout(), "timeout", "retry_same"),
        (ports.RunnerRefused("invalid_path"), "invalid_path", "fix_input"),
        (ports.RunnerRefused("sensitive_path"), "sensitive_path", "fix_input"),
        (ports.RunnerRefused("not_found"), "not_found", "fix_input"),
        (ports.RunnerRefused("permission_denied"), "permission_denied", "user_action"),
        (ports.RunnerRefused("invalid_pattern"), "invalid_pattern", "fix_input"),
        (ports.RunnerRefused("project_root_replaced"), "project_root_replaced", "user_action"),
        (ports.RunnerRefused("agent_capability_unavailable"), "agent_capability_unavailable", "fix_input"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
async def test_what_the_runner_refuses_is_told_in_the_same_word(
    name: str, error: ports.RunnerError, word: str, recovery: str, served: House
) -> None:
    served.runner.answers[KINDS[name]] = error
    refused = await served.refusal(name, **needed(name))
    assert refused == {"error_kind": word, "state_changed": False, "recovery_kind": recovery}


@requirement("R-52")
async def test_where_git_fails_its_facts_are_unknown(served: House) -> None:
    served.runner.answers["git_status"] = ports.RunnerRefused("git_failed")
    assert await served.output("get_git_status", project=DEMO) == {
        "project": DEMO,
        **dict.fromkeys(("reason_code", "branch", "head", "dirty", "conflicted", "ahead", "behind")),
        "available": False,
        "entries": [],
        "truncated": False,
    }


@requirement("R-50", "C-11", "C-15")
@pytest.mark.parametrize("name", NAMES)
async def test_scope_and_project_decide_who_may_look(name: str, served: House) -> None:
    with pytest.raises(MissingScope):
        await served.call(name, by=user("ada", "project:write", "runtime:read"), **needed(name))
    await served.output(name, by=user("ada", "project:read"), **needed(name))
    foreign = await served.refusal(name, by=ADA, **{**needed(name), "project": FOREIGN})
    assert foreign["error_kind"] == "unknown_project"
    await served.output(name, by=BOOTSTRAP, **{**needed(name), "project": FOREIGN})


@requirement("M-19", "M-31")
def test_the_tools_are_listed_in_their_places_and_say_that_they_only_read() -> None:
    listed = [tool.name for tool in registry.listed(user("ada", "project:read"))]
    assert [name for name in listed if name in KINDS] == [
        "search_project_texts",
        "read_workspace_changes",
        "get_git_status",
        "list_project_files",
    ]
    for name in NAMES:
        tool = registry.find(name, Audience.MODEL)
        assert (tool.annotations.read_only, tool.annotations.destructive) == (True, False)
        assert len(tool.summary) <= 420
