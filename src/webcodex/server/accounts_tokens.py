"""Makes, registers, shows and revokes tokens (M-51..M-58); each function is one transaction."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from webcodex.core import access
from webcodex.core.access import Credential, Scope
from webcodex.core.json_value import JsonObject
from webcodex.server import accounts_secrets, accounts_users
from webcodex.server.accounts_users import Refusal, Request
from webcodex.storage import accounts
from webcodex.storage.database import Transaction

OF_USER: Final = (Credential.PAT.value, Credential.ACCOUNT.value)
OF_RUNNER: Final = (Credential.RUNNER.value,)

_KNOWN: Final = frozenset(scope.value for scope in Scope)
_RUNNER_SCOPES: Final = tuple(scope.value for scope in access.RUNNER_SCOPES)

Work = Callable[[Transaction, Request], JsonObject]


def create(kind: Credential) -> Work:
    """Returns the transaction that makes a token of ``kind`` and shows it once (M-51, M-55)."""

    def work(tx: Transaction, request: Request) -> JsonObject:
        secret, token, user = _issued(tx, request, kind)
        accounts.add_token(tx, token)
        answer: JsonObject = {
            "success": True,
            "token": secret,
            "token_prefix": token.token_prefix,
            "token_id": token.token_id,
            "name": token.name,
            "username": user.username,
            "user_id": user.user_id,
            "scopes": list(token.scopes),
            "created_at": token.created_at,
            "expires_at": token.expires_at,
        }
        if kind is Credential.RUNNER:
            answer |= {"kind": token.kind, "allowed_client_id": token.allowed_client_id}
        return answer

    return work


def register(kind: Credential) -> Work:
    """Returns the transaction that keeps the hash of a token made elsewhere (M-54, M-56)."""

    def work(tx: Transaction, request: Request) -> JsonObject:
        _, token, _ = _issued(tx, request, kind)
        token = replace(token, token_hash=request.body.token_hash, token_prefix=request.body.token_prefix)
        if accounts.token_of_hash(tx, token.token_hash) is not None:
            raise Refusal(409, "token_hash is already registered")
        accounts.add_token(tx, token)
        return {"success": True, "token": summary(token)}

    return work


def listed(kinds: tuple[str, ...]) -> Work:
    """Returns the transaction that shows a user's newest tokens of ``kinds`` (M-52)."""

    def work(tx: Transaction, request: Request) -> JsonObject:
        user = accounts_users.named(tx, request.caller, request.body.username)
        tokens = [summary(token) for token in accounts.tokens(tx, user.user_id, kinds)]
        return {
            "success": True,
            "username": user.username,
            "user_id": user.user_id,
            "tokens": tokens,
            "count": len(tokens),
        }

    return work


def revoke(kinds: tuple[str, ...]) -> Work:
    """Returns the transaction that revokes a token; again gives the same, the first time stays (M-53)."""

    def work(tx: Transaction, request: Request) -> JsonObject:
        user = accounts_users.named(tx, request.caller, request.body.username)
        token = accounts.token(tx, user.user_id, request.body.token_id, kinds)
        if token is None:
            raise Refusal(404, "Token not found")
        if token.revoked_at is None:
            now = request.services.now()
            accounts.revoke(tx, token.token_id, now)
            token = replace(token, revoked_at=now)
        return {"success": True, "token": summary(token)}

    return work


def summary(token: accounts.Token) -> JsonObject:
    """Returns ``token`` as 10.9 shows it: neither hash nor plaintext."""
    return {
        "id": token.token_id,
        "user_id": token.user_id,
        "name": token.name,
        "token_prefix": token.token_prefix,
        "scopes": list(token.scopes),
        "kind": token.kind,
        "allowed_client_id": token.allowed_client_id,
        "created_at": token.created_at,
        "last_used_at": token.last_used_at,
        "revoked_at": token.revoked_at,
        "expires_at": token.expires_at,
    }


def _issued(tx: Transaction, request: Request, kind: Credential) -> tuple[str, accounts.Token, accounts.User]:
    """Returns a token that the caller may make, not stored yet, and its user (M-57, M-58)."""
    body, caller = request.body, request.caller
    scopes = _scopes(body.scopes, kind)
    if body.expires_at is not None and body.expires_at <= request.services.now():
        raise Refusal(400, "expires_at is in the past")
    user = accounts_users.named(tx, caller, body.username)
    if user.disabled_at is not None:
        raise Refusal(403, "the user is disabled")
    _check_may_give(caller, kind, scopes)
    client_id = body.client_id if kind is Credential.RUNNER else None
    if client_id is not None and accounts.owner_of_client(tx, client_id) not in {None, user.user_id}:
        raise Refusal(409, "client_id belongs to another user")
    secret, token = accounts_secrets.minted(
        request.services,
        user,
        kind,
        name=body.name,
        scopes=scopes,
        client_id=client_id,
        expires_at=body.expires_at,
    )
    return secret, token, user


def _scopes(wanted: list[str] | None, kind: Credential) -> tuple[str, ...]:
    is_runner = kind is Credential.RUNNER
    if wanted is None:
        return _RUNNER_SCOPES if is_runner else ()
    if not (frozenset(_RUNNER_SCOPES) if is_runner else _KNOWN).issuperset(wanted):
        raise Refusal(400, "unknown scope")
    return tuple(dict.fromkeys(wanted))


def _check_may_give(caller: access.Caller, kind: Credential, scopes: tuple[str, ...]) -> None:
    if caller.is_admin:
        return
    if Scope.ADMIN.value in scopes:
        raise Refusal(403, "the scope admin is given by admins only")
    if caller.credential is not Credential.PAT:
        return
    if kind is Credential.RUNNER:
        may_give = access.has_scope(caller, Scope.ACCOUNT_MANAGE)
    else:
        may_give = caller.scopes.issuperset(scopes)
    if not may_give:
        raise Refusal(403, "scope exceeds the caller")
