"""Proves what the SQLite engine promises: durable, grouped, isolated, bounded."""

import asyncio
import multiprocessing
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import autogenerate, migration
from sqlalchemy import create_engine, inspect, select, text

from tests.requirements import requirement
from tests.tools.house import House, report
from webcodex.core import limits
from webcodex.core.observations import Report
from webcodex.storage import (
    database,
    migrate,
    observations,
    schema,
    schema_evidence,
    schema_goals,
    schema_jobs,
    sessions,
)
from webcodex.storage.engine import SqliteDatabase

SCHEMAS = (schema, schema_evidence, schema_jobs, schema_goals)  # each adds its tables to one METADATA

NO_MORE_ENDS = """
    CREATE TRIGGER no_more_ends BEFORE INSERT ON wc_session_events
    WHEN NEW.event LIKE '%tool_call_finished%' BEGIN SELECT RAISE(ABORT, 'no more ends'); END
"""


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = await House(tmp_path).furnish()
    yield made
    made.database.close()


@requirement("O-09")
def test_migrations_lead_to_exactly_the_declared_tables(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/fresh.db")
    with engine.begin() as connection:
        migrate.migrate(connection)
        context = migration.MigrationContext.configure(connection)
        assert autogenerate.compare_metadata(context, schema.METADATA) == []
        assert migrate.present_revision(connection) == schema.REVISION
        columns = [column["name"] for column in inspect(connection).get_columns("wc_external_observations")]
    engine.dispose()
    assert sorted(columns) == sorted(
        ["session_id", "project", "adapter_id", "event_id", "tool", "exit_code", "recorded_at"]
    )


@requirement("O-09")
def test_a_database_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "webcodex.db"
    SqliteDatabase(path).close()
    raw = sqlite3.connect(path)
    raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.commit()
    raw.close()
    with pytest.raises(migrate.UnknownSchema, match="newer release"):
        SqliteDatabase(path)


@requirement("O-09")
async def test_acknowledged_writes_are_synchronous_and_logged_ahead(house: House) -> None:
    modes = await house.database.write(
        lambda tx: [tx.one(text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous")]
    )
    assert [row[0] for row in modes if row is not None] == ["wal", 2]


@requirement("O-16")
async def test_a_failing_job_undoes_itself_alone(house: House) -> None:
    session = await house.session()

    def spoil(tx: database.Transaction) -> None:
        observations.record(tx, _report(session, 1), 5)
        raise KeyError("spoiled")

    outcomes = await asyncio.gather(
        house.output("record_external_observation", **report(session, 2)),
        house.database.write(spoil),
        house.output("record_external_observation", **report(session, 3)),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], KeyError)
    stored = await house.database.read(lambda tx: observations.listed(tx, session, "agent:r1:demo"))
    assert [int(row.report.event_id, 16) for row in stored] == [2, 3]
    assert (await house.output("record_external_observation", **report(session, 1)))["inserted"] is True


@requirement("O-16", "O-28")
async def test_a_lost_group_is_run_again_alone_and_answers_truly(house: House) -> None:
    session = await house.session()
    gate = threading.Event()

    def wait(_tx: database.Transaction) -> None:
        gate.wait(10)

    def end_the_transaction(tx: database.Transaction) -> None:
        tx.change(text("ROLLBACK"))
        raise database.StoreUnavailable("the disk is full")

    held = asyncio.ensure_future(house.database.write(wait))
    await asyncio.sleep(0)
    group = [
        asyncio.ensure_future(house.output("record_external_observation", **report(session, 1))),
        asyncio.ensure_future(house.database.write(end_the_transaction)),
        asyncio.ensure_future(house.output("record_external_observation", **report(session, 2))),
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    gate.set()
    await held
    first, lost, second = await asyncio.gather(*group, return_exceptions=True)
    assert isinstance(lost, database.StoreUnavailable)
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (first["inserted"], second["inserted"]) == (True, True)
    assert await house.database.read(lambda tx: observations.count(tx, session)) == 2


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@requirement("O-15", "O-18", "O-28")
async def test_a_database_locked_by_another_program_answers_uncertain_and_a_replay_works(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await house.session()
    monkeypatch.setattr(limits, "STORE_LOCK_WAIT_S", 0.05)
    await house.reopen()
    with _locked(house.path):
        answers = await asyncio.gather(
            *(house.call("record_external_observation", **report(session, event)) for event in range(4))
        )
    for answer in answers:
        assert answer["output"] == {
            "error_kind": "external_observation_storage_uncertain",
            "state_changed": None,
            "recovery_kind": "retry_same",
            "failure_kind": "outcome_unknown",
            "retry_same_event_identity": True,
            "recovery": "Send the same report again; an exact replay is never stored twice.",
        }
    for event in range(4):
        stored = await house.output("record_external_observation", **report(session, event))
        assert stored["inserted"] is True


@requirement("O-18", "O-28", "H-02", "H-61")
async def test_a_missing_table_is_a_typed_error_and_the_brief_says_so(house: House) -> None:
    session = await house.session()
    before = (await house.output("get_session_handoff_state", project="agent:r1:demo", session_id=session))[
        "handoff_brief"
    ]
    await house.database.write(lambda tx: tx.change(text("DROP TABLE wc_external_observations")))
    refused = await house.refusal("record_external_observation", **report(session))
    assert refused["error_kind"] == "external_observation_storage_uncertain"
    refused = await house.refusal("list_external_observations", project="agent:r1:demo", session_id=session)
    assert refused == {
        "error_kind": "external_observation_store_unavailable",
        "state_changed": False,
        "recovery_kind": "reobserve",
    }
    after = (await house.output("get_session_handoff_state", project="agent:r1:demo", session_id=session))[
        "handoff_brief"
    ]
    assert after["external_observations"] == {
        "status": "unavailable",
        "reason_code": "store_unavailable",
        "provenance": "external_report",
        "coverage": {
            "complete": False,
            "reason": "read_unavailable",
            "ordering": "server_recorded_at_then_identity",
        },
        "total": None,
        "returned": None,
        "truncated": None,
        "unknown_count": None,
        "observations": None,
    }
    del before["external_observations"], after["external_observations"]
    assert before == after


@requirement("H-32", "H-33")
async def test_an_unreadable_ledger_makes_the_acceptance_unknown(house: House) -> None:
    session = await house.session()
    await house.database.write(lambda tx: tx.change(text("DROP TABLE wc_session_events")))
    answer = await house.output("get_session_handoff_state", project="agent:r1:demo", session_id=session)
    assert (answer["acceptance"]["state"], answer["acceptance"]["reason_codes"]) == (
        "unknown",
        ["ledger_unavailable"],
    )
    assert "continuation_unavailable" in answer["handoff_brief"]["basis"]["reason_codes"]
    refused = await house.refusal("read_session_handoff", session_id=session)
    assert (refused["error_kind"], refused["recovery_kind"]) == ("store_unavailable", "retry_same")


@requirement("M-15", "S-52", "S-64")
async def test_a_change_whose_end_was_not_recorded_is_told_as_unknown(house: House) -> None:
    session = await house.session()
    await house.database.write(lambda tx: tx.change(text(NO_MORE_ENDS)))
    refused = await house.refusal("post_session_message", session_id=session, kind="note", message="kept")
    assert refused == {
        "error_kind": "internal_error",
        "state_changed": None,
        "recovery_kind": "reconcile",
        "failure_kind": "outcome_unknown",
        "execution_state": "outcome_unknown",
    }
    refused = await house.refusal("list_session_messages", session_id=session)
    assert (refused["error_kind"], refused["state_changed"]) == ("store_unavailable", False)
    refused = await house.refusal("resolve_session_message", session_id=session, message_id="wc_msg_gone")
    assert refused["error_kind"] == "unknown_message_id"
    await house.database.write(lambda tx: tx.change(text("DROP TRIGGER no_more_ends")))
    listed = await house.output("list_session_messages", session_id=session)
    assert [message["message"] for message in listed["messages"]] == ["kept"]


@requirement("O-18")
async def test_a_closed_database_refuses_in_words(house: House) -> None:
    session = await house.session()
    house.database.close()
    refused = await house.refusal("list_external_observations", project="agent:r1:demo", session_id=session)
    assert refused["error_kind"] == "external_observation_store_unavailable"
    with pytest.raises(database.StoreUnavailable, match="closed"):
        await house.database.write(lambda tx: tx.one(select(schema.counters)))
    await house.reopen()


@requirement("O-28")
async def test_a_read_only_database_is_a_typed_error(house: House) -> None:
    session = await house.session()
    await house.database.write(lambda tx: tx.change(text("PRAGMA query_only = ON")))
    refused = await house.refusal("record_external_observation", **report(session))
    assert refused["error_kind"] == "external_observation_storage_uncertain"
    await house.reopen()
    assert (await house.output("record_external_observation", **report(session)))["inserted"] is True


@requirement("O-28")
async def test_a_full_disk_is_a_typed_error_and_the_same_report_fits_later(house: House) -> None:
    session = await house.session()
    pages = await house.database.write(lambda tx: tx.one(text("PRAGMA page_count")))
    assert pages is not None
    await house.database.write(lambda tx: tx.one(text(f"PRAGMA max_page_count = {pages[0]}")))
    answers = await asyncio.gather(
        *(house.call("record_external_observation", **report(session, event)) for event in range(1, 200))
    )
    refused = [answer["output"] for answer in answers if answer["success"] is False]
    assert refused
    assert {output["error_kind"] for output in refused if isinstance(output, dict)} == {
        "external_observation_storage_uncertain"
    }
    stored = await house.database.read(lambda tx: observations.count(tx, session))
    assert stored == len(answers) - len(refused)
    await house.database.write(lambda tx: tx.one(text("PRAGMA max_page_count = 1000000")))
    for event in range(1, 200):
        assert (await house.call("record_external_observation", **report(session, event)))["success"] is True
    assert await house.database.read(lambda tx: observations.count(tx, session)) == 199


def _record_from_another_process(path: str, session: str, results: Any) -> None:
    async def run() -> int:
        store = SqliteDatabase(Path(path))
        try:
            stored = await asyncio.gather(
                *(store.write(lambda tx: observations.record(tx, _report(session, 7), 9)) for _ in range(16))
            )
        finally:
            store.close()
        return sum(inserted for _, inserted in stored)

    results.put(asyncio.run(run()))


def _report(session: str, event: int) -> Report:
    return Report(
        session_id=session,
        project="agent:r1:demo",
        adapter_id="a" * 64,
        event_id=f"{event:064x}",
        tool="Bash",
        exit_code=None,
    )


@requirement("O-15", "O-27")
async def test_two_processes_store_one_identity_once(house: House) -> None:
    session = await house.session()
    spawn = multiprocessing.get_context("spawn")
    results: Any = spawn.Queue()
    workers = [
        spawn.Process(target=_record_from_another_process, args=(str(house.path), session, results))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    inserted = [await asyncio.to_thread(results.get, timeout=60) for _ in workers]
    for worker in workers:
        await asyncio.to_thread(worker.join, 60)
    assert sorted(inserted) == [0, 1]
    assert await house.database.read(lambda tx: observations.count(tx, session)) == 1


@requirement("S-15")
async def test_concurrent_appends_never_share_a_sequence(house: House) -> None:
    session = await house.session()
    await asyncio.gather(
        *(house.output("list_sessions", project="agent:r1:demo", recorder=session) for _ in range(40))
    )
    events = await house.database.read(lambda tx: sessions.newest_events(tx, session, 2000))
    assert [event["sequence"] for event in events] == list(range(1, 82))


@requirement("S-04")
async def test_a_queue_of_writes_has_a_size(house: House) -> None:
    gate = threading.Event()
    held = asyncio.ensure_future(house.database.write(lambda _tx: gate.wait(10)))
    waiting = [
        asyncio.ensure_future(house.database.write(lambda tx: tx.one(text("SELECT 1"))))
        for _ in range(limits.STORE_QUEUE + 300)
    ]
    for _ in range(3):
        await asyncio.sleep(0)
    gate.set()
    await held
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, database.StoreUnavailable)]
    assert 0 < len(refused) < len(outcomes)
    assert all(str(outcome) == "too many writes are waiting" for outcome in refused)
