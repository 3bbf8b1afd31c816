"""Proves that no argument outside its bounds, and no secret, reaches a Goal (G-08, G-14, G-42)."""

from typing import Any, Final

from tests.requirements import requirement
from tests.tools.goal_desk import MANAGER, STEPS, change, created, refused, rows
from tests.tools.house import House
from webcodex.tools import errors, goal_params

SECRET: Final = "Bearer abcdefghijklmnop1234 🧪planted"
CANCEL: Final = {"lifecycle": "cancelled"}
REFUSED: Final[list[tuple[str, dict[str, Any], str]]] = [
    ("create_goal", {"title": ""}, "invalid_goal_title"),
    ("create_goal", {"title": "x" * 201}, "invalid_goal_title"),
    ("create_goal", {"title": "\ud800"}, "invalid_goal_title"),
    ("create_goal", {"objective": ""}, "invalid_goal_objective"),
    ("create_goal", {"objective": "é" * 4097}, "invalid_goal_objective"),
    ("create_goal", {"completion_conditions": ["x"] * 9}, "invalid_goal_plan"),
    ("create_goal", {"completion_conditions": ["é" * 257]}, "invalid_goal_plan"),
    ("create_goal", {"steps": [STEPS[0], STEPS[0]]}, "invalid_goal_plan"),
    ("create_goal", {"steps": [{"id": "a b", "title": "x"}]}, "invalid_goal_plan"),
    ("create_goal", {"idempotency_key": "  "}, "invalid_goal_idempotency_key"),
    ("create_goal", {"idempotency_key": "k" * 129}, "invalid_goal_idempotency_key"),
    ("create_goal", {"controller_agent_id": ""}, "agent_not_found"),
    ("update_goal", {"goal_id": "wc_goal_short"}, "invalid_goal_id"),
    ("update_goal", {"goal_id": "wc_goal_" + "A" * 32}, "invalid_goal_id"),
    ("update_goal", {"expected_revision": 0}, "invalid_goal_revision"),
    ("update_goal", {"lifecycle": "open"}, "invalid_goal_lifecycle"),
    ("update_goal", {}, "goal_update_empty"),
    ("update_goal", {"title": None}, "goal_update_empty"),
    ("update_goal", {"terminal_reason": "x"}, "goal_terminal_reason_requires_terminal_lifecycle"),
    (
        "update_goal",
        {"terminal_reason": "x", "lifecycle": "active", "title": "y"},
        "goal_terminal_reason_requires_terminal_lifecycle",
    ),
    (
        "update_goal",
        {"terminal_reason": "é" * 2049, "lifecycle": "cancelled"},
        "invalid_goal_terminal_reason",
    ),
    ("checkpoint_goal", {"summary": ""}, "invalid_goal_checkpoint"),
    ("checkpoint_goal", {"summary": "é" * 1025}, "invalid_goal_checkpoint"),
    ("checkpoint_goal", {"completed_step_ids": ["a", "a"]}, "invalid_goal_checkpoint"),
    ("checkpoint_goal", {"completed_step_ids": ["a"], "current_step_id": "a"}, "invalid_goal_checkpoint"),
    ("checkpoint_goal", {"completed_step_ids": ["nowhere"]}, "invalid_goal_checkpoint"),
    ("associate_goal_workflow_session", {"session_id": "wc_goal_x"}, "invalid_session_id"),
    ("list_goals", {"limit": 0}, "invalid_goal_list_limit"),
    ("list_goals", {"limit": 101}, "invalid_goal_list_limit"),
    ("list_goals", {"offset": -1}, "invalid_goal_list_offset"),
    ("list_goals", {"query": "x" * 201}, "invalid_goal_list_query"),
    ("list_goals", {"lifecycle": "open"}, "invalid_goal_lifecycle"),
    ("get_goal", {"goal_id": "x"}, "invalid_goal_id"),
]


def given(tool: str, goal: str, **changed: Any) -> dict[str, Any]:
    keyed = {"goal_id": goal, "expected_revision": 1, "idempotency_key": "new"}
    valid: dict[str, dict[str, Any]] = {
        "create_goal": {"title": "x", "objective": "x", "idempotency_key": "new"},
        "update_goal": keyed,
        "checkpoint_goal": {**keyed, "completed_step_ids": [], "summary": "x"},
        "associate_goal_workflow_session": {**keyed, "session_id": "~s1"},
        "list_goals": {},
        "get_goal": {"goal_id": goal},
    }
    return {**valid[tool], **changed}


