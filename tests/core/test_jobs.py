"""Proves the tables of Jobs cell by cell, and that a log is told whole or said to be incomplete."""

import base64
import hashlib
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.core import job_log, job_recovery, jobs
from webcodex.core.handoff_facts import JobPurpose
from webcodex.core.job_log import Log, Position, Seen
from webcodex.core.job_recovery import Holding, Inventory, Registrant, Verdict
from webcodex.core.jobs import Event, Job, Report, State

JOB = Job(
    job_id="wc_job_1",
    client_id="r1",
    project="agent:r1:demo",
    purpose=JobPurpose.WORK,
    state=State.RUNNING,
    created_at=1,
    timeout_secs=60,
    request_hash="h",
    call_id="wc_call_1",
    connection_id="c1",
    instance_id="i1",
    store_id="s1",
    update_seq=5,
)
ENDS = {State.COMPLETED, State.FAILED, State.STOPPED, State.TIMED_OUT, State.LOST}


def report(state: State, update_seq: int = 6) -> Report:
    return Report(
        job_id=JOB.job_id,
        state=state,
        exit_code=0 if state is State.COMPLETED else None,
        signal=None,
        started_at=2,
        finished_at=3,
        update_seq=update_seq,
        reason_code=None,
        log=Log(tail="new\n", next_line=2),
    )


@requirement("R-61")
@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_each_step_is_one_of_these_and_no_other(state: State, event: Event) -> None:
    order = [State.QUEUED, State.AGENT_QUEUED, State.RUNNING, State.STOP_REQUESTED]
    is_waiting = state is State.RECOVERING
    expected: State | None = None
    if state in order or is_waiting:
        reported = {told: moved for moved, told in jobs.REPORTABLE.items()}.get(event)
        is_ahead = reported in ENDS or is_waiting
        if reported is not None and (is_ahead or order.index(reported) > order.index(state)):
            expected = reported
        elif event is Event.RULED_LOST:
            expected = State.LOST
        elif event is Event.CONTACT_LOST and not is_waiting:
            expected = State.RECOVERING
        elif event is Event.START_REFUSED and state is State.QUEUED:
            expected = State.CANCELLED
    assert jobs.advance(replace(JOB, state=state), event) is expected


@requirement("R-61")
def test_the_states_without_exits_are_the_terminal_ones() -> None:
    assert ENDS | {State.CANCELLED} == jobs.TERMINAL
    assert jobs.ACTIVE | {State.RECOVERING} == set(State) - jobs.TERMINAL


@requirement("R-61")
@pytest.mark.parametrize("update_seq", [1, 5])
def test_an_old_snapshot_moves_nothing(update_seq: int) -> None:
    assert jobs.reported(JOB, report(State.COMPLETED, update_seq)) is None


@requirement("R-61", "R-64")
@pytest.mark.parametrize("end", sorted(jobs.TERMINAL))
def test_an_end_stays_whatever_is_reported_later(end: State) -> None:
    over = replace(JOB, state=end, reason_code="runner_instance_replaced")
    for state in jobs.REPORTABLE:
        moved = jobs.reported(over, report(state))
        assert moved is None or moved.state is end
    assert jobs.ruled_lost(over, "x", at=9) is None
    assert jobs.out_of_contact(over, until=9) is None


@requirement("R-64")
def test_a_presumed_end_is_corrected_once_by_a_proven_one() -> None:
    waiting = jobs.out_of_contact(JOB, until=100)
    assert waiting is not None
    assert (waiting.state, waiting.recover_until) == (State.RECOVERING, 100)
    presumed = jobs.ruled_lost(waiting, jobs.DEADLINE_EXCEEDED, at=100)
    assert presumed is not None
    assert (presumed.state, presumed.finished_at, presumed.recover_until) == (State.LOST, 100, None)
    assert jobs.reported(presumed, report(State.RUNNING)) is None
    corrected = jobs.reported(replace(presumed, is_observed=True), report(State.COMPLETED))
    assert corrected is not None
    assert (corrected.state, corrected.exit_code, corrected.is_observed) == (State.COMPLETED, 0, False)
    again = jobs.reported(corrected, report(State.FAILED, 7))
    assert again is None


EXPECTED = {
    (Registrant.SAME_INSTANCE, Holding.ACTIVE): (State.RUNNING, None),
    (Registrant.SAME_INSTANCE, Holding.ENDED): (State.COMPLETED, None),
    (Registrant.SAME_INSTANCE, Holding.ABSENT): (State.LOST, "runner_inventory_missing"),
    (Registrant.SAME_INSTANCE, Holding.ABSENT_FROM_A_PART): None,
    (Registrant.SAME_STORE, Holding.ENDED): (State.COMPLETED, None),
}
REPLACED = (State.LOST, "runner_instance_replaced")


