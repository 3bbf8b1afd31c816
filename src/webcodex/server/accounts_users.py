"""Makes and shows users (M-48..M-50); each function is one transaction."""

from dataclasses import dataclass
from typing import Any, Final

from webcodex.core import access, ids
from webcodex.core.access import Credential
from webcodex.core.json_value import JsonObject
from webcodex.server import accounts_bodies, accounts_secrets
from webcodex.storage import accounts
from webcodex.storage.database import Transaction
from webcodex.tools.ports import Services

NO_USER: Final = "User not found"


class Refusal(Exception):
    """The change is refused with ``status``; the text may be shown."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One checked request to an account route."""

    caller: access.Caller
    body: Any
    services: Services


def create(tx: Transaction, request: Request) -> JsonObject:
    """Leaves a new user, and shows its account credential once if one is wanted (M-48).

    Raises:
        Refusal: the name is taken.

    """
    body: accounts_bodies.NewUser = request.body
    now = request.services.now()
    user = accounts.User(
        user_id=ids.mint("user_", request.services.entropy(ids.ENTROPY_BYTES)),
        username=body.username,
        display_name=body.display_name,
        role=body.role.value,
        disabled_at=None,
        created_at=now,
        updated_at=now,
    )
    if not accounts.add_user(tx, user):
        raise Refusal(409, "username already exists")
    answer: JsonObject = {"success": True, "user": shown(user)}
    if body.issue_credential:
        secret, token = accounts_secrets.minted(request.services, user, Credential.ACCOUNT)
        accounts.add_token(tx, token)
        answer |= {"account_credential": secret, "account_credential_prefix": token.token_prefix}
    return answer


def listed(tx: Transaction, _request: Request) -> JsonObject:
    """Returns the users by name (M-49)."""
    users = [shown(user) for user in accounts.users(tx)]
    return {"success": True, "users": users, "count": len(users)}


def me(tx: Transaction, request: Request) -> JsonObject:
    """Returns the caller's own user (M-50).

    Raises:
        Refusal: the caller is no user.

    """
    user_id = request.caller.user_id
    user = None if user_id is None else accounts.user(tx, user_id)
    if user is None:
        raise Refusal(404, NO_USER)
    return {"success": True, "user": shown(user)}


def named(tx: Transaction, caller: access.Caller, username: str) -> accounts.User:
    """Returns the user whose tokens ``caller`` may see and change: itself, or any for an admin (M-58).

    Raises:
        Refusal: another user or none, which looks the same.

    """
    is_allowed = caller.is_admin or caller.username == username
    user = accounts.user_named(tx, username) if is_allowed else None
    if user is None:
        raise Refusal(404, NO_USER)
    return user


def shown(user: accounts.User) -> JsonObject:
    """Returns ``user`` as 10.9 shows it."""
    return {
        "id": user.user_id,
        "username": user.username,
        "display_name": user.display_name,
        "role": user.role,
        "disabled": user.disabled_at is not None,
        "disabled_at": user.disabled_at,
        "created_at": user.created_at,
        "updated_at": user.updated_at,
    }
