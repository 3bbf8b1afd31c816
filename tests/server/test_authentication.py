"""Who a request comes from, and which paths take which credential (20.1, C-22 rows 3 and 4)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.server import in_process
from tests.server.in_process import Server
from webcodex.core import access
from webcodex.server import accounts_api, authentication
from webcodex.storage import accounts

UNAUTHORIZED = (401, {"error": "Unauthorized"})
AGENT_ONLY = (403, {"error": "agent tokens are only allowed on agent transport endpoints"})
ACCOUNT_PATHS = {
    "/api/users/me",
    "/api/tokens/list",
    "/api/tokens/register_hash",
    "/api/tokens/revoke",
    "/api/agent-tokens/register_hash",
}
POST_PATHS = ("/mcp", "/api/tools/call", "/api/tools/list", *accounts_api.ROUTES)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with in_process.server(tmp_path) as running:
        yield running


async def runner_token(server: Server, username: str, client_id: str = "r1") -> str:
    body = {"username": username, "client_id": client_id}
    _, made = await server.post("/api/agent-tokens/create", body)
    return str(made["token"])


async def on_runner_path(server: Server, token: str | None, query: str = "") -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    answer = await server.client.get("/api/agents/ws" + query, headers=headers)
    return answer.status_code


async def me(server: Server, token: str) -> int:
    status, _ = await server.post("/api/users/me", {}, token)
    return status


async def last_used(server: Server, token: str) -> int | None:
    """What is stored of the token's last use, after every use so far has been noted."""
    await server.database.write(lambda _tx: None)
    token_hash = hashlib.sha256(token.encode()).hexdigest()
    found = await server.database.read(lambda tx: accounts.token_of_hash(tx, token_hash))
    assert found is not None
    return found[0].last_used_at


@requirement("C-06", "M-05", "C-22", "M-62")
async def test_every_route_refuses_what_has_no_credential(server: Server) -> None:
    for path in POST_PATHS:
        assert await server.post(path, b"no JSON either", token=None) == UNAUTHORIZED
        answer = await server.client.post(path, json={})
        assert answer.headers["www-authenticate"] == "Bearer"
    assert await on_runner_path(server, None) == 401


@requirement("C-01")
async def test_the_bootstrap_credential_is_taken_everywhere(server: Server) -> None:
    for path in POST_PATHS:
        status, _ = await server.post(path, {})
        assert status not in {401, 403}, path
    assert await on_runner_path(server, in_process.TOKEN) == 426


@requirement("C-01")
async def test_whatever_is_not_exactly_the_bootstrap_credential_is_refused(server: Server) -> None:
    for token in (in_process.TOKEN[:-1], in_process.TOKEN + "x", in_process.TOKEN.upper(), "", "x" * 4096):
        assert await server.post("/api/users/list", {}, token) == UNAUTHORIZED


@requirement("C-02", "C-04", "C-05", "C-24", "M-06")
async def test_each_kind_of_credential_is_taken_on_its_own_paths_only(server: Server) -> None:
    made = await server.make_user("ada", issue_credential=True)
    account, pat = made["account_credential"], await server.make_pat("ada", "runtime:read", "project:read")
    agent = await runner_token(server, "ada")
    for path in POST_PATHS:
        assert await server.post(path, {}, agent) == AGENT_ONLY, path
        status, body = await server.post(path, {}, account)
        refused = (403, {"error": "account credentials are only allowed on account self-service endpoints"})
        assert ((status, body) == refused) is (path not in ACCOUNT_PATHS), path
        status, body = await server.post(path, {}, pat)
        assert status != 401, path
        assert body.get("error") != "personal access tokens are not allowed on agent transport endpoints"
    assert [await on_runner_path(server, token) for token in (agent, account, pat)] == [426, 403, 403]


@requirement("C-22", "C-24", "M-06")
async def test_a_credential_of_the_wrong_kind_is_told_nothing_of_the_body(server: Server) -> None:
    await server.make_user("ada")
    agent = await runner_token(server, "ada")
    assert await server.post("/api/tools/call", b"{", agent) == AGENT_ONLY
    assert await server.post("/api/tools/call", {"tool": "no_such_tool"}, agent) == AGENT_ONLY


@requirement("C-06")
async def test_only_one_bearer_header_is_taken(server: Server) -> None:
    good = f"Bearer {in_process.TOKEN}"
    for values in (
        [good, good],
        [good, "Basic eDp5"],
        [in_process.TOKEN],
        [f"Basic {in_process.TOKEN}"],
        [f"Token {in_process.TOKEN}"],
        ["Bearer"],
        [""],
    ):
        headers = [("Authorization", value) for value in values] + [("Content-Type", "application/json")]
        answer = await server.client.post("/api/users/list", content=b"{}", headers=headers)
        assert (answer.status_code, answer.json()) == UNAUTHORIZED, values
    for value in (f"bearer {in_process.TOKEN}", f"BEARER   {in_process.TOKEN}"):
        headers = [("Authorization", value), ("Content-Type", "application/json")]
        answer = await server.client.post("/api/users/list", content=b"{}", headers=headers)
        assert answer.status_code == 200


@requirement("C-06")
async def test_a_token_in_the_query_counts_nowhere_but_on_the_runner_path(server: Server) -> None:
    query = f"?token={in_process.TOKEN}"
    for path in POST_PATHS:
        assert await server.post(path + query, {}, token=None) == UNAUTHORIZED, path
    await server.make_user("ada")
    agent, pat = await runner_token(server, "ada"), await server.make_pat("ada")
    known = server.application.authentication
    caller = await known.caller([], authentication.RUNNER_PATH, agent)
    assert (caller.username, caller.client_id) == ("ada", "r1")
    for token in (pat, in_process.TOKEN, "wc_agent_" + "0" * 64, "\udcff"):
        with pytest.raises(authentication.Unauthorized):
            await known.caller([], authentication.RUNNER_PATH, token)
    with pytest.raises(authentication.Unauthorized):
        await known.caller([], "/api/tools/call", agent)