@requirement("R-64")
@pytest.mark.parametrize(("who", "held"), list(product(Registrant, Holding)))
def test_each_cell_of_the_recovery_table(who: Registrant, held: Holding) -> None:
    reports = {Holding.ACTIVE: report(State.RUNNING), Holding.ENDED: report(State.COMPLETED)}
    inventory = Inventory(
        instance_id="i1" if who is Registrant.SAME_INSTANCE else "i2",
        store_id="s2" if who is Registrant.OTHER else "s1",
        is_complete=held is not Holding.ABSENT_FROM_A_PART,
        reports={JOB.job_id: reports[held]} if held in reports else {},
    )
    waiting = replace(JOB, state=State.RECOVERING, recover_until=50)
    ruled = job_recovery.reconciled([waiting], inventory, at=40, wait_until=160)
    expected = EXPECTED.get((who, held), REPLACED)
    assert [(job.state, job.reason_code) for job in ruled] == ([] if expected is None else [expected])
    over = [replace(JOB, state=State.STOPPED), replace(JOB, state=State.LOST, reason_code="other")]
    assert job_recovery.reconciled(over, inventory, at=40, wait_until=160) == []
    presumed = replace(JOB, state=State.LOST, reason_code=jobs.DEADLINE_EXCEEDED)
    corrected = job_recovery.reconciled([presumed], inventory, at=40, wait_until=160)
    is_told = held is Holding.ENDED and who is not Registrant.OTHER
    assert [job.state for job in corrected] == ([State.COMPLETED] if is_told else [])


@requirement("R-64")
def test_no_verdict_starts_anything() -> None:
    assert set(job_recovery.TABLE) == set(product(Registrant, Holding))
    words = {Verdict.AS_REPORTED, Verdict.WAIT, Verdict.LOST_MISSING, Verdict.LOST_REPLACED}
    assert set(Verdict) == words
    assert all(State.QUEUED not in exits.values() for exits in jobs.TRANSITIONS.values())


@requirement("R-64", "R-48")
def test_an_inventory_leaves_the_revision_so_that_the_log_still_comes() -> None:
    end = replace(report(State.COMPLETED, 9), log=Log(tail="old\nnew\n", next_line=3))
    in_inventory = replace(end, log=replace(end.log, tail=""))
    found = jobs.found(replace(JOB, log=Log(tail="old\n", next_line=2)), in_inventory)
    assert found is not None
    assert (found.state, found.update_seq, found.log.tail) == (State.COMPLETED, 5, "old\n")
    shown = job_log.news(found.log, found.update_seq, job_log.unseen(JOB.job_id), most_bytes=100)
    assert (shown.text, shown.has_more) == ("old\n", True)
    told = jobs.reported(found, end)
    assert told is not None
    assert (told.state, told.update_seq, told.log) == (State.COMPLETED, 9, end.log)
    shown = job_log.news(told.log, told.update_seq, job_log.unseen(JOB.job_id), most_bytes=100)
    assert (shown.text, shown.has_more) == ("old\nnew\n", False)


@requirement("R-57")
def test_a_key_names_one_job_of_one_principal_and_project() -> None:
    one = jobs.id_of_key("ada", "agent:r1:demo", "k")
    digest = hashlib.sha256(b"ada\0agent:r1:demo\0k").digest()
    assert one == "wc_job_" + base64.urlsafe_b64encode(digest).decode()[:16]
    others = {
        jobs.id_of_key("eve", "agent:r1:demo", "k"),
        jobs.id_of_key("ada", "agent:r1:other", "k"),
        jobs.id_of_key("ada", "agent:r1:demo", "k2"),
    }
    assert len(others | {one}) == 4
    assert jobs.id_of_call("wc_call_abcdefghijklmnop") == "wc_job_abcdefghijklmnop"


PIECES = st.lists(st.text(alphabet="ab\n\u00e4\u0001", max_size=12), max_size=12)


@requirement("R-61", "R-63")
@given(pieces=PIECES, most=st.integers(3, 30), budget=st.integers(8, 40))
def test_an_observer_misses_nothing_without_being_told(pieces: list[str], most: int, budget: int) -> None:
    whole, seen, was_lost = "", "", False
    token = job_log.token(job_log.unseen("wc_job_1"))
    for update_seq, piece in enumerate(pieces, start=1):
        whole += piece
        log = _kept(whole, most)
        while True:
            news = job_log.news(log, update_seq, job_log.read_token(token, "wc_job_1"), most_bytes=budget)
            if news.history_lost:
                was_lost, seen = True, ""
            seen += news.text
            token = _token(news.through, update_seq)
            if not news.has_more:
                break
        assert whole.endswith(log.tail if was_lost else seen)
        if not was_lost:
            assert seen == whole
        assert len(news.text.encode()) <= budget
    if len(whole) <= most:
        assert seen == whole
        assert not was_lost


def _kept(whole: str, most: int) -> Log:
    tail = whole[-most:]
    first = whole.count("\n") - tail.count("\n") + 1
    return Log(
        tail=tail,
        first_retained_line=first,
        next_line=whole.count("\n") + 1,
        truncated=len(whole) > most,
    )


def _token(position: Position, update_seq: int) -> str:
    seen = Seen(job_id="wc_job_1", update_seq=update_seq, state="running", position=position)
    token = job_log.token(seen)
    assert len(token) <= job_log.TOKEN_CHARS
    assert job_log.read_token(token, "wc_job_1") == seen
    return token


@requirement("R-63")
@pytest.mark.parametrize(
    "text", ["", "x", "====", "W10", "eyJhIjoxfQ", "WzEsMiwzLDQsNV0", "a" * 191, "\u00e4", "[" * 150]
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(job_log.BadToken):
        job_log.read_token(text, "wc_job_1")


@requirement("R-63")
def test_a_token_is_of_one_job() -> None:
    token = job_log.token(Seen(job_id="wc_job_1", update_seq=1, state="running", position=Position()))
    with pytest.raises(job_log.BadToken):
        job_log.read_token(token, "wc_job_2")
