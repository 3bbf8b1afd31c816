"""Proves what PostgreSQL adds: connections are lost, others write too, and every wait has an end."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import select, text

from tests.requirements import requirement
from tests.storage.postgres_server import Cluster
from webcodex.core import limits
from webcodex.storage import database, postgres_seat, schema, workers
from webcodex.storage.database import Transaction
from webcodex.storage.postgres import PostgresDatabase, UnfitDatabase

LOSE_CONNECTION = text("SELECT pg_terminate_backend(pg_backend_pid())")
VALUE = select(schema.counters.c.value)
RAISE = schema.counters.update().values(value=schema.counters.c.value + 1)
AT_COMMIT = """
    CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {does}; RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER at_commit AFTER UPDATE ON wc_counters
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit();
"""


@pytest.fixture
def url(postgres: Cluster) -> Iterator[str]:
    with postgres.emptied() as given:
        yield given


@pytest.fixture
def own_url(postgres: Cluster) -> Iterator[str]:
    """A database whose tables and settings the test may change."""
    with postgres.fresh() as given:
        yield given


@contextmanager
def opened(url: str) -> Iterator[PostgresDatabase]:
    made = PostgresDatabase(url)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def beside(url: str) -> Iterator[psycopg.Connection]:
    """Another program at the same database."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def value(tx: Transaction) -> int:
    row = tx.one(VALUE)
    assert row is not None
    return int(row[0])


def raised(tx: Transaction) -> int:
    tx.change(RAISE)
    return value(tx)


