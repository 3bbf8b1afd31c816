"""Proves that what is stored of a Runner comes back as it was, also after a restart."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.requirements import requirement
from webcodex.storage import runners
from webcodex.storage.database import Transaction
from webcodex.storage.engine import SqliteDatabase

DESK = runners.Runner(
    client_id="desk",
    user_id="ada",
    connection_id="conn_1",
    instance_id="i17",
    store_id="s1",
    last_seen_at=1_790_000_030,
    said_goodbye=False,
    retired=tuple(f"i{number}" for number in range(1, 17)),
    registered_at=1_790_000_000,
    facts={"display_name": "Schreibtisch \N{DESKTOP COMPUTER}", "capabilities": {"git": True}, "owner": None},
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "webcodex.db")
    await opened.write(lambda tx: runners.save(tx, DESK))
    yield opened
    opened.close()


async def found(database: SqliteDatabase, client_id: str = "desk") -> runners.Runner | None:
    return await database.read(lambda tx: runners.find(tx, client_id))


@requirement("R-34")
async def test_lease_comes_back_from_another_opening_of_the_store(tmp_path: Path) -> None:
    first = SqliteDatabase(tmp_path / "webcodex.db")
    await first.write(lambda tx: runners.save(tx, DESK))
    first.close()
    again = SqliteDatabase(tmp_path / "webcodex.db")
    assert await found(again) == DESK
    assert await found(again, "lap") is None
    again.close()


@requirement("R-34")
async def test_saving_again_replaces_every_field_of_that_client_only(database: SqliteDatabase) -> None:
    lap = replace(DESK, client_id="lap", user_id=None)
    changed = runners.Runner(
        client_id="desk",
        user_id=None,
        connection_id="conn_2",
        instance_id="i18",
        store_id="s2",
        last_seen_at=1_790_000_099,
        said_goodbye=True,
        retired=(),
        registered_at=1_790_000_098,
        facts={"capabilities": {}},
    )
    await database.write(lambda tx: runners.save(tx, lap))
    await database.write(lambda tx: runners.save(tx, changed))
    assert await found(database) == changed
    assert await found(database, "lap") == lap


@requirement("R-34")
async def test_contact_is_noted_without_touching_anything_else(database: SqliteDatabase) -> None:
    await database.write(lambda tx: runners.note_seen(tx, "desk", 1_790_000_060, said_goodbye=True))
    await database.write(lambda tx: runners.note_seen(tx, "nobody", 1, said_goodbye=True))
    assert await found(database) == replace(DESK, last_seen_at=1_790_000_060, said_goodbye=True)
    assert await found(database, "nobody") is None


@requirement("R-34")
async def test_registration_that_fails_later_leaves_the_lease_as_it_was(database: SqliteDatabase) -> None:
    class Refused(Exception):
        pass

    def save_and_refuse(tx: Transaction) -> None:
        runners.save(tx, replace(DESK, instance_id="i18"))
        raise Refused

    with pytest.raises(Refused):
        await database.write(save_and_refuse)
    assert await found(database) == DESK