@requirement("G-05", "G-14", "G-31", "G-42", "M-02")
async def test_a_value_outside_its_bounds_is_refused_by_its_word_and_writes_nothing(house: House) -> None:
    goal = await created(house)
    before = await rows(house)
    for tool, wrong, word in REFUSED:
        answer = await house.refusal(tool, by=MANAGER, **given(tool, goal, **wrong))
        answer.pop("suggested_call", None)
        assert answer == {"error_kind": word, "state_changed": False, "recovery_kind": "fix_input"}, wrong
    assert await rows(house) == before


@requirement("G-42")
def test_every_word_of_a_value_has_a_sentence() -> None:
    assert {errors.WORDS[word][1] for word in goal_params.WORDS.values()} == {"fix_input"}


@requirement("G-14", "G-20")
async def test_values_at_their_bounds_are_kept_as_they_are(house: House) -> None:
    most = {
        "title": "🧪" * 200,
        "objective": "é" * 4096,
        "completion_conditions": ["é" * 256] * 8,
        "steps": [{"id": f"{number:032}", "title": "é" * 120} for number in range(32)],
        "idempotency_key": "🧪" * 128,
    }
    made = (await change(house, "create_goal", **most))["goal"]
    assert made["summary"]["title"] == most["title"]
    assert made["objective"] == most["objective"]
    assert made["plan"]["completion_conditions"] == most["completion_conditions"]
    goal = made["summary"]["goal_id"]
    report = {"completed_step_ids": [f"{number:032}" for number in range(32)], "summary": "é" * 1024}
    moved = await change(house, "checkpoint_goal", goal_id=goal, expected_revision=1, **report)
    assert moved["goal"]["plan"]["progress_summary"] == report["summary"]
    end = {"lifecycle": "completed", "terminal_reason": "é" * 2048}
    ended = await change(house, "update_goal", goal_id=goal, expected_revision=2, **end)
    assert ended["goal"]["terminal_reason"] == end["terminal_reason"]


@requirement("G-14", "G-30")
async def test_a_plan_that_would_outgrow_the_store_is_refused_and_stays(house: House) -> None:
    wide = "\x01"
    conditions = [wide * 512] * 8
    goal = await created(house, completion_conditions=conditions, steps=[])
    steps = [{"id": f"s{number}", "title": wide * 120} for number in range(32)]
    made = {"title": "x", "objective": "x", "completion_conditions": conditions, "steps": steps}
    answer = await refused(house, "create_goal", idempotency_key="new", **made)
    assert (answer["error_kind"], answer["recovery_kind"]) == ("invalid_goal_plan", "fix_input")
    before = await rows(house)
    report = {"completed_step_ids": [], "summary": wide * 2048}
    answer = await refused(house, "checkpoint_goal", goal_id=goal, expected_revision=1, **report)
    assert (answer["error_kind"], answer["recovery_kind"]) == ("invalid_goal_plan", "fix_input")
    assert await rows(house) == before


@requirement("G-08", "S-21")
async def test_a_secret_is_refused_by_its_fields_word_and_never_reaches_the_file(house: House) -> None:
    goal = await created(house)
    for tool, wrong, word in (
        ("create_goal", {"title": SECRET}, "invalid_goal_title"),
        ("create_goal", {"objective": SECRET}, "invalid_goal_objective"),
        ("create_goal", {"completion_conditions": [SECRET]}, "invalid_goal_plan"),
        ("create_goal", {"steps": [{"id": "a", "title": SECRET}]}, "invalid_goal_plan"),
        ("create_goal", {"steps": [{"id": "sk-abcdefghijklmnop", "title": "x"}]}, "invalid_goal_plan"),
        ("update_goal", {"title": SECRET}, "invalid_goal_title"),
        ("update_goal", {"objective": SECRET}, "invalid_goal_objective"),
        (
            "update_goal",
            {"lifecycle": "cancelled", "terminal_reason": SECRET},
            "invalid_goal_terminal_reason",
        ),
        ("checkpoint_goal", {"summary": SECRET}, "invalid_goal_checkpoint"),
    ):
        answer: Any = await house.call(tool, by=MANAGER, **given(tool, goal, **wrong))
        assert answer["output"]["error_kind"] == word, tool
        assert "planted" not in str(answer)
    await change(house, "create_goal", title="x", objective="see wc_agent_task_abc", idempotency_key=SECRET)
    house.database.close()
    stored = b"".join(path.read_bytes() for path in house.path.parent.iterdir())
    assert "🧪planted".encode() not in stored
    assert b"see wc_agent_task_abc" in stored
    await house.reopen()
