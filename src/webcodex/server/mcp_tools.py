"""Shows the tools to an MCP client: the entries of ``tools/list``, built at start-up (M-31, M-32)."""

from collections.abc import Iterable
from typing import Any

from webcodex.core import access
from webcodex.tools import gateway_tools, registry, schemas
from webcodex.tools.contract import Audience, Profile, Tool


class Catalogue:
    """Every model-visible tool as a client sees it."""

    def __init__(self, tools: Iterable[Tool] = registry.TOOLS, *, compact: bool) -> None:
        """Builds the entries; ``compact`` leaves out output schemas and cuts descriptions (M-32)."""
        self._entries = {
            tool.name: schemas.described(tool, compact=compact)
            for tool in tools
            if tool.audience is Audience.MODEL
        }

    def listed(self, caller: access.Caller, profile: Profile) -> list[dict[str, Any]]:
        """Returns the entries that ``caller`` is shown, in the order of M-31."""
        shown = registry.listed(caller)
        if profile is Profile.HOST_CODE_MODE:
            shown = [
                tool for tool in shown if tool.name in registry.SHORT_SET or tool is gateway_tools.GATEWAY
            ]
        return [self._entries[tool.name] for tool in shown]
