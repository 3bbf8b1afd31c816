"""Proves who may open the Runners' WebSocket, and how the Server ends one that misbehaves."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio import client

from tests.requirements import requirement
from tests.server.station import BOOTSTRAP, Station, bearer, hello, project, token_of
from webcodex.core import access
from webcodex.protocol import bounds


@pytest.fixture
async def station(tmp_path: Path) -> AsyncIterator[Station]:
    made = await Station(tmp_path, {"WEBCODEX_TOKEN": BOOTSTRAP}).start()
    await made.add_user("ada", "r1")
    yield made
    await made.stop()


async def refused(
    station: Station, headers: dict[str, str] | list[tuple[str, str]], query: str = ""
) -> tuple[int, Any, str | None]:
    """The status, body and challenge that a WebSocket request is denied with."""
    with pytest.raises(websockets.InvalidStatus) as raised:
        await client.connect(station.url + query, additional_headers=headers, proxy=None)
    answer = raised.value.response
    return answer.status_code, json.loads(answer.body), answer.headers.get("WWW-Authenticate")


@requirement("R-30", "C-04", "C-06", "M-05")
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([], ""),
        ([("Authorization", "Basic cjE6cjE=")], ""),
        ([("Authorization", f"Bearer {BOOTSTRAP}")] * 2, ""),
        ([("Authorization", f"Bearer {token_of('nobody')}")], ""),
        ([("Authorization", f"Bearer {token_of('r1')}x")], ""),
        ([("Authorization", f"Bearer {token_of('revoked')}")], ""),
        ([("Authorization", f"Bearer {token_of('expired')}")], ""),
        ([("Authorization", "Bearer wc_pair_1")], ""),
        ([], f"?token={BOOTSTRAP}"),
        ([], f"?token={token_of('nobody')}"),
        ([], f"?token={token_of('r1')}&token={token_of('r1')}"),
        ([], f"?Token={token_of('r1')}"),
        ([], "?token=%ff%00" + "&a=1" * 20),
    ],
)
async def test_nobody_known_is_denied_before_the_websocket_opens(
    station: Station, headers: list[tuple[str, str]], query: str
) -> None:
    await station.add_token("ada", "revoked", revoked_at=station.now)
    await station.add_token("ada", "expired", expires_at=station.now)
    assert await refused(station, headers, query) == (401, {"error": "Unauthorized"}, "Bearer")


@requirement("C-02", "C-05", "M-06")
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("pat", "personal access tokens are not allowed on agent transport endpoints"),
        ("account", "account credentials are only allowed on account self-service endpoints"),
    ],
)
async def test_credential_of_another_kind_is_denied(station: Station, kind: str, sentence: str) -> None:
    await station.add_token("ada", "other", kind=kind)
    assert await refused(station, bearer(token_of("other", kind))) == (403, {"error": sentence}, None)


@requirement("C-13", "M-07")
@pytest.mark.parametrize("absent", access.RUNNER_SCOPES)
async def test_each_of_the_four_scopes_is_needed(station: Station, absent: access.Scope) -> None:
    scopes = tuple(scope.value for scope in access.RUNNER_SCOPES if scope is not absent)
    await station.add_token("ada", "weak", scopes=scopes)
    body = {"status": 403, "error": f"missing required scope: {absent.value}"}
    assert await refused(station, bearer(token_of("weak"))) == (403, body, None)


@requirement("R-30", "M-04", "C-22")
@pytest.mark.parametrize("port", ["own", "foreign"])
async def test_a_browser_is_denied_whatever_its_credential(station: Station, port: str) -> None:
    origin = f"http://127.0.0.1:{station.port}" if port == "own" else "http://evil.example"
    body = {"status": 403, "error": "Origin not allowed"}
    for headers in ({"Origin": origin}, {"Origin": origin, **bearer(BOOTSTRAP)}):
        assert await refused(station, headers) == (403, body, None)


@requirement("C-06")
async def test_runner_token_in_the_query_is_as_good_as_in_the_header(station: Station) -> None:
    url = f"{station.url}?token={token_of('r1')}"
    async with client.connect(url, proxy=None) as connection:
        await connection.send(json.dumps(hello()))
        assert json.loads(await connection.recv())["type"] == "registered"


@requirement("C-03", "R-30")
async def test_local_dev_server_takes_any_runner_without_a_token(tmp_path: Path) -> None:
    station = await Station(tmp_path, {"WEBCODEX_AUTH_DISABLED": "true"}).start()
    async with client.connect(station.url, proxy=None) as connection:
        await connection.send(json.dumps(hello()))
        assert json.loads(await connection.recv())["type"] == "registered"
    await station.stop()


@requirement("C-08")
async def test_revoked_token_ends_its_connection_with_the_next_renewal(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        assert (await peer.say_hello())["type"] == "registered"
        await station.revoke("r1")
        station.pass_time(15)
        await peer.send({"type": "ping", "ts": 1})
        assert (await peer.next())["type"] == "pong"
        assert (await peer.next())["code"] == "register_forbidden"
        assert await peer.close_code() == 1008
    assert not station.gateway.is_connected("r1")


@requirement("R-31")
async def test_registration_names_the_connection_and_the_generation(station: Station) -> None:
    async with station.peer() as peer:
        answer = await peer.say_hello(client_id="free")
        assert answer == {
            "type": "registered",
            "success": True,
            "client": {"client_id": "free", "connection_id": peer.connection_id},
            "protocol": 2,
            "resume": [],
        }
        assert peer.connection_id.startswith("conn_")
        assert station.gateway.is_connected("free")
        await peer.ping(7)


@requirement("R-31", "R-32")
@pytest.mark.parametrize(
    "first",
    [
        json.dumps({"type": "ping", "ts": 1}),
        json.dumps({"type": "unheard_of"}),
        json.dumps({**hello(), "client_id": "not a name"}),
        json.dumps({**hello(), "store_id": None}),
        "[]",
        "{",
        '{"type": "hello", "type": "hello"}',
        b"{}",
    ],
)
async def test_anything_but_a_hello_first_is_refused(station: Station, first: str | bytes) -> None:
    async with station.peer() as peer:
        await peer.connection.send(first)
        answer = await peer.next()
        assert (answer["type"], answer["code"]) == ("error", "expected_register")
        assert await peer.close_code() == 1002
    assert await station.projects() == []


@requirement("R-31", "R-32")
async def test_hello_has_15_seconds(station: Station) -> None:
    async with station.peer() as slow, station.peer() as timely:
        station.pass_time(14)
        assert (await timely.say_hello(client_id="free"))["type"] == "registered"
        station.pass_time(1)
        assert (await slow.next())["code"] == "expected_register"
        assert await slow.close_code() == 1002


@requirement("R-32")
async def test_other_generation_is_told_which_is_served(station: Station) -> None:
    async with station.peer() as peer:
        answer = await peer.say_hello(protocol=3)
        assert (answer["code"], answer["supported"]) == ("protocol_unsupported", [2])
        assert await peer.close_code() == 1002


@requirement("R-32")
@pytest.mark.parametrize(
    "said",
    [
        {"projects": [project("demo"), project("demo")]},
        {"projects": [project("..")]},
        {"projects": [project(f"p{number}") for number in range(65)]},
        {"job_inventory": {}},
        {"coding_agent_inventory": None},
    ],
)
async def test_invalid_inventory_is_refused_by_name(station: Station, said: dict[str, Any]) -> None:
    async with station.peer() as peer:
        answer = await peer.say_hello(**said)
        assert (answer["code"], answer["reason"]) == ("register_failed", "inventory_invalid")
        assert await peer.close_code() == 1002
    assert await station.projects() == []


@requirement("R-30")
@pytest.mark.parametrize(
    "frame",
    [
        "no JSON",
        b"{}",
        "[" * 70 + "]" * 70,
        json.dumps({"type": "ping"}),
        json.dumps({"type": "ping", "ts": True}),
        json.dumps(hello(client_id="free")),
        json.dumps({"type": "result", "request_id": "req_1"}),
    ],
)
async def test_malformed_frame_ends_the_connection(station: Station, frame: str | bytes) -> None:
    async with station.peer() as peer:
        await peer.say_hello(client_id="free")
        await peer.connection.send(frame)
        assert await peer.close_code() == 1002
    await station.until(lambda: not station.gateway.is_connected("free"))
    assert await station.projects() == ["agent:free:demo"]


@requirement("R-30")
async def test_unknown_types_and_fields_are_ignored_and_a_frame_may_be_8_mib_long(station: Station) -> None:
    async with station.peer() as peer:
        await peer.say_hello(client_id="free", unheard_of=[1])
        await peer.send({"type": "unheard_of"})
        await peer.send({"type": "registered"})
        frame = json.dumps({"type": "ping", "ts": 5, "padding": ""})
        await peer.connection.send(frame[:-2] + "x" * (bounds.MAX_FRAME_BYTES - len(frame)) + '"}')
        assert await peer.next() == {"type": "pong", "ts": 5}


@requirement("R-30")
async def test_frame_of_more_than_8_mib_ends_the_connection(station: Station) -> None:
    async with station.peer() as peer:
        await peer.say_hello(client_id="free")
        with contextlib.suppress(websockets.ConnectionClosed):
            await peer.send({"type": "ping", "ts": 1, "padding": "x" * bounds.MAX_FRAME_BYTES})
        assert await peer.close_code() == 1009
    await station.until(lambda: not station.gateway.is_connected("free"))


@requirement("R-34", "C-15")
async def test_silent_connection_is_closed_at_60_seconds(station: Station) -> None:
    async with station.peer() as peer:
        await peer.say_hello(client_id="free")
        station.pass_time(59)
        await peer.ping()
        station.pass_time(59)
        await peer.ping()
        station.pass_time(60)
        assert await peer.close_code() == 1001
    await station.until(lambda: not station.gateway.is_connected("free"))
    assert await station.projects() == ["agent:free:demo"]


@requirement("R-30")
async def test_stopping_server_closes_cleanly_and_takes_nobody_new(station: Station) -> None:
    async with station.peer() as peer:
        await peer.say_hello(client_id="free")
        await station.gateway.close()
        assert await peer.close_code() == 1001
        assert not station.gateway.is_connected("free")
        status, _, _ = await refused(station, bearer(BOOTSTRAP))
        assert status == 503


@requirement("R-32", "R-35")
async def test_hello_that_cannot_be_stored_is_not_accepted(station: Station) -> None:
    async with station.peer() as early, station.peer() as late:
        await early.say_hello(client_id="free")
        station.database.close()
        await late.send(hello(client_id="free"))
        assert await late.close_code() == 1013
        await early.send({"type": "runtime_metadata", "hostname": "desk"})
        assert await early.close_code() == 1013
