"""Proves what Sessions and their ledgers do (30), on a real store."""

from typing import Any

import pytest

from tests.requirements import requirement
from tests.tools.house import ADA, BOOTSTRAP, DEMO, EVE, FOREIGN, OTHER, House, user
from webcodex.storage import projects
from webcodex.tools.contract import BadArguments

SUMMARY = "read_session_summary"
WORK: dict[str, Any] = {"project": DEMO, "instruction": "Implement clamp and test it"}


async def events(house: House, session_id: str, **arguments: Any) -> list[dict[str, Any]]:
    output = await house.output(SUMMARY, session_id=session_id, **arguments)
    listed: list[dict[str, Any]] = output["events"]
    return listed


@requirement("S-01", "S-02", "S-05", "S-11", "S-60", "C-15", "C-16")
async def test_work_creates_a_new_session_each_time(house: House) -> None:
    first = await house.output("work_on_project", **WORK)
    second = await house.output("work_on_project", **WORK)
    assert first["session_id"] != second["session_id"]
    assert first == {
        "session_id": first["session_id"],
        "session_ref": "~s1",
        "project": DEMO,
        "project_ref": "~p1",
        "continuation": "created",
        "mode": "checkout",
        "lifecycle": "active",
        "title": "Implement clamp and test it",
        "guards": {"deny_write_tools": False, "deny_shell_tools": False},
        "guidance": first["guidance"],
        "workspace": {"status": "unavailable", "branch": None, "head": None, "dirty": None},
    }
    assert (second["session_ref"], second["project_ref"]) == ("~s2", "~p1")


@requirement("S-10", "S-11", "S-60")
async def test_a_resume_appends_the_instruction_and_keeps_the_title(house: House) -> None:
    session = await house.session()
    resumed = await house.output(
        "work_on_project", project="~p1", instruction="  Now document it ", session_id="~s1"
    )
    assert resumed["continuation"] == "resumed_explicitly"
    assert (resumed["session_id"], resumed["title"]) == (session, "Implement clamp and test it")
    instructions = [event["instruction"] for event in (await events(house, session))[:2]]
    assert [(item["text"], item["continuation"]) for item in instructions] == [
        ("Implement clamp and test it", "created"),
        ("Now document it", "resumed_explicitly"),
    ]


@requirement("S-60")
async def test_a_resume_without_communication_read_names_no_goals(house: House) -> None:
    session = await house.session()
    resumed = await house.output(
        "work_on_project", by=user("ada", "runtime:read"), **WORK, session_id=session
    )
    assert "goal_reentry" not in resumed


@requirement("S-07", "S-60", "S-06")
@pytest.mark.parametrize("session_id", ["nonsense", "wc_goal_x", "wc_sess_"])
async def test_what_is_no_session_cannot_be_resumed(house: House, session_id: str) -> None:
    refused = await house.refusal("work_on_project", **WORK, session_id=session_id)
    assert refused["error_kind"] == "invalid_resume_session_id"


@requirement("S-06", "S-07", "S-67")
async def test_a_closed_session_stays_closed_and_readable(house: House) -> None:
    session = await house.session()
    closed = await house.output("close_session", session_id=session)
    assert closed == {
        "success": True,
        "session_id": session,
        "lifecycle": "closed",
        "already_closed": False,
        "updated_at": house.now,
    }
    house.now += 10
    again = await house.output("close_session", session_id=session)
    assert again == {**closed, "already_closed": True}
    refused = await house.refusal("work_on_project", **WORK, session_id=session)
    assert refused["error_kind"] == "invalid_resume_session_id"
    kinds = [event["kind"] for event in await events(house, session)]
    assert kinds == ["task_instruction", "session_closed", "tool_call_started"]


