"""Says what a Tool is: one frozen record that every edge, document and test reads.

A call is refused in one of two ways:

``Refused``  before the tool runs, answered by the edge as a protocol error
  ``UnknownTool``   no such tool on this road (M-17, M-20)
  ``MissingScope``  the caller lacks a scope (M-07)
  ``BadArguments``  the arguments do not have the tool's structure (M-13)
``ToolError``  a failed ToolResult with a stable ``error_kind`` (M-14, M-15)
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, model_validator

from webcodex.core import access, sessions
from webcodex.core.access import Scope
from webcodex.core.json_value import JsonObject
from webcodex.storage.database import Transaction
from webcodex.storage.projects import Project
from webcodex.tools import errors
from webcodex.tools.ports import Progress, Services, unheard


class Refused(Exception):
    """The call never reached a tool; the text names no input."""


class UnknownTool(Refused):
    """No tool of that name is served on this road."""


class MissingScope(Refused):
    """The caller lacks ``scope``."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(f"missing required scope: {scope.value}")
        self.scope = scope


class BadArguments(Refused):
    """The arguments do not have the structure of the tool's schema."""


class ToolError(Exception):
    """A tool-level failure; ``error_kind`` fixes its sentence and its recovery word."""

    facts: Mapping[str, Any]
    """What the finished event says of the failed call beside its word (S-10, S-12)."""

    def __init__(self, error_kind: str, *, state_changed: bool | None = False, **extra: object) -> None:
        self.error_kind = error_kind
        self.facts = {}
        self.sentence, self.recovery_kind = errors.WORDS[error_kind]
        self.state_changed = state_changed
        self.extra: dict[str, Any] = extra
        super().__init__(self.sentence)


class Audience(StrEnum):
    """Who may see a tool: any model, or only an adapter at the REST call route (M-20)."""

    MODEL = "model"
    ADAPTER = "adapter"


class Recording(StrEnum):
    """Whether a call is meaningful work, which Sessions record, or adapter traffic (S-50, S-51)."""

    BUSINESS = "business"
    NONE = "none"


class Effect(StrEnum):
    """What a tool does to the world (M-35)."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    COLLABORATE = "collaborate"
    ADMINISTER = "administer"


class Profile(StrEnum):
    """Which tools a host lists and how long it waits (M-36)."""

    DIRECT = "direct"
    HOST_CODE_MODE = "host_code_mode"


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """How many seconds one call may wait, by what it waits for (M-38)."""

    safe_s: int
    handoff_s: int
    sync_s: int
    observe_s: int


DEFAULT_BUDGET_S: Final = {Profile.DIRECT: 60, Profile.HOST_CODE_MODE: 55}  # M-38
RESERVE_S: Final = 5  # M-38, what a host needs around a wait
_MOST_S: Final = {Profile.DIRECT: (10, 60, 100), Profile.HOST_CODE_MODE: (5, 5, 5)}  # M-38


def waits_of(profile: Profile, budget_s: int) -> Waits:
    """Returns the waits of a host of that profile that gives up after ``budget_s`` seconds (M-38)."""
    safe = max(1, budget_s - RESERVE_S)
    handoff, sync, observe = (min(most, safe) for most in _MOST_S[profile])
    return Waits(safe_s=safe, handoff_s=handoff, sync_s=sync, observe_s=observe)


DIRECT_WAITS: Final = waits_of(Profile.DIRECT, DEFAULT_BUDGET_S[Profile.DIRECT])


@dataclass(frozen=True, kw_only=True, slots=True)
class Annotations:
    """What a tool tells a host before it is called (M-19)."""

    read_only: bool
    destructive: bool = False
    idempotent: bool = True
    open_world: bool = False


READS: Final = Annotations(read_only=True)


class Params(BaseModel):
    """The base of every tool's arguments: closed, strict, and a null optional argument is absent (M-13)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        if not isinstance(value, dict) or None not in value.values():
            return value
        return {
            key: item
            for key, item in value.items()
            if item is not None or key not in cls.model_fields or cls.model_fields[key].is_required()
        }


class Result(BaseModel):
    """The base of every tool's output; it documents and tests the output and is never built for an answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What a call may touch, after authority was checked."""

    session: sessions.Session | None = None
    project: Project | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request for a tool, as an edge understood it.

    ``fault`` says what is wrong around the arguments; it is refused with their structure (C-22 row 8).
    """

    caller: access.Caller
    audience: Audience
    name: str
    arguments: Mapping[str, Any]
    recorder: str | None = None
    profile: Profile = Profile.DIRECT
    waits: Waits = DIRECT_WAITS
    progress: Progress = unheard
    fault: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What a handler is given beside its params."""

    services: Services
    caller: access.Caller
    target: Target
    profile: Profile
    waits: Waits
    progress: Progress
    call_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A handler's output, and what its finished event says of it (S-10)."""

    output: JsonObject
    facts: JsonObject = field(default_factory=dict)


Authorize = Callable[[Transaction, access.Caller, Any], Target]
Handler = Callable[[Work, Any], Awaitable[Done]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """A call whose started events were just written; ``sequences`` gives their places by Session."""

    services: Services
    caller: access.Caller
    call_id: str
    at: int
    target: Target
    params: Any
    sequences: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A call whose finished events are about to be written; ``events`` gives their ids by Session.

    ``facts`` is what they will say beside the call's own keys.
    """

    begun: Begun
    at: int
    events: Mapping[str, str]
    succeeded: bool
    facts: JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What a tool leaves beside its events, in their transactions, with or without a Session (S-40, S-42).

    ``ended`` returns what the finished events of the Sessions say in addition. ``unended`` runs later instead
    where those could not be stored; it may run twice, and after ``ended`` too.
    """

    begun: Callable[[Transaction, Begun], None]
    ended: Callable[[Transaction, Ended], JsonObject]
    unended: Callable[[Transaction, Begun], None] | None = None


def no_target(_tx: Transaction, _caller: access.Caller, _params: object) -> Target:
    """Authorises a tool that names nothing."""
    return Target()


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """One verb: its names, shapes, rights and the function that does it.

    ``writes_own_events`` marks a tool that writes its own event to its Session instead of a pair (S-11).
    ``demand_of`` gives the demand of a call where it depends on the arguments.
    ``value_words`` gives the error word of a value fault by the argument it is in, else ``value_word``.
    """

    name: str
    aliases: tuple[str, ...] = ()
    category: str
    summary: str
    params: type[Params]
    result: type[Result]
    scopes: tuple[Scope, ...]
    optional_scopes: tuple[Scope, ...] = ()
    audience: Audience = Audience.MODEL
    recording: Recording = Recording.BUSINESS
    effect: Effect = Effect.READ
    annotations: Annotations = READS
    demand: sessions.Demand = field(default_factory=sessions.Demand)
    demand_of: Callable[[Any], sessions.Demand] | None = None
    writes_own_events: bool = False
    value_word: str = "invalid_arguments"
    value_words: Mapping[str, str] = field(default_factory=dict)
    describe_input: Callable[[Any], JsonObject] = field(default=lambda _params: {})
    authorize: Authorize = no_target
    evidence: Evidence | None = None
    store_failure: Callable[[], ToolError] = field(default=lambda: ToolError("store_unavailable"))
    handler: Handler

    def is_seen_by(self, audience: Audience) -> bool:
        """Says whether the tool exists on this road; an adapter sees all (M-20)."""
        return audience is Audience.ADAPTER or self.audience is Audience.MODEL