@requirement("C-07", "C-24")
async def test_an_unknown_or_reserved_token_is_unauthorized(server: Server) -> None:
    await server.make_user("ada")
    assert await server.post("/api/users/me", {}, "wc_pat_" + "a" * 64) == UNAUTHORIZED
    for prefix in ("wc_oat_", "wc_ort_", "wc_oac_", "wc_client_", "wc_csec_", "wc_pair_", "wck_", "wc_x_"):
        token = prefix + "a" * 64
        digest = hashlib.sha256(token.encode()).hexdigest()
        body = {"username": "ada", "token_hash": digest, "token_prefix": token[:16]}
        assert (await server.post("/api/tokens/register_hash", body))[0] == 200
        assert await server.post("/api/users/me", {}, token) == UNAUTHORIZED, prefix


@requirement("C-07")
async def test_a_token_whose_prefix_is_of_another_kind_is_unauthorized(server: Server) -> None:
    await server.make_user("ada")
    token = "wc_acct_" + "b" * 64
    digest = hashlib.sha256(token.encode()).hexdigest()
    body = {"username": "ada", "token_hash": digest, "token_prefix": token[:16]}
    assert (await server.post("/api/tokens/register_hash", body))[0] == 200
    assert await server.post("/api/users/me", {}, token) == UNAUTHORIZED


@requirement("C-08", "C-24", "M-05")
async def test_a_token_is_refused_from_the_second_it_expires(server: Server) -> None:
    await server.make_user("ada")
    token = await server.make_pat("ada", expires_at=server.now + 10)
    server.now += 9
    assert await me(server, token) == 200
    server.now += 1
    assert await me(server, token) == 401


@requirement("C-08", "C-24", "M-05")
async def test_the_next_request_sees_a_revocation(server: Server) -> None:
    await server.make_user("ada")
    token, other = await server.make_pat("ada"), await server.make_pat("ada")
    assert await me(server, token) == 200
    _, listed = await server.post("/api/tokens/list", {"username": "ada"})
    token_id = next(one["id"] for one in listed["tokens"] if one["token_prefix"] == token[:16])
    assert (await server.post("/api/tokens/revoke", {"username": "ada", "token_id": token_id}))[0] == 200
    assert await me(server, token) == 401
    assert await me(server, other) == 200


@requirement("C-08", "M-05")
async def test_the_next_request_sees_that_its_user_is_disabled(server: Server) -> None:
    made = await server.make_user("ada", issue_credential=True)
    tokens = [await server.make_pat("ada"), made["account_credential"]]
    agent = await runner_token(server, "ada")
    assert [await me(server, token) for token in tokens] == [200, 200]
    assert await on_runner_path(server, agent) == 426
    await server.disable("ada")
    assert [await me(server, token) for token in tokens] == [401, 401]
    assert await on_runner_path(server, agent) == 401


@requirement("C-08")
async def test_a_use_is_noted_at_most_once_a_minute(server: Server) -> None:
    await server.make_user("ada")
    token = await server.make_pat("ada")
    seen = []
    for step in (0, 59, 1, 0, 60):
        server.now += step
        await asyncio.gather(*(me(server, token) for _ in range(5)))
        seen.append(await last_used(server, token))
    start = in_process.NOW
    assert seen == [start, start, start + 60, start + 60, start + 120]


@requirement("C-08", "C-09")
async def test_the_store_holds_no_token_in_the_clear(server: Server, tmp_path: Path) -> None:
    made = await server.make_user("ada", issue_credential=True)
    secrets = [made["account_credential"], await server.make_pat("ada"), await runner_token(server, "ada")]
    for token in secrets:
        await server.post("/api/users/me", {}, token)
    stored = b"".join(path.read_bytes() for path in sorted((tmp_path / "data").iterdir()))
    for token in secrets:
        assert token[:16].encode() in stored
        assert token[16:].encode() not in stored
        assert hashlib.sha256(token.encode()).hexdigest().encode() in stored
    assert in_process.TOKEN.encode() not in stored


@requirement("C-03", "C-18")
async def test_without_authentication_everybody_is_local_dev(tmp_path: Path) -> None:
    async with in_process.server(tmp_path, WEBCODEX_TOKEN="", WEBCODEX_AUTH_DISABLED="true") as server:
        status, _ = await server.post("/api/users/list", {}, token=None)
        assert status == 200
        caller = await server.application.authentication.caller([], "/api/tools/call")
        assert caller == access.everyone(access.Credential.LOCAL_DEV)
        assert caller.authority != access.everyone(access.Credential.BOOTSTRAP).authority


@requirement("C-18", "C-19")
async def test_all_credentials_of_one_user_are_one_authority_group(server: Server) -> None:
    made = await server.make_user("ada", issue_credential=True)
    await server.make_user("eve")
    known = server.application.authentication

    async def group(token: str) -> str:
        headers = [(b"authorization", b"Bearer " + token.encode())]
        return (await known.caller(headers, "/api/users/me")).authority

    ada = {await group(await server.make_pat("ada")), await group(await server.make_pat("ada", "admin"))}
    assert {*ada, await group(made["account_credential"])} == ada
    assert len({*ada, await group(await server.make_pat("eve")), await group(in_process.TOKEN)}) == 3
