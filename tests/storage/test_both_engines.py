"""Proves what both engines promise alike: durable, isolated, bounded, in one order."""

import asyncio
import functools
import itertools
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alembic import autogenerate, migration
from sqlalchemy import select, text

from tests.requirements import requirement
from tests.storage import stores
from tests.tools.house import DEMO, House, report
from webcodex.core import limits
from webcodex.core.observations import Report
from webcodex.storage import accounts, database, migrate, observations, schema, sessions


@pytest.fixture(params=stores.BOTH)
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    with stores.opener(request.param, tmp_path, request) as opened:
        made = await House(tmp_path, opened).furnish()
        yield made
        made.database.close()


@pytest.fixture(params=stores.BOTH)
async def torn_house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    """A house whose tables the test may tear down."""
    with stores.opener(request.param, tmp_path, request, changes_tables=True) as opened:
        made = await House(tmp_path, opened).furnish()
        yield made
        made.database.close()


def _report(session: str, event: int) -> Report:
    return Report(
        session_id=session,
        project=DEMO,
        adapter_id="a" * 64,
        event_id=f"{event:064x}",
        tool="Bash",
        exit_code=None,
    )


@requirement("O-09")
async def test_migrations_lead_to_exactly_the_declared_tables(torn_house: House) -> None:
    def found(tx: database.Transaction) -> tuple[object, object]:
        connection = tx._connection
        context = migration.MigrationContext.configure(connection)
        return autogenerate.compare_metadata(context, schema.METADATA), migrate.present_revision(connection)

    assert await torn_house.database.read(found) == ([], schema.REVISION)


@requirement("O-09")
async def test_a_database_of_a_newer_release_is_left_alone(torn_house: House) -> None:
    newer = text("UPDATE alembic_version SET version_num = '9999'")
    await torn_house.database.write(lambda tx: tx.change(newer))
    torn_house.database.close()
    with pytest.raises(migrate.UnknownSchema, match="newer release"):
        await torn_house.reopen()


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


@requirement("O-18", "O-28", "H-02", "H-61")
async def test_a_missing_table_is_a_typed_error_and_the_brief_says_so(torn_house: House) -> None:
    session = await torn_house.session()
    before = (
        await torn_house.output("get_session_handoff_state", project="agent:r1:demo", session_id=session)
    )["handoff_brief"]
    await torn_house.database.write(lambda tx: tx.change(text("DROP TABLE wc_external_observations")))
    refused = await torn_house.refusal("record_external_observation", **report(session))
    assert refused["error_kind"] == "external_observation_storage_uncertain"
    refused = await torn_house.refusal(
        "list_external_observations", project="agent:r1:demo", session_id=session
    )
    assert refused == {
        "error_kind": "external_observation_store_unavailable",
        "state_changed": False,
        "recovery_kind": "reobserve",
    }
    after = (
        await torn_house.output("get_session_handoff_state", project="agent:r1:demo", session_id=session)
    )["handoff_brief"]
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
async def test_an_unreadable_ledger_makes_the_acceptance_unknown(torn_house: House) -> None:
    session = await torn_house.session()
    await torn_house.database.write(lambda tx: tx.change(text("DROP TABLE wc_session_events")))
    answer = await torn_house.output("get_session_handoff_state", project="agent:r1:demo", session_id=session)
    assert (answer["acceptance"]["state"], answer["acceptance"]["reason_codes"]) == (
        "unknown",
        ["ledger_unavailable"],
    )
    assert "continuation_unavailable" in answer["handoff_brief"]["basis"]["reason_codes"]
    refused = await torn_house.refusal("read_session_handoff", session_id=session)
    assert (refused["error_kind"], refused["recovery_kind"]) == ("store_unavailable", "retry_same")


@requirement("O-18")
async def test_a_closed_database_refuses_in_words(house: House) -> None:
    session = await house.session()
    house.database.close()
    refused = await house.refusal("list_external_observations", project="agent:r1:demo", session_id=session)
    assert refused["error_kind"] == "external_observation_store_unavailable"
    with pytest.raises(database.StoreUnavailable, match="closed"):
        await house.database.write(lambda tx: tx.one(select(schema.counters)))
    await house.reopen()


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
    assert all(str(outcome).endswith("are waiting") for outcome in refused)


@requirement("H-02")
async def test_a_part_that_fails_leaves_the_rest_of_its_transaction_as_it_was(house: House) -> None:
    session = await house.session()

    def some(tx: database.Transaction) -> int:
        observations.record(tx, _report(session, 1), 5)
        for broken in (
            text("SELECT nothing FROM nowhere"),
            text("INSERT INTO wc_counters (name) VALUES (1)"),
        ):
            with pytest.raises(database.StoreUnavailable):
                tx.attempt(functools.partial(tx.change, broken))
        observations.record(tx, _report(session, 2), 6)
        return tx.attempt(lambda: observations.count(tx, session))

    assert await house.database.write(some) == 2
    assert await house.database.read(lambda tx: observations.count(tx, session)) == 2


@requirement("M-49")
async def test_text_is_ordered_by_code_points_whatever_the_database_is_set_to(house: House) -> None:
    numbers = itertools.count(1)

    def add(tx: database.Transaction) -> None:
        for name in ("b", "B", "a-c", "ab", "_", "\N{LATIN SMALL LETTER E WITH ACUTE}"):
            user = accounts.User(
                user_id=f"user_{next(numbers)}",
                username=name,
                display_name=None,
                role="user",
                disabled_at=None,
                created_at=1,
                updated_at=1,
            )
            assert accounts.add_user(tx, user)

    await house.database.write(add)
    names = [user.username for user in await house.database.read(accounts.users)]
    assert names == ["B", "_", "a-c", "ab", "b", "\N{LATIN SMALL LETTER E WITH ACUTE}"]


@requirement("S-02", "C-16", "S-15")
async def test_first_references_of_a_group_are_given_once_to_sixteen_callers(house: House) -> None:
    made = await asyncio.gather(
        *(house.output("start_session", project=DEMO, title="x") for _ in range(16)),
        *(house.output("list_projects") for _ in range(16)),
    )
    numbers = sorted(int(str(answer["session_ref"]).removeprefix("~s")) for answer in made[:16])
    assert numbers == list(range(1, 17))
    refs = {str([(row["project"], row["project_ref"]) for row in answer["projects"]]) for answer in made[16:]}
    assert refs == {"[('agent:r1:demo', '~p1'), ('agent:r1:other', '~p2')]"}
