"""Proves ``edit_project_files`` on the Server: what is asked, refused, recorded and counted (R-54, R-56)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.requirements import requirement
from tests.tools import evidence_desk
from tests.tools.evidence_desk import HASH, edits, handoff, newest_event
from tests.tools.house import ADA, DEMO, House
from webcodex.core.json_value import JsonObject
from webcodex.storage import changes, projects
from webcodex.storage.database import OutcomeUnknown, StoreUnavailable, Transaction, Work
from webcodex.tools import ports, recording, registry
from webcodex.tools.contract import Audience, BadArguments, Call

EDIT = "edit_project_files"
SECRET_PATH = "logs/sk-abcdEFGH01234567"


async def counter(house: House) -> int:
    return await house.database.read(lambda tx: changes.counter(tx, DEMO))


async def is_settled(house: House) -> bool:
    """Says that no change call is open, which a start would count once more."""
    before = await counter(house)
    await house.database.write(changes.settle_unfinished)
    return await counter(house) == before


@requirement("R-54", "R-55", "S-10", "S-12", "S-42", "H-08", "H-32")
async def test_an_edit_is_asked_told_recorded_and_counted(house: House) -> None:
    session = await house.session()
    house.runner.answers[EDIT] = evidence_desk.applied
    created: dict[str, Any] = {
        "path": "new.py",
        "op": "create",
        "expected_sha256": None,
        "content": "planted",
    }
    replaced: dict[str, Any] = {
        "path": "a.py",
        "op": "replace",
        "expected_sha256": HASH,
        "replacements": [{"old": "planted", "new": "y"}],
    }
    deleted: dict[str, Any] = {"path": "b.py", "op": "delete", "expected_sha256": HASH}
    given = {"project": DEMO, "edits": [created, replaced, deleted], "idempotency_key": " k "}
    answer = await house.output(EDIT, session_id=session, **given)
    assert answer["changed_paths"] == ["new.py", "a.py", "b.py"]
    replaced = {**replaced, "replacements": [{"old": "planted", "new": "y", "count": 1}]}
    assert house.runner.asked[-1] == (
        DEMO,
        EDIT,
        {"edits": [created, replaced, deleted], "idempotency_key": "k"},
    )
    event = await newest_event(house, session)
    assert (event["write_like"], event["changed_paths"]) == (True, ["new.py", "a.py", "b.py"])
    events = (await house.output("read_session_summary", session_id=session))["events"]
    assert events[1]["input_summary"] == "1 create, 1 replace, 1 delete"
    assert "planted" not in str(events)
    assert (await counter(house), await is_settled(house)) == (1, True)
    shown = await handoff(house, session)
    assert shown["handoff_brief"]["progress"]["changes"]["items"] == ["new.py", "a.py", "b.py"]
    assert shown["acceptance"]["reason_codes"] == ["validation_not_run"]


@requirement("R-54", "M-13", "C-22")
@pytest.mark.parametrize(
    "changed",
    [
        {"edits": []},
        {"edits": edits("a") * 17},
        {"edits": [{**edits("a")[0], "expected_sha256": None}]},
        {"edits": [{**edits("a")[0], "expected_sha256": "A" * 64}]},
        {"edits": [{**edits("a")[0], "op": "create"}]},
        {"edits": [{**edits("a")[0], "op": "delete"}]},
        {"edits": [{**edits("a")[0], "op": "move"}]},
        {"edits": [{**edits("a")[0], "content": None}]},
        {"edits": [{"path": "a", "op": "replace", "expected_sha256": HASH}]},
        {"edits": [{"path": "a", "op": "replace", "expected_sha256": HASH, "replacements": []}]},
        {"edits": edits("a"), "idempotency_key": " "},
        {"edits": edits("a"), "idempotency_key": "k" * 129},
    ],
)
async def test_a_value_out_of_bounds_is_refused_and_nobody_is_asked(
    house: House, changed: dict[str, Any]
) -> None:
    refused = await house.refusal(EDIT, project=DEMO, **changed)
    assert (refused["error_kind"], refused["state_changed"]) == ("invalid_arguments", False)
    assert house.runner.asked == []


@requirement("R-54", "M-13")
@pytest.mark.parametrize("missing", ["path", "op", "expected_sha256"])
async def test_an_edit_without_a_key_is_a_structure_fault(house: House, missing: str) -> None:
    edit = {key: value for key, value in edits("a")[0].items() if key != missing}
    with pytest.raises(BadArguments, match=f"Missing argument: edits.{missing}"):
        await house.call(EDIT, project=DEMO, edits=[edit])


@requirement("R-54", "R-56")
async def test_contents_beyond_their_bytes_are_refused_before_the_runner_is_asked(house: House) -> None:
    mebibyte = 1024 * 1024
    at_bound = {"op": "write", "expected_sha256": HASH, "content": "x" * mebibyte}
    for given in (
        [{**edits("a")[0], "content": "é" * (mebibyte // 2) + "x"}],
        [{"path": str(number), **at_bound} for number in range(3)] + edits("a"),
    ):
        refused = await house.refusal(EDIT, project=DEMO, edits=given)
        assert (refused["error_kind"], refused["recovery_kind"]) == ("edit_too_large", "fix_input")
    house.runner.answers[EDIT] = evidence_desk.applied
    await house.output(EDIT, project=DEMO, edits=[{"path": str(number), **at_bound} for number in range(3)])
    assert await counter(house) == 1


@requirement("C-17", "R-56", "S-52")
async def test_a_project_that_allows_no_edits_refuses_before_anything_is_written(house: House) -> None:
    session = await house.session()
    closed = projects.Project(
        client_id="r1", project_id="demo", path="/srv/demo", name="demo", allow_patch=False
    )
    await house.database.write(lambda tx: projects.replace_inventory(tx, "r1", [closed]))
    refused = await house.refusal(EDIT, project=DEMO, edits=edits("a"), session_id=session)
    assert (refused["error_kind"], refused["recovery_kind"]) == ("policy_rejected", "user_action")
    assert (await house.output("read_session_summary", session_id=session))["events_total"] == 2


@requirement("S-08", "S-07", "S-52", "S-77")
async def test_guards_and_a_closed_session_refuse_and_no_counter_moves(house: House) -> None:
    house.runner.answers[EDIT] = evidence_desk.applied
    for guarded, guard in (
        ({"mode": "read_only"}, "read_only"),
        ({"guards": {"deny_write_tools": True, "deny_shell_tools": False}}, "deny_write_tools"),
    ):
        session = (await house.output("start_session", project=DEMO, **guarded))["session_id"]
        refused = await house.refusal(EDIT, project=DEMO, edits=edits("a"), session_id=session)
        assert (refused["error_kind"], refused["guard"]) == ("session_guard_denied", guard)
        assert (await newest_event(house, session))["error_kind"] == "session_guard_denied"
    session = await house.session()
    await house.output("close_session", session_id=session)
    refused = await house.refusal(EDIT, project=DEMO, edits=edits("a"), session_id=session)
    assert refused["error_kind"] == "session_closed"
    assert (await counter(house), house.runner.asked[1:]) == (0, [])


@requirement("R-56", "S-42")
@pytest.mark.parametrize(
    ("code", "details", "recovery"),
    [
        (
            "edit_precondition_failed",
            {"failed": [{"index": 0, "path": "a", "reason": "sha_mismatch", "actual_sha256": HASH}]},
            "reobserve",
        ),
        ("edit_text_not_found", {}, "fix_input"),
        ("edit_text_ambiguous", {}, "fix_input"),
        ("edit_too_large", {}, "fix_input"),
        ("duplicate_edit_path", {}, "fix_input"),
        ("invalid_path", {}, "fix_input"),
        ("sensitive_path", {}, "fix_input"),
        ("path_conflict", {}, "fix_input"),
        ("invalid_utf8", {}, "fix_input"),
        ("path_changed", {}, "reobserve"),
        ("policy_rejected", {}, "user_action"),
        ("idempotency_conflict", {}, "fix_input"),
        ("idempotency_capacity", {}, "wait"),
        ("agent_capability_unavailable", {}, "fix_input"),
    ],
)
async def test_a_refusal_of_the_runner_keeps_its_word_and_what_it_adds(
    house: House, code: str, details: JsonObject, recovery: str
) -> None:
    house.runner.answers[EDIT] = ports.RunnerRefused(code, details={**details, "planted": 1})
    refused = await house.refusal(EDIT, project=DEMO, edits=edits("a"))
    assert refused == {
        "error_kind": code,
        "state_changed": False,
        "recovery_kind": recovery,
        **details,
    }
    assert (await counter(house), await is_settled(house)) == (0, True)


@requirement("R-56", "S-42", "S-12")
@pytest.mark.parametrize("code", ["edit_partially_applied", "edit_recovery_diverged"])
async def test_files_that_were_left_changed_are_recorded_as_changes(house: House, code: str) -> None:
    session = await house.session()
    left = [{"path": "a.py", "state": "other", "backup": ".a.bak"}]
    house.runner.answers[EDIT] = ports.RunnerRefused(code, details={"paths": left})
    refused = await house.refusal(EDIT, project=DEMO, edits=edits("a.py", "b.py"), session_id=session)
    assert (refused["error_kind"], refused["state_changed"], refused["paths"]) == (code, True, left)
    assert (await newest_event(house, session))["changed_paths"] == ["a.py"]
    assert await counter(house) == 1


@requirement("R-56", "S-12", "S-42", "S-24", "M-15")
@pytest.mark.parametrize(
    "answer",
    [
        ports.RunnerOutcomeUnknown(),
        ports.RunnerTimeout(),
        ports.RunnerRefused("edit_outcome_unknown"),
        ports.RunnerRefused("planted_word"),
        {"applied": True},
    ],
)
async def test_a_lost_answer_names_its_targets_and_never_as_changed(
    house: House, answer: ports.RunnerError | JsonObject
) -> None:
    session = await house.session()
    house.runner.answers[EDIT] = answer
    targets = ("a.py", "/etc/planted", SECRET_PATH)
    refused = await house.refusal(EDIT, project=DEMO, edits=edits(*targets), session_id=session)
    assert refused == {
        "error_kind": "edit_outcome_unknown",
        "state_changed": None,
        "recovery_kind": "reconcile",
        "failure_kind": "outcome_unknown",
        "execution_state": "outcome_unknown",
        "paths": list(targets),
    }
    event = await newest_event(house, session)
    assert (event["status"], event["error_kind"]) == ("failed", "edit_outcome_unknown")
    assert (event["execution_state"], event["observed_paths"]) == ("outcome_unknown", ["a.py"])
    assert (event["observed_total"], event["paths_truncated"]) == (3, True)
    assert "changed_paths" not in event
    assert (await counter(house), await is_settled(house)) == (1, True)


@requirement("R-57", "S-42")
async def test_a_replayed_answer_is_told_and_proves_the_change(house: House) -> None:
    session = await house.session()

    async def replayed(body: Mapping[str, Any]) -> JsonObject:
        return {**await evidence_desk.applied(body), "replayed": True, "state_changed": False}

    house.runner.answers[EDIT] = replayed
    given = {"project": DEMO, "edits": edits("a.py"), "idempotency_key": "k", "session_id": session}
    assert (await house.output(EDIT, **given))["replayed"] is True
    assert (await newest_event(house, session))["changed_paths"] == ["a.py"]
    assert await counter(house) == 1  # the first call may have died uncounted, with its Server


@requirement("S-42", "S-12")
async def test_a_call_given_up_while_the_runner_works_counts_as_unknown(house: House) -> None:
    session = await house.session()
    asked = asyncio.Event()

    async def never(_body: Mapping[str, Any]) -> JsonObject:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    house.runner.answers[EDIT] = never
    call = asyncio.create_task(house.call(EDIT, project=DEMO, edits=edits("a.py"), session_id=session))
    async with asyncio.timeout(5):
        await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    event = await newest_event(house, session)
    assert (event["execution_state"], event["observed_paths"]) == ("outcome_unknown", ["a.py"])
    assert (await counter(house), await is_settled(house)) == (1, True)


class _FailingStore:
    """Loses the write that ends a call, and then is well again."""

    def __init__(self, house: House, failure: Exception) -> None:
        self._database, self._failure = house.database, failure
        self.writes = 0
        self.settled = asyncio.Event()

    async def read(self, work: Work[Any]) -> Any:
        return await self._database.read(work)

    async def write(self, work: Work[Any]) -> Any:
        self.writes += 1
        if self.writes == 2:
            raise self._failure
        done = await self._database.write(work)
        if self.writes > 2:
            self.settled.set()
        return done

    def close(self) -> None:
        self._database.close()


@requirement("S-42", "S-14", "M-15")
@pytest.mark.parametrize("failure", [StoreUnavailable("full"), OutcomeUnknown("commit")])
async def test_a_change_whose_end_is_not_stored_is_unknown_and_counted_soon(
    house: House, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    monkeypatch.setattr(recording, "SETTLE_AFTER_S", (0.01,))
    house.runner.answers[EDIT] = evidence_desk.applied
    store = _FailingStore(house, failure)
    well = house.services
    services = ports.Services(database=store, runners=well.runners, now=well.now, entropy=well.entropy)
    call = Call(
        caller=ADA, audience=Audience.ADAPTER, name=EDIT, arguments={"project": DEMO, "edits": edits("a")}
    )
    answer = await registry.invoke(services, call)
    output = answer["output"]
    assert isinstance(output, dict)
    assert (output["error_kind"], output["state_changed"]) == ("internal_error", None)
    async with asyncio.timeout(5):
        await store.settled.wait()
    assert (await counter(house), await is_settled(house)) == (1, True)


@requirement("S-42")
async def test_every_open_change_is_counted_once_and_an_ended_one_never_again(house: House) -> None:
    def begin(tx: Transaction) -> None:
        for number in range(3):
            changes.begin(tx, call_id=f"wc_call_{number}", project=DEMO, at=1)
        changes.end(tx, call_id="wc_call_0", project=DEMO, raises=False)
        changes.end_unknown(tx, call_id="wc_call_0")

    await house.database.write(begin)
    assert await counter(house) == 0
    assert await house.database.write(changes.settle_unfinished) == 2
    assert await house.database.write(changes.settle_unfinished) == 0
    assert await counter(house) == 2