@requirement("S-60")
@pytest.mark.parametrize(
    ("target", "word"),
    [
        ({}, "invalid_arguments"),
        ({"client_id": "r1"}, "invalid_arguments"),
        ({"path": "/srv/demo"}, "invalid_arguments"),
        ({"project": DEMO, "client_id": "r1", "path": "/srv/demo"}, "invalid_arguments"),
        ({"project": DEMO, "base_ref": "main"}, "invalid_arguments"),
        ({"project": DEMO, "mode": "worktree", "base_ref": "main"}, "agent_capability_unavailable"),
        ({"project": DEMO, "mode": "branch"}, "invalid_arguments"),
        ({"client_id": "r1", "path": "/srv"}, "unknown_project"),
        ({"client_id": "r2", "path": "/srv/foreign"}, "unknown_project"),
        ({"project": "demo"}, "invalid_project"),
        ({"project": FOREIGN}, "unknown_project"),
        ({"project": "~p9"}, "unknown_project"),
        ({"project": "agent:r1:gone"}, "unknown_project"),
    ],
)
async def test_work_names_exactly_one_visible_project(
    house: House, target: dict[str, Any], word: str
) -> None:
    refused = await house.refusal("work_on_project", instruction="x", **target)
    assert (refused["error_kind"], refused["state_changed"]) == (word, False)
    assert (await house.output("list_sessions", project=DEMO))["total"] == 0


@requirement("S-60")
async def test_work_takes_a_runner_and_a_registered_root(house: House) -> None:
    output = await house.output(
        "work_on_project", instruction="x", client_id="r1", path="/srv/demo", guidance_profile="minimal"
    )
    assert output["project"] == DEMO
    assert output["guidance"]["profile"] == "minimal"


@requirement("S-60")
async def test_one_root_registered_twice_is_ambiguous(house: House) -> None:
    twice = [
        projects.Project(client_id="r1", project_id=name, path="/srv/demo", name=None, allow_patch=True)
        for name in ("demo", "copy")
    ]
    await house.database.write(lambda tx: projects.replace_inventory(tx, "r1", twice))
    refused = await house.refusal("work_on_project", instruction="x", client_id="r1", path="/srv/demo")
    assert refused["error_kind"] == "ambiguous_project"


@requirement("S-03", "S-60")
@pytest.mark.parametrize("instruction", ["", "   ", "x" * 4001, "a\0b", "\ud800"])
async def test_an_instruction_out_of_bounds_starts_nothing(house: House, instruction: str) -> None:
    refused = await house.refusal("work_on_project", project=DEMO, instruction=instruction)
    assert refused["error_kind"] == "invalid_coding_instruction"
    assert (await house.output("list_sessions", project=DEMO))["total"] == 0


@requirement("S-20", "S-22", "H-05", "S-75")
async def test_a_secret_in_an_instruction_never_reaches_the_file(house: House) -> None:
    secret = "wc_pat_" + "0123456789abcdef" * 4
    worked = await house.output("work_on_project", project=DEMO, instruction=f"use {secret} please")
    assert worked["title"] == "[redacted]"
    brief = (await house.output("read_session_handoff", session_id="~s1"))["handoff_brief"]
    assert brief["task"]["root_instruction"] == {"excerpt": "[redacted]", "truncated": True}
    house.database.close()
    kept = b"".join(path.read_bytes() for path in house.path.parent.iterdir())
    assert secret.encode() not in kept
    await house.reopen()


@requirement("C-16")
async def test_a_short_name_reads_but_must_be_unique(house: House) -> None:
    assert (await house.output("list_sessions", project="demo"))["project"] == DEMO
    assert (await house.refusal("list_sessions", project="gone"))["error_kind"] == "unknown_project"
    twin = projects.Project(client_id="r2", project_id="demo", path="/x", name=None, allow_patch=True)
    await house.database.write(lambda tx: projects.replace_inventory(tx, "r2", [twin]))
    refused = await house.refusal("list_sessions", by=BOOTSTRAP, project="demo")
    assert refused["error_kind"] == "ambiguous_project"
    assert (await house.output("list_sessions", project="demo"))["project"] == DEMO


@requirement("C-16", "C-15")
async def test_references_are_pinned_to_their_group(house: House) -> None:
    mine = await house.output("list_projects")
    assert [(row["project"], row["project_ref"]) for row in mine["projects"]] == [
        (DEMO, "~p1"),
        (OTHER, "~p2"),
    ]
    theirs = await house.output("list_projects", by=EVE)
    assert [(row["project"], row["project_ref"]) for row in theirs["projects"]] == [(FOREIGN, "~p1")]
    everything = await house.output("list_projects", by=BOOTSTRAP)
    assert len(everything["projects"]) == 3
    await house.reopen()
    assert await house.output("list_projects") == mine


