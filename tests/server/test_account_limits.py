"""What the fields of the account routes may hold, and what a token may give away (M-57, M-68)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server import in_process
from tests.server.in_process import Server

EXCEEDS = (403, {"status": 403, "error": "scope exceeds the caller"})
NO_ADMIN = (403, {"status": 403, "error": "the scope admin is given by admins only"})
HASH = {"token_hash": "a" * 64, "token_prefix": "wc_pat_aaaaaaaaa"}
USER, PAT, AGENT = "/api/users/create", "/api/tokens/create", "/api/agent-tokens/create"
KNOWN, KNOWN_AGENT = "/api/tokens/register_hash", "/api/agent-tokens/register_hash"

WRONG: list[tuple[str, dict[str, Any], str]] = [
    (USER, {}, "Missing field: username"),
    (USER, {"username": ""}, "Bad value of field: username"),
    (USER, {"username": "a" * 65}, "Bad value of field: username"),
    (USER, {"username": "Ada"}, "Bad value of field: username"),
    (USER, {"username": "ada\n"}, "Bad value of field: username"),
    (USER, {"username": "\ud800"}, "Bad value of field: username"),
    (USER, {"username": 7}, "Wrong type of field: username"),
    (USER, {"username": None}, "Wrong type of field: username"),
    (USER, {"username": "a", "role": "owner"}, "Bad value of field: role"),
    (USER, {"username": "a", "display_name": "x" * 129}, "Bad value of field: display_name"),
    (USER, {"username": "a", "display_name": "x\0"}, "Bad value of field: display_name"),
    (USER, {"username": "a", "issue_credential": 1}, "Wrong type of field: issue_credential"),
    (USER, {"username": "a", "password": "x"}, "Unknown field"),
    ("/api/users/list", {"limit": 1}, "Unknown field"),
    ("/api/users/me", {"username": "a"}, "Unknown field"),
    (PAT, {"username": "ada", "name": "n" * 129}, "Bad value of field: name"),
    (PAT, {"username": "ada", "scopes": "runtime:read"}, "Wrong type of field: scopes"),
    (PAT, {"username": "ada", "scopes": [1]}, "Wrong type of field: scopes"),
    (PAT, {"username": "ada", "expires_at": "soon"}, "Wrong type of field: expires_at"),
    (PAT, {"username": "ada", "expires_at": True}, "Wrong type of field: expires_at"),
    (PAT, {"username": "ada", "expires_at": 2**53}, "Bad value of field: expires_at"),
    (PAT, {"username": "ada", "client_id": "r1"}, "Unknown field"),
    (AGENT, {"username": "ada"}, "Missing field: client_id"),
    (AGENT, {"username": "ada", "client_id": ""}, "Bad value of field: client_id"),
    (AGENT, {"username": "ada", "client_id": "r" * 81}, "Bad value of field: client_id"),
    (AGENT, {"username": "ada", "client_id": "r:1"}, "Bad value of field: client_id"),
    (KNOWN, {"username": "ada", **HASH, "token_hash": "A" * 64}, "Bad value of field: token_hash"),
    (KNOWN, {"username": "ada", **HASH, "token_hash": "a" * 63}, "Bad value of field: token_hash"),
    (KNOWN, {"username": "ada", **HASH, "token_prefix": ""}, "Bad value of field: token_prefix"),
    (KNOWN, {"username": "ada", **HASH, "token_prefix": "p" * 17}, "Bad value of field: token_prefix"),
    (KNOWN, {"username": "ada", "token_hash": "a" * 64}, "Missing field: token_prefix"),
    (KNOWN_AGENT, {"username": "ada", **HASH}, "Missing field: client_id"),
    ("/api/tokens/list", {}, "Missing field: username"),
    ("/api/tokens/revoke", {"username": "ada"}, "Missing field: token_id"),
]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with in_process.server(tmp_path) as running:
        yield running


async def given(server: Server, token: str | None, *scopes: str) -> set[int]:
    """The statuses of both ways to a PAT of ada with ``scopes``."""
    body = {"username": "ada", "scopes": list(scopes)}
    digest = f"{len(scopes)}{server.now}".encode().hex().rjust(64, "0")
    server.now += 1
    made, _ = await server.post(PAT, body, token)
    registered, _ = await server.post(KNOWN, {**body, **HASH, "token_hash": digest}, token)
    return {made, registered}


@requirement("M-57")
async def test_every_field_has_its_bounds_and_is_refused_by_name(server: Server) -> None:
    await server.make_user("ada", issue_credential=True)
    for path, body, text in WRONG:
        token = await server.make_pat("ada") if path == "/api/users/me" else in_process.TOKEN
        assert await server.post(path, body, token) == (400, {"status": 400, "error": text}), (path, body)
    assert [user["username"] for user in (await server.post("/api/users/list", {}))[1]["users"]] == ["ada"]


@requirement("M-57")
async def test_the_longest_and_shortest_values_are_taken(server: Server) -> None:
    longest = {"username": "a_-9" * 16, "display_name": "é" * 128, "role": "user"}
    assert (await server.post(USER, longest))[0] == 200
    await server.make_user("a", display_name=None, role=None)
    for body in ({"name": ""}, {"name": "ü" * 128}, {"expires_at": 2**53 - 1}, {"scopes": None}):
        assert (await server.post(PAT, {"username": "a", **body}))[0] == 200
    for client_id in ("r", "A.b-_9" * 13):
        assert (await server.post(AGENT, {"username": "a", "client_id": client_id}))[0] == 200


@requirement("M-57", "M-68")
async def test_a_pat_gives_only_scopes_that_it_carries(server: Server) -> None:
    await server.make_user("ada")
    token = await server.make_pat("ada", "project:read", "runtime:read")
    for scopes in ((), ("project:read",), ("runtime:read", "project:read")):
        assert await given(server, token, *scopes) == {200}
    for scope in ("project:write", "account:manage", "agent:poll"):
        body = {"username": "ada", "scopes": ["project:read", scope]}
        assert await server.post(PAT, body, token) == EXCEEDS
        assert await server.post(KNOWN, {**body, **HASH}, token) == EXCEEDS
    runner = {"username": "ada", "client_id": "r1"}
    assert await server.post(AGENT, runner, token) == EXCEEDS
    assert await server.post(KNOWN_AGENT, {**runner, **HASH}, token) == EXCEEDS
    assert (await server.post("/api/agent-tokens/list", {"username": "ada"}))[1]["count"] == 0


@requirement("M-57", "M-68")
async def test_a_pat_with_account_manage_gives_runner_tokens(server: Server) -> None:
    await server.make_user("ada")
    token = await server.make_pat("ada", "account:manage")
    runner = {"username": "ada", "client_id": "r1"}
    assert (await server.post(AGENT, runner, token))[0] == 200
    assert (await server.post(KNOWN_AGENT, {**runner, **HASH}, token))[0] == 200
    assert await server.post(PAT, {"username": "ada", "scopes": ["runtime:read"]}, token) == EXCEEDS


@requirement("M-58", "C-11")
async def test_the_scope_admin_comes_from_admins_only(server: Server) -> None:
    made = await server.make_user("ada", issue_credential=True)
    wanted = {"username": "ada", "scopes": ["admin"]}
    assert await server.post(KNOWN, {**wanted, **HASH}, made["account_credential"]) == NO_ADMIN
    for scope in ("runtime:read", "account:manage", "admin"):
        assert await server.post(PAT, wanted, await server.make_pat("ada", scope)) == NO_ADMIN
    assert await given(server, in_process.TOKEN, "admin") == {200}


@requirement("M-57", "M-68")
async def test_bootstrap_admins_and_account_credentials_are_not_limited(server: Server) -> None:
    made = await server.make_user("ada", issue_credential=True)
    await server.make_user("root", role="admin")
    admin = await server.make_pat("root", "account:manage")
    for token in (in_process.TOKEN, admin):
        assert await given(server, token, "project:write", "admin") == {200}
        assert (await server.post(AGENT, {"username": "ada", "client_id": "r1"}, token))[0] == 200
    wanted = {"username": "ada", "scopes": ["project:write", "account:manage"], **HASH}
    assert (await server.post(KNOWN, wanted, made["account_credential"]))[0] == 200
    runner = {"username": "ada", "client_id": "r1", **HASH, "token_hash": "b" * 64}
    assert (await server.post(KNOWN_AGENT, runner, made["account_credential"]))[0] == 200


@requirement("M-57", "C-11")
async def test_the_scope_admin_alone_makes_nobody_an_admin(server: Server) -> None:
    await server.make_user("ada")
    await server.make_user("eve")
    token = await server.make_pat("ada", "admin")
    assert (await server.post("/api/tokens/list", {"username": "eve"}, token))[0] == 404
    assert (await server.post("/api/tokens/list", {"username": "ada"}, token))[0] == 200
    assert await server.post(PAT, {"username": "ada", "scopes": ["runtime:read"]}, token) == EXCEEDS
