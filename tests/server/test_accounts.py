"""Users and their tokens over REST (10.9)."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server import in_process
from tests.server.in_process import Server
from webcodex.core import access

Answer = tuple[int, Any]

NO_USER = (404, {"status": 404, "error": "User not found"})
SUMMARY = {
    "id",
    "user_id",
    "name",
    "token_prefix",
    "scopes",
    "kind",
    "allowed_client_id",
    "created_at",
    "last_used_at",
    "revoked_at",
    "expires_at",
}
RUNNER_SCOPES = [scope.value for scope in access.RUNNER_SCOPES]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with in_process.server(tmp_path) as running:
        yield running


def error(status: int, text: str) -> Answer:
    return status, {"status": status, "error": text}


def known(kind: str, name: str) -> dict[str, str]:
    """The hash and prefix of a token that its holder made."""
    token = f"wc_{kind}_{hashlib.sha256(name.encode()).hexdigest()}"
    return {"token_hash": hashlib.sha256(token.encode()).hexdigest(), "token_prefix": token[:16]}


@requirement("M-48", "M-49", "M-50", "C-05", "C-09")
async def test_a_new_user_is_shown_listed_and_knows_itself(server: Server) -> None:
    wanted = {"username": "ada", "display_name": "Ada L.", "role": "admin", "issue_credential": True}
    status, made = await server.post("/api/users/create", wanted)
    assert status == 200
    assert set(made) == {"success", "user", "account_credential", "account_credential_prefix"}
    assert re.fullmatch(r"wc_acct_[0-9a-f]{64}", made["account_credential"])
    assert made["account_credential"].startswith(made["account_credential_prefix"])
    assert made["user"] == {
        "id": made["user"]["id"],
        "username": "ada",
        "display_name": "Ada L.",
        "role": "admin",
        "disabled": False,
        "disabled_at": None,
        "created_at": server.now,
        "updated_at": server.now,
    }
    plain = await server.make_user("eve")
    assert set(plain) == {"success", "user"}
    assert (plain["user"]["role"], plain["user"]["display_name"]) == ("user", None)
    listing = {"success": True, "users": [made["user"], plain["user"]], "count": 2}
    assert await server.post("/api/users/list", {}) == (200, listing)
    for token in (made["account_credential"], await server.make_pat("ada")):
        assert await server.post("/api/users/me", {}, token) == (200, {"success": True, "user": made["user"]})
    assert await server.post("/api/users/me", {}) == NO_USER


@requirement("M-48", "M-49", "M-57", "C-13")
async def test_only_admins_manage_users(server: Server) -> None:
    await server.make_user("ada")
    await server.make_user("root", role="admin")
    tokens = [
        await server.make_pat("ada", "account:manage"),
        await server.make_pat("ada", "admin"),
        await server.make_pat("root"),
        await server.make_pat("root", "runtime:read"),
    ]
    for token in tokens:
        for path in ("/api/users/create", "/api/users/list"):
            assert await server.post(path, {"no": "field"}, token) == error(
                403, "admin or bootstrap auth required"
            )
    for scope in ("account:manage", "admin"):
        token = await server.make_pat("root", scope)
        assert (await server.post("/api/users/create", {"username": f"by-{scope[:5]}"}, token))[0] == 200
        assert (await server.post("/api/users/list", {}, token))[0] == 200


@requirement("M-51", "M-52", "C-08")
async def test_a_token_is_shown_once_and_then_only_summarised(server: Server) -> None:
    user = (await server.make_user("ada"))["user"]
    wanted = {"username": "ada", "name": "laptop", "scopes": ["runtime:read", "project:read", "runtime:read"]}
    status, made = await server.post("/api/tokens/create", wanted)
    assert status == 200
    assert re.fullmatch(r"wc_pat_[0-9a-f]{64}", made["token"])
    assert made == {
        "success": True,
        "token": made["token"],
        "token_prefix": made["token"][:16],
        "token_id": made["token_id"],
        "name": "laptop",
        "username": "ada",
        "user_id": user["id"],
        "scopes": ["runtime:read", "project:read"],
        "created_at": server.now,
        "expires_at": None,
    }
    status, listed = await server.post("/api/tokens/list", {"username": "ada"})
    summary = {
        "id": made["token_id"],
        "user_id": user["id"],
        "name": "laptop",
        "token_prefix": made["token_prefix"],
        "scopes": ["runtime:read", "project:read"],
        "kind": "pat",
        "allowed_client_id": None,
        "created_at": server.now,
        "last_used_at": None,
        "revoked_at": None,
        "expires_at": None,
    }
    whole = {"success": True, "username": "ada", "user_id": user["id"], "tokens": [summary], "count": 1}
    assert (status, listed) == (200, whole)


@requirement("M-57")
async def test_what_is_left_out_has_the_documented_defaults(server: Server) -> None:
    await server.make_user("ada")
    _, pat = await server.post("/api/tokens/create", {"username": "ada"})
    assert (pat["name"], pat["scopes"], pat["expires_at"]) == ("default", [], None)
    _, agent = await server.post("/api/agent-tokens/create", {"username": "ada", "client_id": "r1"})
    assert (agent["name"], agent["scopes"]) == ("default", RUNNER_SCOPES)
    _, none = await server.post(
        "/api/agent-tokens/create", {"username": "ada", "client_id": "r1", "scopes": []}
    )
    assert none["scopes"] == []


@requirement("M-52")
async def test_the_newest_two_hundred_tokens_are_listed(server: Server) -> None:
    await server.make_user("ada")
    await server.make_pat("ada", name="oldest")
    server.now += 1
    await asyncio.gather(*(server.make_pat("ada", name=str(number)) for number in range(200)))
    _, listed = await server.post("/api/tokens/list", {"username": "ada"})
    assert listed["count"] == 200
    assert {token["name"] for token in listed["tokens"]} == {str(number) for number in range(200)}


@requirement("M-53", "M-56")
async def test_a_repeated_revocation_keeps_the_first_time(server: Server) -> None:
    await server.make_user("ada")
    for kind, extra in (("tokens", {}), ("agent-tokens", {"client_id": "r1"})):
        _, made = await server.post(f"/api/{kind}/create", {"username": "ada", **extra})
        body = {"username": "ada", "token_id": made["token_id"]}
        first = await server.post(f"/api/{kind}/revoke", body)
        server.now += 100
        assert await server.post(f"/api/{kind}/revoke", body) == first
        assert (first[0], first[1]["token"]["revoked_at"]) == (200, server.now - 100)
        _, listed = await server.post(f"/api/{kind}/list", {"username": "ada"})
        assert listed["tokens"] == [first[1]["token"]]


@requirement("M-53", "M-56", "M-58")
async def test_a_token_of_another_kind_or_user_is_not_found(server: Server) -> None:
    for username in ("ada", "eve"):
        await server.make_user(username)
    _, pat = await server.post("/api/tokens/create", {"username": "ada"})
    _, agent = await server.post("/api/agent-tokens/create", {"username": "ada", "client_id": "r1"})
    for path, username, token_id in (
        ("/api/tokens/revoke", "ada", agent["token_id"]),
        ("/api/agent-tokens/revoke", "ada", pat["token_id"]),
        ("/api/tokens/revoke", "eve", pat["token_id"]),
        ("/api/tokens/revoke", "ada", "tok_none"),
    ):
        body = {"username": username, "token_id": token_id}
        assert await server.post(path, body) == error(404, "Token not found")
    _, listed = await server.post("/api/tokens/list", {"username": "ada"})
    assert [token["revoked_at"] for token in listed["tokens"]] == [None]


@requirement("M-52", "M-53", "C-05", "C-08")
async def test_an_account_credential_is_listed_and_revoked_among_the_users_tokens(server: Server) -> None:
    made = await server.make_user("ada", issue_credential=True)
    account = made["account_credential"]
    _, listed = await server.post("/api/tokens/list", {"username": "ada"}, account)
    assert [(token["kind"], token["token_prefix"]) for token in listed["tokens"]] == [
        ("account", made["account_credential_prefix"])
    ]
    body = {"username": "ada", "token_id": listed["tokens"][0]["id"]}
    assert (await server.post("/api/tokens/revoke", body, account))[0] == 200
    assert await server.post("/api/users/me", {}, account) == (401, {"error": "Unauthorized"})


@requirement("M-54", "M-56", "C-04", "C-05")
async def test_a_registered_hash_is_a_token_that_the_server_never_saw(server: Server) -> None:
    made = await server.make_user("ada", issue_credential=True)
    secret = "wc_pat_" + "5" * 64
    digest = hashlib.sha256(secret.encode()).hexdigest()
    body = {"username": "ada", "name": "mine", "scopes": ["runtime:read"], "token_hash": digest}
    status, registered = await server.post(
        "/api/tokens/register_hash", {**body, "token_prefix": secret[:16]}, made["account_credential"]
    )
    assert (status, set(registered), set(registered["token"])) == (200, {"success", "token"}, SUMMARY)
    assert (registered["token"]["kind"], registered["token"]["scopes"]) == ("pat", ["runtime:read"])
    assert digest not in str(registered)
    assert (await server.post("/api/users/me", {}, secret))[1]["user"] == made["user"]
    runner = {"username": "ada", "client_id": "r1", **known("agent", "r1")}
    status, registered = await server.post(
        "/api/agent-tokens/register_hash", runner, made["account_credential"]
    )
    assert (status, registered["token"]["allowed_client_id"], registered["token"]["kind"]) == (
        200,
        "r1",
        "agent",
    )


@requirement("M-55", "M-56", "C-04")
async def test_a_runner_token_is_bound_to_its_client_id(server: Server) -> None:
    await server.make_user("ada")
    body = {"username": "ada", "client_id": "r1", "scopes": ["agent:poll"], "expires_at": server.now + 1}
    status, made = await server.post("/api/agent-tokens/create", body)
    assert status == 200
    assert re.fullmatch(r"wc_agent_[0-9a-f]{64}", made["token"])
    assert (made["kind"], made["allowed_client_id"], made["scopes"]) == ("agent", "r1", ["agent:poll"])
    assert made["expires_at"] == server.now + 1
    _, listed = await server.post("/api/agent-tokens/list", {"username": "ada"})
    assert [token["id"] for token in listed["tokens"]] == [made["token_id"]]
    assert (await server.post("/api/tokens/list", {"username": "ada"}))[1]["count"] == 0


@requirement("M-58")
async def test_a_name_that_is_taken_stays_as_it_is(server: Server) -> None:
    first = await server.make_user("ada", display_name="first")
    assert await server.post("/api/users/create", {"username": "ada", "role": "admin"}) == error(
        409, "username already exists"
    )
    assert (await server.post("/api/users/list", {}))[1]["users"] == [first["user"]]


@requirement("M-58", "M-68")
async def test_a_client_id_stays_with_its_user_even_after_revocation(server: Server) -> None:
    for username in ("ada", "eve"):
        await server.make_user(username)
    _, made = await server.post("/api/agent-tokens/create", {"username": "ada", "client_id": "r1"})
    await server.post("/api/agent-tokens/revoke", {"username": "ada", "token_id": made["token_id"]})
    taken = error(409, "client_id belongs to another user")
    body = {"username": "eve", "client_id": "r1"}
    assert await server.post("/api/agent-tokens/create", body) == taken
    assert await server.post("/api/agent-tokens/register_hash", {**body, **known("agent", "x")}) == taken
    assert (await server.post("/api/agent-tokens/list", {"username": "eve"}))[1]["count"] == 0
    assert (await server.post("/api/agent-tokens/create", {**body, "username": "ada"}))[0] == 200


@requirement("M-58", "M-54")
async def test_a_hash_is_registered_once_for_everybody(server: Server) -> None:
    for username in ("ada", "eve"):
        await server.make_user(username)
    body = {"username": "ada", **known("pat", "x")}
    assert (await server.post("/api/tokens/register_hash", body))[0] == 200
    for username in ("ada", "eve"):
        again = await server.post("/api/tokens/register_hash", {**body, "username": username})
        assert again == error(409, "token_hash is already registered")
    assert (await server.post("/api/tokens/list", {"username": "eve"}))[1]["count"] == 0


@requirement("M-58")
async def test_one_of_many_racing_changes_wins(server: Server) -> None:
    await asyncio.gather(*(server.make_user(f"user-{number}") for number in range(8)))
    users = [server.post("/api/users/create", {"username": "ada"}) for _ in range(8)]
    assert sorted(status for status, _ in await asyncio.gather(*users)) == [200] + [409] * 7
    claims = [
        server.post("/api/agent-tokens/create", {"username": f"user-{number}", "client_id": "r1"})
        for number in range(8)
    ]
    assert sorted(status for status, _ in await asyncio.gather(*claims)) == [200] + [409] * 7
    hashes = [
        server.post("/api/tokens/register_hash", {"username": f"user-{number}", **known("pat", "x")})
        for number in range(8)
    ]
    assert sorted(status for status, _ in await asyncio.gather(*hashes)) == [200] + [409] * 7
    _, made = await server.post("/api/tokens/create", {"username": "ada"})
    body = {"username": "ada", "token_id": made["token_id"]}
    ends = await asyncio.gather(*(server.post("/api/tokens/revoke", body) for _ in range(8)))
    assert all(end == ends[0] for end in ends)


@requirement("M-58")
async def test_no_token_is_given_to_a_disabled_user(server: Server) -> None:
    await server.make_user("ada")
    await server.disable("ada")
    disabled = error(403, "the user is disabled")
    assert await server.post("/api/tokens/create", {"username": "ada"}) == disabled
    assert await server.post("/api/agent-tokens/create", {"username": "ada", "client_id": "r1"}) == disabled
    assert (
        await server.post("/api/tokens/register_hash", {"username": "ada", **known("pat", "x")}) == disabled
    )
    _, listed = await server.post("/api/users/list", {})
    assert (listed["users"][0]["disabled"], listed["users"][0]["disabled_at"]) == (True, server.now)


@requirement("M-58")
async def test_unknown_scopes_and_past_expiries_are_refused(server: Server) -> None:
    await server.make_user("ada")
    body = {"username": "ada", "client_id": "r1"}
    for path, scopes in (
        ("/api/tokens/create", ["runtime:read", "no:scope"]),
        ("/api/tokens/create", [""]),
        ("/api/agent-tokens/create", ["runtime:read"]),
        ("/api/agent-tokens/create", ["agent:poll", "admin"]),
    ):
        wanted = (
            {"username": "ada", "scopes": scopes}
            if path == "/api/tokens/create"
            else {**body, "scopes": scopes}
        )
        assert await server.post(path, wanted) == error(400, "unknown scope")
    for expires_at in (0, server.now - 1, server.now):
        past = error(400, "expires_at is in the past")
        assert await server.post("/api/tokens/create", {"username": "ada", "expires_at": expires_at}) == past
        assert await server.post("/api/agent-tokens/create", {**body, "expires_at": expires_at}) == past


@requirement("M-58")
async def test_users_that_are_absent_or_foreign_look_the_same(server: Server) -> None:
    made = await server.make_user("ada", issue_credential=True)
    await server.make_user("eve")
    _, theirs = await server.post("/api/tokens/create", {"username": "eve"})
    pat = await server.make_pat("ada", "admin", "account:manage")
    for username in ("eve", "nobody"):
        named = {"username": username}
        for token in (pat, made["account_credential"]):
            assert await server.post("/api/tokens/list", named, token) == NO_USER
            assert (
                await server.post("/api/tokens/revoke", {**named, "token_id": theirs["token_id"]}, token)
                == NO_USER
            )
            assert (
                await server.post("/api/tokens/register_hash", {**named, **known("pat", "x")}, token)
                == NO_USER
            )
        assert await server.post("/api/tokens/create", named, pat) == NO_USER
        assert await server.post("/api/agent-tokens/create", {**named, "client_id": "r1"}, pat) == NO_USER
        assert await server.post("/api/agent-tokens/list", named, pat) == NO_USER
    assert await server.post("/api/tokens/list", {"username": "nobody"}) == NO_USER