@requirement("C-15")
async def test_a_disabled_project_is_not_visible(house: House) -> None:
    hidden = [
        projects.Project(
            client_id="r1", project_id="demo", path="/srv/demo", name=None, allow_patch=True, disabled=True
        )
    ]
    session = await house.session()
    await house.database.write(lambda tx: projects.replace_inventory(tx, "r1", hidden))
    assert (await house.output("list_projects"))["projects"] == []
    assert (await house.refusal(SUMMARY, session_id=session))["error_kind"] == "unknown_project"


@requirement("C-20", "S-02", "C-19", "S-70")
async def test_a_session_answers_to_its_group_only(house: House) -> None:
    session = await house.session()
    assert (await house.output(SUMMARY, by=user("ada", "runtime:read"), session_id="~s1"))[
        "session_id"
    ] == session
    for by, name, word in (
        (EVE, session, "unknown_project"),
        (BOOTSTRAP, session, "session_authority_denied"),
        (EVE, "~s1", "unknown_session_ref"),
        (ADA, "~s7", "unknown_session_ref"),
        (ADA, "wc_sess_gone", "unknown_session_id"),
        (ADA, "~s0", "invalid_session_id"),
        (ADA, "wc_goal_x", "invalid_session_id"),
    ):
        refused = await house.refusal(SUMMARY, by=by, session_id=name)
        assert (refused["error_kind"], refused["state_changed"]) == (word, False)
    assert (await house.refusal("list_sessions", by=EVE, project=DEMO))["error_kind"] == "unknown_project"
    assert (await house.output("list_sessions", by=BOOTSTRAP, project=DEMO))["total"] == 0


@requirement("S-62", "S-03")
async def test_sessions_list_newest_change_first_in_pages(house: House) -> None:
    made = []
    for number in range(5):
        house.now += 1
        made.append(await house.session(instruction=f"{number} " + "x" * 300))
    page = await house.output("list_sessions", project=DEMO, limit=2)
    assert [row["session_id"] for row in page["sessions"]] == [made[4], made[3]]
    assert (page["total"], page["offset"], page["next_offset"]) == (5, 0, 2)
    assert page["selection"] == "caller_must_choose_exact_session"
    row = page["sessions"][0]
    assert (len(row["title"]), row["title_truncated"]) == (240, True)
    last = await house.output("list_sessions", project=DEMO, limit=2, offset=4)
    assert (len(last["sessions"]), last["next_offset"]) == (1, None)
    await house.output("close_session", session_id=made[0])
    closed = await house.output("list_sessions", project=DEMO, lifecycle="closed")
    assert [row["session_id"] for row in closed["sessions"]] == [made[0]]


@requirement("S-61", "S-11", "S-02")
async def test_start_session_makes_an_empty_session(house: House) -> None:
    started = await house.output("start_session", project=DEMO, mode="read_only")
    assert started == {
        "session_id": started["session_id"],
        "session_ref": "~s1",
        "project": DEMO,
        "title": "Untitled session",
        "mode": "read_only",
        "guards": {"deny_write_tools": False, "deny_shell_tools": False},
        "lifecycle": "active",
        "created_at": house.now,
        "updated_at": house.now,
    }
    assert len(await events(house, started["session_id"])) == 1
    refused = await house.refusal("start_session", project="demo")
    assert refused["error_kind"] == "invalid_project"


@requirement("M-13")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "Missing argument: session_id"),
        ({"session_id": 1}, "Wrong type of argument: session_id"),
        ({"session_id": None}, "Wrong type of argument: session_id"),
        ({"session_id": "~s1", "planted": 1}, "Unknown argument"),
        ({"session_id": "~s1", "limit": True}, "Wrong type of argument: limit"),
        ({"session_id": "~s1", "limit": 1.0}, "Wrong type of argument: limit"),
    ],
)
async def test_a_structure_fault_names_only_keys_of_the_schema(
    house: House, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadArguments) as refused:
        await house.call(SUMMARY, **arguments)
    assert str(refused.value) == sentence


@requirement("M-13")
async def test_a_null_optional_argument_counts_as_absent(house: House) -> None:
    session = await house.session()
    assert (await house.output(SUMMARY, session_id=session, limit=None))["events_returned"] == 2
    assert (await house.refusal(SUMMARY, session_id=session, limit=0))["error_kind"] == "invalid_arguments"
