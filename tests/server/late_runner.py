"""A Runner whose answer comes when a test lets it."""

import asyncio
from collections.abc import Mapping
from typing import Any

from webcodex.core.json_value import JsonObject
from webcodex.storage import projects
from webcodex.tools import ports

READ: JsonObject = {"items": [{"path": "a.py", "success": True}], "output_truncated": False}


class LateRunner:
    """Answers nothing before ``may_answer``, and notes what each request was given."""

    def __init__(self) -> None:
        self.answer: JsonObject | ports.RunnerError = READ
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.was_given_up = asyncio.Event()
        self.budgets: list[tuple[str, float]] = []

    async def call(
        self,
        project: projects.Project,
        kind: str,
        _body: Mapping[str, Any],
        *,
        budget_s: float,
        requested_by: str,
        connection_id: str | None = None,
    ) -> JsonObject:
        assert project.client_id
        assert connection_id is None
        assert requested_by
        self.budgets.append((kind, budget_s))
        self.was_asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.was_given_up.set()
            raise
        if isinstance(self.answer, ports.RunnerError):
            raise self.answer
        return self.answer

    def is_connected(self, client_id: str) -> bool:
        return bool(client_id)