@requirement("O-09", "O-15")
async def test_each_connection_is_durable_and_waits_within_bounds(url: str) -> None:
    names = ("synchronous_commit", "lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    shown = select(*(text(f"current_setting('{name}')") for name in (*names, "transaction_isolation")))
    with opened(url) as store:
        of_write = await store.write(lambda tx: tuple(tx.one(shown) or ()))
        of_read = await store.read(lambda tx: tuple(tx.one(shown) or ()))
    assert of_write == ("on", "3s", "5s", "5s", "read committed")
    assert of_read == ("on", "3s", "5s", "5s", "repeatable read")


@requirement("O-16")
async def test_a_read_sees_one_snapshot_and_changes_nothing(url: str) -> None:
    with opened(url) as store, beside(url) as other:

        def twice(tx: Transaction) -> tuple[int, int]:
            before = value(tx)
            other.execute("UPDATE wc_counters SET value = value + 1")
            return before, value(tx)

        assert await store.read(twice) == (0, 0)
        with pytest.raises(database.StoreUnavailable):
            await store.read(raised)
        assert await store.read(value) == 1


@requirement("O-16", "O-18")
async def test_a_connection_lost_before_the_commit_has_written_nothing(url: str) -> None:
    with opened(url) as store:

        def lose(tx: Transaction) -> None:
            tx.change(RAISE)
            tx.one(LOSE_CONNECTION)

        with pytest.raises(database.StoreUnavailable):
            await store.write(lose)
        assert await store.write(raised) == 1


@requirement("O-16", "O-29")
async def test_a_connection_lost_at_the_commit_leaves_the_outcome_unknown(own_url: str) -> None:
    with beside(own_url) as other:
        other.execute(AT_COMMIT.format(does="PERFORM pg_terminate_backend(pg_backend_pid())").encode())
        with opened(own_url) as store:
            with pytest.raises(database.OutcomeUnknown):
                await store.write(raised)
            other.execute("DROP FUNCTION at_commit CASCADE")
            assert await store.write(raised) == 1


@requirement("O-10", "O-16")
@pytest.mark.parametrize(("fault", "runs"), [("40001", 5), ("40P01", 5), ("23505", 5), ("23514", 1)])
async def test_a_commit_refused_in_words_has_written_nothing(own_url: str, fault: str, runs: int) -> None:
    made: list[int] = []

    def counted(tx: Transaction) -> int:
        made.append(1)
        return raised(tx)

    with beside(own_url) as other, opened(own_url) as store:
        other.execute(AT_COMMIT.format(does=f"RAISE EXCEPTION 'no' USING ERRCODE = '{fault}'").encode())
        with pytest.raises(database.StoreUnavailable):
            await store.write(counted)
        other.execute("DROP FUNCTION at_commit CASCADE")
        assert len(made) == runs
        assert await store.write(raised) == 1


@requirement("O-10")
async def test_a_unique_violation_is_answered_by_looking_up_again(url: str) -> None:
    added = schema.counters.insert()
    with opened(url) as store, beside(url) as other:
        other.execute("DELETE FROM wc_counters WHERE name = 'raced'")
        looked: list[bool] = []

        def add(tx: Transaction) -> str:
            looked.append(
                tx.one(select(schema.counters.c.name).where(schema.counters.c.name == "raced")) is None
            )
            if not looked[-1]:
                return "found"
            if len(looked) == 1:
                other.execute("INSERT INTO wc_counters (name, value) VALUES ('raced', 1)")
            tx.change(added, {"name": "raced", "value": 2})
            return "added"

        assert await store.write(add) == "found"
        other.execute("DELETE FROM wc_counters WHERE name = 'raced'")
    assert looked == [True, False]


@requirement("O-16")
async def test_work_that_goes_on_after_a_refused_statement_is_not_told_as_stored(url: str) -> None:
    def careless(tx: Transaction) -> str:
        tx.change(RAISE)
        with pytest.raises(Exception, match="nowhere"):
            tx.one(text("SELECT 1 FROM nowhere"))
        return "stored"

    with opened(url) as store:
        with pytest.raises(database.StoreUnavailable):
            await store.write(careless)
        assert await store.read(value) == 0


@requirement("O-18", "M-59")
async def test_a_database_that_comes_back_is_used_again(postgres: Cluster, own_url: str) -> None:
    name = own_url.removeprefix("postgresql:///").partition("?")[0]
    end_all = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    with opened(own_url) as store:
        await asyncio.gather(*(store.write(raised) for _ in range(8)), *(store.read(value) for _ in range(8)))
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        postgres.execute(end_all)
        for asked in (store.read(value), store.write(raised)):
            with pytest.raises(database.StoreUnavailable, match="cannot be reached"):
                await asked
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert await store.write(raised) == 9
        postgres.execute(end_all)
        assert await asyncio.gather(*(store.read(value) for _ in range(8))) == [9] * 8
        assert max(await asyncio.gather(*(store.write(raised) for _ in range(4)))) == 13


@requirement("O-15", "O-18")
async def test_a_writer_waits_for_its_turn_within_bounds(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STORE_LOCK_WAIT_S", 0.05)
    with opened(url) as store, beside(url) as other:
        with other.transaction():
            other.execute(postgres_seat.TURN)
            with pytest.raises(database.StoreUnavailable):
                await store.write(raised)
            assert await store.read(value) == 0
        assert await store.write(raised) == 1


@requirement("O-15", "O-16")
async def test_a_job_answered_as_not_written_never_commits_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STORE_ANSWER_S", 0.1)
    may_go_on = threading.Event()

    def slow(tx: Transaction) -> None:
        tx.change(RAISE)
        may_go_on.wait(10)

    with opened(url) as store:
        asked = [store.write(slow) for _ in range(limits.STORE_WRITERS + 1)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        may_go_on.set()
        assert [type(answer) for answer in answers] == [database.StoreUnavailable] * len(answers)
        monkeypatch.setattr(limits, "STORE_ANSWER_S", 10.0)
        assert await store.write(raised) == 1


@requirement("O-16")
async def test_a_deadline_between_the_commit_and_its_answer_changes_nothing() -> None:
    job = workers.Job(raised, asyncio.get_running_loop())
    assert job.begin(None)
    assert job.may_commit()
    job.settle(7, None)
    job.give_up()
    assert await job.answer == 7
    assert not job.begin(None)


@requirement("O-15", "O-16")
async def test_a_commit_that_is_not_confirmed_in_time_is_unknown(
    own_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with beside(own_url) as other:
        other.execute(AT_COMMIT.format(does="PERFORM pg_sleep(30)").encode())
        with opened(own_url) as store:
            monkeypatch.setattr(limits, "STORE_ANSWER_S", 0.3)
            with pytest.raises(database.OutcomeUnknown, match="in time"):
                await store.write(raised)
            monkeypatch.setattr(limits, "STORE_ANSWER_S", 10.0)
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'COMMIT' AND datname = "
                "current_database()"
            )
            other.execute("DROP FUNCTION at_commit CASCADE")
            assert await store.write(raised) == 1


@requirement("O-15", "O-18")
async def test_a_server_that_stands_still_in_its_turn_loses_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STORE_STATEMENT_S", 0.1)
    stopped_in_its_turn, may_go_on = threading.Event(), threading.Event()

    def stand_still(tx: Transaction) -> None:
        tx.change(RAISE)
        stopped_in_its_turn.set()
        may_go_on.wait(10)

    with opened(url) as still, opened(url) as other:
        standing = asyncio.ensure_future(still.write(stand_still))
        await asyncio.to_thread(stopped_in_its_turn.wait, 10)
        assert await other.write(raised) == 1
        may_go_on.set()
        with pytest.raises(database.StoreUnavailable):
            await standing
        assert await still.write(raised) == 2


@requirement("O-16")
async def test_a_caller_that_leaves_does_not_end_its_write(url: str) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        tx.change(RAISE)
        begun.set()
        may_go_on.wait(10)

    with opened(url) as store:
        leaving = asyncio.ensure_future(store.write(slow))
        await asyncio.to_thread(begun.wait, 10)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        may_go_on.set()
        assert await store.write(raised) == 2


@requirement("O-09")
def test_servers_that_start_at_once_migrate_once(postgres: Cluster) -> None:
    with postgres.fresh("template0") as url:
        made: list[PostgresDatabase] = []
        starts = [threading.Thread(target=lambda: made.append(PostgresDatabase(url))) for _ in range(4)]
        for start in starts:
            start.start()
        for start in starts:
            start.join(30)
        assert len(made) == len(starts)
        for store in made:
            store.close()
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        with beside(url) as migrated, beside(postgres.url("template")) as expected:
            assert migrated.execute(tables).fetchall() == expected.execute(tables).fetchall()


@requirement("O-18", "C-09")
def test_a_database_that_cannot_serve_is_refused_without_its_url(postgres: Cluster) -> None:
    refused = {
        "postgresql://ada:planted@localhost:99999999/x": database.StoreUnavailable,
        "postgresql://ada:planted@localhost/x?no_such_word=planted": UnfitDatabase,
        postgres.url("absent-planted"): database.StoreUnavailable,
        "postgresql://ada:planted@127.0.0.1:1/x": database.StoreUnavailable,
    }
    for url, kind in refused.items():
        with pytest.raises(kind) as refusal:
            PostgresDatabase(url)
        assert "planted" not in str(refusal.value)
    postgres.execute("CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    try:
        with pytest.raises(UnfitDatabase, match="UTF8"):
            PostgresDatabase(postgres.url("ascii"))
    finally:
        postgres.execute("DROP DATABASE ascii WITH (FORCE)")
    with pytest.raises(database.StoreUnavailable):
        PostgresDatabase(postgres.url() + "&options=-cdefault_transaction_read_only%3Don")
