"""Serves ``/api/actions/<tool>`` (M-61): one path per model-visible tool, its arguments as the body."""

from typing import Any, Final

from webcodex.core import access
from webcodex.server import answers, rest
from webcodex.tools import registry
from webcodex.tools.contract import Audience, BadArguments, Call, Refused
from webcodex.tools.ports import Services

RECORDER_KEY: Final = "recording_session_id"


def path(name: str) -> str:
    """Returns where the tool of that name is called."""
    return f"/api/actions/{name}"


def served() -> dict[str, str]:
    """Returns the name of each tool by its path; a hidden tool has none, so it is not found (M-20)."""
    return {
        path(name): tool.name
        for tool in registry.TOOLS
        if tool.audience is Audience.MODEL
        for name in (tool.name, *tool.aliases)
    }


class Action:
    """Answers the calls of one tool."""

    def __init__(self, services: Services, tool_name: str) -> None:
        self._services = services
        self._tool_name = tool_name

    async def answer(self, caller: access.Caller, body: dict[str, Any]) -> answers.Answer:
        """Returns the ToolResult of the call whose arguments ``body`` holds, as `/api/tools/call` would."""
        try:
            return rest.shown(await registry.invoke(self._services, self._understood(caller, body)))
        except Refused as refused:
            return rest.refusal(refused)

    def _understood(self, caller: access.Caller, body: dict[str, Any]) -> Call:
        recorder = body.get(RECORDER_KEY)
        if recorder is not None and not isinstance(recorder, str):
            rest.check_before_structure(caller, self._tool_name, is_recorded=True)
            raise BadArguments(rest.RECORDER_FAULT)
        return Call(
            caller=caller,
            audience=Audience.MODEL,
            name=self._tool_name,
            arguments={key: value for key, value in body.items() if key != RECORDER_KEY},
            recorder=recorder,
        )
