"""Reads the two headers that say which host is calling, and how long that host waits (10.6).

Never repeats a value of either header.
"""

import re
from dataclasses import dataclass
from typing import Final

from webcodex.server.mcp_answers import Breach, Code
from webcodex.server.mcp_envelope import Headers
from webcodex.server.settings import Settings
from webcodex.tools import contract
from webcodex.tools.contract import Profile, Waits

PROFILE_HEADER: Final = b"x-webcodex-mcp-profile"
BUDGET_HEADER: Final = b"x-webcodex-mcp-budget-secs"

PROFILE_TEXT: Final = "X-WebCodex-MCP-Profile must be direct or host_code_mode"
BUDGET_TEXT: Final = "X-WebCodex-MCP-Budget-Secs must be a positive integer"
HEADERS_TEXT: Final = "WebCodex MCP headers must not be repeated and must be ASCII"

_POSITIVE: Final = re.compile(r"0*[1-9][0-9]*", re.ASCII)
_COMPARABLE_DIGITS: Final = 9


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """The host of one request; nothing is remembered between requests (M-36)."""

    profile: Profile
    budget_s: int


def host(headers: Headers, configured: Settings) -> Host:
    """Returns the host that the headers of one request describe (M-36, M-37, M-39).

    Raises:
        Breach: a header is empty, repeated, not ASCII or has an unknown value.

    """
    profiles, budgets = headers.get(PROFILE_HEADER, []), headers.get(BUDGET_HEADER, [])
    for values in (profiles, budgets):
        if len(values) > 1 or any(not value.isascii() for value in values):
            raise _refused(HEADERS_TEXT)
    profile = _profile(profiles[0]) if profiles else configured.mcp_host_profile
    most = configured.host_budget_s or contract.DEFAULT_BUDGET_S[profile]
    return Host(profile=profile, budget_s=min(most, _budget(budgets[0], most)) if budgets else most)


def waits(caller: Host, configured: Settings) -> Waits:
    """Returns the waits of ``caller``, within what the operator configured (M-38, M-39)."""
    own = contract.waits_of(caller.profile, caller.budget_s)
    return Waits(
        safe_s=own.safe_s,
        handoff_s=own.handoff_s,
        sync_s=min(own.sync_s, configured.sync_wait_max_s or own.sync_s),
        observe_s=min(own.observe_s, configured.continuation_wait_max_s or own.observe_s),
    )


def _profile(value: str) -> Profile:
    try:
        return Profile(value)
    except ValueError:
        raise _refused(PROFILE_TEXT) from None


def _budget(value: str, most: int) -> int:
    if not _POSITIVE.fullmatch(value):
        raise _refused(BUDGET_TEXT)
    digits = value.lstrip("0")
    return most if len(digits) > _COMPARABLE_DIGITS else int(digits)


def _refused(text: str) -> Breach:
    return Breach(Code.INVALID_PARAMS, text, status=400)
