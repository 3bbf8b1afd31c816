"""Serves the runtime console (M-44): who may look, which fields, and which page in one read transaction."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from webcodex.core import access
from webcodex.core.access import Scope
from webcodex.core.json_value import JsonObject
from webcodex.server import (
    answers,
    body_fields,
    console_cursor,
    console_pages,
    console_projects,
    console_sessions,
)
from webcodex.storage.database import Transaction
from webcodex.tools.contract import Params
from webcodex.tools.ports import Services

UNAVAILABLE: Final = answers.error(500, "Runtime Console unavailable")

_INVALID: Final = answers.error(400, "Invalid request")
_READS: Final = (
    (Scope.RUNTIME_READ, answers.error(403, "Runtime read access required")),
    (Scope.PROJECT_READ, answers.error(403, "Project read access required")),
)  # C-13


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsoleRoute:
    """One path of 10.8."""

    body: type[Params]
    page: Callable[[Transaction, Any], JsonObject]


ROUTES: Final = {
    "/api/runtime-console/projects": ConsoleRoute(
        body=console_projects.ProjectsBody, page=console_projects.page
    ),
    "/api/runtime-console/workflow-sessions": ConsoleRoute(
        body=console_sessions.SessionsBody, page=console_sessions.page
    ),
}


class Console:
    """Answers one of ``ROUTES``."""

    def __init__(self, services: Services, path: str) -> None:
        self._services = services
        self._path = path
        self._route = ROUTES[path]

    async def answer(self, caller: access.Caller, body: dict[str, Any]) -> answers.Answer:
        """Returns the page that was asked for, or its refusal (M-44).

        Raises:
            StoreUnavailable: the store could not be read.

        """
        for scope, refusal in _READS:
            if not access.has_scope(caller, scope):
                return refusal
        try:
            asked = console_pages.Asked(
                route=self._path,
                caller=caller,
                body=body_fields.read(self._route.body, body),
                services=self._services,
            )
            shown = await self._services.database.read(lambda tx: self._route.page(tx, asked))
        except (body_fields.BadField, console_cursor.BadCursor):
            return _INVALID
        except console_pages.NotVisible:
            return answers.NOT_FOUND
        return answers.of(200, shown)
