"""Serves the account routes (10.9): who may come in, which fields, and which transaction."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from webcodex.core import access
from webcodex.core.access import Credential
from webcodex.core.json_value import JsonObject
from webcodex.server import accounts_bodies, accounts_tokens, accounts_users, answers, body_fields
from webcodex.server.accounts_tokens import OF_RUNNER, OF_USER
from webcodex.server.accounts_users import Refusal, Request
from webcodex.storage.database import OutcomeUnknown, Transaction
from webcodex.tools.contract import Params
from webcodex.tools.ports import Services


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountRoute:
    """One path of 10.9."""

    body: type[Params]
    work: Callable[[Transaction, Request], JsonObject]
    changes: bool
    admins_only: bool = False


ROUTES: Final = {
    "/api/users/create": AccountRoute(
        body=accounts_bodies.NewUser, work=accounts_users.create, changes=True, admins_only=True
    ),
    "/api/users/list": AccountRoute(
        body=accounts_bodies.Nothing, work=accounts_users.listed, changes=False, admins_only=True
    ),
    "/api/users/me": AccountRoute(body=accounts_bodies.Nothing, work=accounts_users.me, changes=False),
    "/api/tokens/create": AccountRoute(
        body=accounts_bodies.NewPat, work=accounts_tokens.create(Credential.PAT), changes=True
    ),
    "/api/tokens/list": AccountRoute(
        body=accounts_bodies.OfUser, work=accounts_tokens.listed(OF_USER), changes=False
    ),
    "/api/tokens/revoke": AccountRoute(
        body=accounts_bodies.OneToken, work=accounts_tokens.revoke(OF_USER), changes=True
    ),
    "/api/tokens/register_hash": AccountRoute(
        body=accounts_bodies.KnownPat, work=accounts_tokens.register(Credential.PAT), changes=True
    ),
    "/api/agent-tokens/create": AccountRoute(
        body=accounts_bodies.NewRunnerToken, work=accounts_tokens.create(Credential.RUNNER), changes=True
    ),
    "/api/agent-tokens/list": AccountRoute(
        body=accounts_bodies.OfUser, work=accounts_tokens.listed(OF_RUNNER), changes=False
    ),
    "/api/agent-tokens/revoke": AccountRoute(
        body=accounts_bodies.OneToken, work=accounts_tokens.revoke(OF_RUNNER), changes=True
    ),
    "/api/agent-tokens/register_hash": AccountRoute(
        body=accounts_bodies.KnownRunnerToken, work=accounts_tokens.register(Credential.RUNNER), changes=True
    ),
}


class Accounts:
    """Answers one of ``ROUTES``."""

    def __init__(self, services: Services, route: AccountRoute) -> None:
        self._services = services
        self._route = route

    async def answer(self, caller: access.Caller, body: dict[str, Any]) -> answers.Answer:
        """Returns what the route's transaction returns, or its refusal (M-58).

        Raises:
            StoreUnavailable: nothing was changed.

        """
        route, database = self._route, self._services.database
        if route.admins_only and not caller.is_admin:
            return answers.error(403, "admin or bootstrap auth required")
        try:
            fields = body_fields.read(route.body, body)
            request = Request(caller=caller, body=fields, services=self._services)
            run = database.write if route.changes else database.read
            return answers.of(200, await run(lambda tx: route.work(tx, request)))
        except body_fields.BadField as refused:
            return answers.error(400, str(refused))
        except Refusal as refused:
            return answers.error(refused.status, str(refused))
        except OutcomeUnknown:
            return answers.error(500, "The change may or may not be stored; list before trying again")
