"""Proves what the SQLite engine promises: durable, grouped, isolated, bounded."""

import asyncio
import multiprocessing
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.requirements import requirement
from tests.tools import evidence_desk
from tests.tools.house import House, report
from webcodex.core import limits
from webcodex.core.observations import Report
from webcodex.storage import (
    database,
    observations,
    schema,
    schema_evidence,
    schema_goals,
    schema_jobs,
)
from webcodex.storage.engine import SqliteDatabase

WAIT_S = 60
SCHEMAS = (schema, schema_evidence, schema_jobs, schema_goals)  # each adds its tables to one METADATA

UNSETTLED = (
    "CREATE TABLE unsettled (s TEXT REFERENCES wc_sessions (session_id) DEFERRABLE INITIALLY DEFERRED)"
)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = await House(tmp_path).furnish()
    yield made
    made.database.close()


@requirement("O-09")
async def test_acknowledged_writes_are_synchronous_and_logged_ahead(house: House) -> None:
    modes = await house.database.write(
        lambda tx: [tx.one(text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous")]
    )
    assert [row[0] for row in modes if row is not None] == ["wal", 2]


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


@requirement("O-16", "O-18")
async def test_a_commit_that_the_database_refuses_leaves_it_open_to_the_next_write(house: House) -> None:
    session = await house.session()
    await house.database.write(lambda tx: tx.change(text(UNSETTLED)))
    with pytest.raises(database.OutcomeUnknown):
        await house.database.write(lambda tx: tx.change(text("INSERT INTO unsettled VALUES ('none')")))
    assert (await house.output("record_external_observation", **report(session)))["inserted"] is True
    assert await house.database.read(lambda tx: tx.all(text("SELECT * FROM unsettled"))) == []


@requirement("M-15", "S-52", "S-64")
async def test_a_change_whose_end_was_not_recorded_is_told_as_unknown(house: House) -> None:
    session = await house.session()
    await house.database.write(lambda tx: tx.change(text(evidence_desk.NO_MORE_ENDS)))
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


async def _record(store: database.Database, session: str) -> int:
    stored = await asyncio.gather(
        *(store.write(lambda tx: observations.record(tx, _report(session, 7), 9)) for _ in range(16))
    )
    return sum(inserted for _, inserted in stored)


def _record_from_another_process(path: str, session: str, line: Connection) -> None:
    store = SqliteDatabase(Path(path))
    line.send("ready")
    line.recv()
    line.send(asyncio.run(_record(store, session)))
    store.close()


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
    line, far_end = spawn.Pipe()
    other = spawn.Process(target=_record_from_another_process, args=(str(house.path), session, far_end))
    other.start()
    assert await asyncio.to_thread(line.poll, WAIT_S)
    assert line.recv() == "ready"
    line.send("go")
    inserted = await _record(house.database, session)
    assert await asyncio.to_thread(line.poll, WAIT_S)
    assert inserted + line.recv() == 1
    await asyncio.to_thread(other.join, WAIT_S)
    for end in (line, far_end):
        end.close()
    assert await house.database.read(lambda tx: observations.count(tx, session)) == 1
