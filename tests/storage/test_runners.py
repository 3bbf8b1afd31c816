"""Proves that what is stored of a Runner comes back as it was, also after a restart."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.storage import stores
from webcodex.storage import runners
from webcodex.storage.database import Database, Transaction

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


@pytest.fixture(params=stores.BOTH)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    with stores.opener(request.param, tmp_path, request) as opened:
        first = opened()
        await first.write(lambda tx: runners.save(tx, DESK))
        first.close()
        again = opened()
        yield again
        again.close()


async def found(database: Database, client_id: str = "desk") -> runners.Runner | None:
    return await database.write(lambda tx: runners.find(tx, client_id))


@requirement("R-34")
async def test_lease_comes_back_from_another_opening_of_the_store(database: Database) -> None:
    assert await found(database) == DESK
    assert await found(database, "lap") is None


@requirement("R-34")
async def test_saving_again_replaces_every_field_of_that_client_only(database: Database) -> None:
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
async def test_contact_is_noted_without_touching_anything_else(database: Database) -> None:
    await database.write(lambda tx: runners.note_seen(tx, "desk", 1_790_000_060, said_goodbye=True))
    await database.write(lambda tx: runners.note_seen(tx, "nobody", 1, said_goodbye=True))
    assert await found(database) == replace(DESK, last_seen_at=1_790_000_060, said_goodbye=True)
    assert await found(database, "nobody") is None


@requirement("R-34")
async def test_registration_that_fails_later_leaves_the_lease_as_it_was(database: Database) -> None:
    class Refused(Exception):
        pass

    def save_and_refuse(tx: Transaction) -> None:
        runners.save(tx, replace(DESK, instance_id="i18"))
        raise Refused

    with pytest.raises(Refused):
        await database.write(save_and_refuse)
    assert await found(database) == DESK
