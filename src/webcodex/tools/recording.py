"""Writes a meaningful call into the ledgers of the Sessions it names: a started event, then a finished one.

Never writes for adapter traffic (S-51), and nothing for a call refused before check 12 (S-52).
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from webcodex.core import ids, ledger, sessions
from webcodex.core.json_value import JsonObject
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import StoreError, Transaction
from webcodex.tools import arguments, authority
from webcodex.tools.contract import Begun, Call, Effect, Ended, Recording, Target, Tool, ToolError
from webcodex.tools.ports import Services

log = logging.getLogger(__name__)

SETTLE_AFTER_S: Final = (0.5, 2.0, 8.0, 30.0)
"""How long to wait before each try to settle a call whose end could not be stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What C-22 rows 9 to 12 say of a call."""

    target: Target
    recorder: sessions.Session | None
    refusal: ToolError | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A call that has begun: its target, the Sessions that hold its started event, or why it was refused."""

    target: Target
    call_id: str
    started_at: int
    sessions: tuple[str, ...]
    recorder_id: str | None
    refusal: ToolError | None
    begun: Begun | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Closed:
    """How a call ended, as its finished event tells it."""

    outcome: ledger.Outcome
    facts: JsonObject


def is_recorded(tool: Tool, call: Call) -> bool:
    """Says whether the call may append events to a Session, or leaves evidence without one."""
    if tool.recording is Recording.NONE:
        return False
    if tool.evidence is not None:
        return True
    names_a_session = "session_id" in tool.params.model_fields and not tool.writes_own_events
    return call.recorder is not None or (names_a_session and call.arguments.get("session_id") is not None)


def check(tx: Transaction, tool: Tool, call: Call, read: arguments.Read) -> Checked:
    """Returns what the call may touch and why, if so, its Session does not take it (C-22 rows 9 to 12).

    Raises:
        ToolError: refused up to check 11.

    """
    recorder = None if call.recorder is None else authority.session(tx, call.caller, call.recorder).session
    if read.params is None:
        raise ToolError(read.fault or tool.value_word)
    target = tool.authorize(tx, call.caller, read.params)
    demand = tool.demand if tool.demand_of is None else tool.demand_of(read.params)
    refusal = None if target.session is None else _refusal(target.session, demand)
    return Checked(target=target, recorder=recorder, refusal=refusal)


def open_call(tx: Transaction, services: Services, tool: Tool, call: Call, read: arguments.Read) -> Opened:
    """Checks the call and appends its started events, in one transaction (S-50, S-52).

    Raises:
        ToolError: refused up to check 11; nothing is written.

    """
    checked = check(tx, tool, call, read)
    target, now = checked.target, services.now()
    call_id = ids.mint("wc_call_", services.entropy(ids.ENTROPY_BYTES))
    facts: JsonObject = {"call_id": call_id, "tool_name": tool.name, "started_at": now, **_flags(tool)}
    if read.params is not None:
        facts |= tool.describe_input(read.params)
    named = list(_named(tool, checked))
    sequences: dict[str, int] = {}
    for session in named:
        event = _event(services, ledger.Kind.CALL_STARTED, now, facts)
        moved = stored_sessions.append(tx, session, [event], now=now)
        sequences[moved.session_id] = moved.last_sequence
        if target.session is not None and moved.session_id == target.session.session_id:
            target = Target(session=moved, project=target.project)
    begun = None
    if tool.evidence is not None and checked.refusal is None:
        begun = Begun(
            services=services,
            caller=call.caller,
            call_id=call_id,
            at=now,
            target=target,
            params=read.params,
            sequences=sequences,
        )
        tool.evidence.begun(tx, begun)
    return Opened(
        target=target,
        call_id=call_id,
        started_at=now,
        sessions=tuple(session.session_id for session in named),
        recorder_id=None if checked.recorder is None else checked.recorder.session_id,
        refusal=checked.refusal,
        begun=begun,
    )


def close_call(
    tx: Transaction, services: Services, tool: Tool, opened: Opened, closed: Closed
) -> dict[str, str]:
    """Appends the finished events; returns the event id by Session (S-10)."""
    now = services.now()
    facts: JsonObject = {
        "call_id": opened.call_id,
        "tool_name": tool.name,
        "status": closed.outcome.value,
        "started_at": opened.started_at,
        "finished_at": now,
        **_flags(tool),
        **closed.facts,
    }
    locked = [stored_sessions.lock(tx, session_id) for session_id in sorted(opened.sessions)]
    named = [session for session in locked if session is not None]
    written = {session.session_id: ids.mint("evt_", services.entropy(ids.ENTROPY_BYTES)) for session in named}
    facts |= _evidence(tx, tool, opened, closed, at=now, events=written)
    for session in named:
        event_id = written[session.session_id]
        event = ledger.Event(event_id=event_id, kind=ledger.Kind.CALL_FINISHED, at=now, facts=facts)
        stored_sessions.append(tx, session, [event], now=now, calls=1)
    return written


async def settle_later(services: Services, tool: Tool, opened: Opened) -> None:
    """Stores what is left of a call whose finished events were not stored; gives up after a few tries.

    A restart of the Server settles what is still open then.
    """
    unended = None if tool.evidence is None else tool.evidence.unended
    begun = opened.begun
    if unended is None or begun is None:
        return
    for wait_s in SETTLE_AFTER_S:
        await asyncio.sleep(wait_s)
        try:
            await services.database.write(lambda tx: unended(tx, begun))
        except StoreError as error:
            log.warning("action=call_not_settled tool=%s error=%s", tool.name, type(error).__name__)
        else:
            return


def _evidence(
    tx: Transaction, tool: Tool, opened: Opened, closed: Closed, *, at: int, events: Mapping[str, str]
) -> JsonObject:
    """Returns what the tool's own evidence adds to the finished events."""
    if tool.evidence is None or opened.begun is None:
        return {}
    succeeded = closed.outcome is ledger.Outcome.SUCCEEDED
    ended = Ended(begun=opened.begun, at=at, events=events, succeeded=succeeded, facts=closed.facts)
    return tool.evidence.ended(tx, ended)


def _refusal(business: sessions.Session, demand: sessions.Demand) -> ToolError | None:
    refused = sessions.refuse(business, demand)
    if refused is None:
        return None
    reason, guard = refused
    return ToolError(reason.value) if guard is None else ToolError(reason.value, guard=guard)


def _named(tool: Tool, checked: Checked) -> Iterator[sessions.Session]:
    recorder, business = checked.recorder, checked.target.session
    if recorder is not None:
        yield recorder
    if business is None or (recorder is not None and recorder.session_id == business.session_id):
        return
    is_closed = checked.refusal is not None and checked.refusal.error_kind == sessions.Refusal.CLOSED.value
    if not tool.writes_own_events and not is_closed:
        yield business


def _event(services: Services, kind: ledger.Kind, now: int, facts: JsonObject) -> ledger.Event:
    event_id = ids.mint("evt_", services.entropy(ids.ENTROPY_BYTES))
    return ledger.Event(event_id=event_id, kind=kind, at=now, facts=facts)


def _flags(tool: Tool) -> JsonObject:
    flags: JsonObject = {}
    if tool.effect is Effect.READ:
        flags["read_like"] = True
    if tool.demand.writes_files:
        flags["write_like"] = True
    if tool.demand.runs_programs:
        flags["shell_like"] = True
    return flags
