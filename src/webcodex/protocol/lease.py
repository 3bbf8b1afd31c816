"""Rules which Runner process may hold a client_id (R-34); must never read a clock or a database."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from webcodex.protocol import bounds


class Refusal(enum.StrEnum):
    """Why a hello is answered with `register_failed` (R-32)."""

    INSTANCE_RETIRED = "instance_retired"
    INSTANCE_ALREADY_ONLINE = "instance_already_online"
    CAPABILITIES_SHRUNK = "capabilities_shrunk"
    INVENTORY_INVALID = "inventory_invalid"


class Admission(enum.StrEnum):
    """How an accepted Runner process stands to the one before it."""

    FIRST = "first"
    RECONNECTED = "reconnected"
    RESTARTED = "restarted"
    REPLACED = "replaced"


class Departure(enum.StrEnum):
    """Whether the holder of a lease has left on purpose."""

    NONE = "none"
    GOODBYE = "goodbye"


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """What a hello claims, as far as the lease is concerned."""

    runner_instance_id: str
    store_id: str
    capabilities: Mapping[str, bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """Who holds a client_id; stored by the Server. Times are Unix s."""

    runner_instance_id: str
    store_id: str
    capabilities: Mapping[str, bool]
    registered_at: int
    last_seen: int
    departure: Departure = Departure.NONE
    retired: tuple[str, ...] = ()
    """Up to 16 instances that may not come back, oldest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """The arrival holds the lease from now on.

    `RECONNECTED`: the same process; its old connection is void. `RESTARTED` and `REPLACED`: the earlier
    process is retired, its waiting synchronous requests fail, Jobs follow R-64 and Runs T-62.
    """

    admission: Admission
    lease: Lease


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """The lease stays as it was."""

    reason: Refusal


class _Present(enum.Enum):
    """How the lease and the arrival stand to each other."""

    NOBODY = enum.auto()
    ARRIVAL_RETIRED = enum.auto()
    SAME_INSTANCE = enum.auto()
    SAME_STORE = enum.auto()
    OTHER_ONLINE = enum.auto()
    OTHER_AWAY = enum.auto()


_TABLE: Final[Mapping[_Present, Admission | Refusal]] = {
    _Present.NOBODY: Admission.FIRST,
    _Present.ARRIVAL_RETIRED: Refusal.INSTANCE_RETIRED,
    _Present.SAME_INSTANCE: Admission.RECONNECTED,
    _Present.SAME_STORE: Admission.RESTARTED,
    _Present.OTHER_ONLINE: Refusal.INSTANCE_ALREADY_ONLINE,
    _Present.OTHER_AWAY: Admission.REPLACED,
}


def is_online(lease: Lease, now: int) -> bool:
    """Says whether the holder was seen within 60 s and has not said goodbye (R-34)."""
    return lease.departure is Departure.NONE and now - lease.last_seen <= bounds.ONLINE_S


def decide(arrival: Arrival, lease: Lease | None, now: int) -> Accepted | Refused:
    """Returns whether the arrival may register, and the lease to store if so (R-34, first match)."""
    verdict = _TABLE[_present(arrival, lease, now)]
    if isinstance(verdict, Refusal):
        return Refused(reason=verdict)
    if verdict is Admission.RECONNECTED and lease is not None:
        if _shrinks(lease.capabilities, arrival.capabilities):
            return Refused(reason=Refusal.CAPABILITIES_SHRUNK)
        return Accepted(admission=verdict, lease=_seen_again(lease, arrival, now))
    return Accepted(admission=verdict, lease=_taken_over(lease, arrival, now))


def seen(lease: Lease, now: int) -> Lease:
    """Returns the lease after a frame of its holder."""
    return replace(lease, last_seen=max(now, lease.last_seen))


def left(lease: Lease, now: int) -> Lease:
    """Returns the lease after its holder's goodbye: free at once (R-31)."""
    return replace(seen(lease, now), departure=Departure.GOODBYE)


def _present(arrival: Arrival, lease: Lease | None, now: int) -> _Present:
    if lease is None:
        return _Present.NOBODY
    if arrival.runner_instance_id in lease.retired:
        return _Present.ARRIVAL_RETIRED
    if arrival.runner_instance_id == lease.runner_instance_id:
        return _Present.SAME_INSTANCE
    if arrival.store_id == lease.store_id:
        return _Present.SAME_STORE
    return _Present.OTHER_ONLINE if is_online(lease, now) else _Present.OTHER_AWAY


def _shrinks(before: Mapping[str, bool], after: Mapping[str, bool]) -> bool:
    return any(had and not after.get(name, False) for name, had in before.items())


def _seen_again(lease: Lease, arrival: Arrival, now: int) -> Lease:
    return replace(
        seen(lease, now),
        store_id=arrival.store_id,
        capabilities=dict(arrival.capabilities),
        departure=Departure.NONE,
    )


def _taken_over(lease: Lease | None, arrival: Arrival, now: int) -> Lease:
    retired = () if lease is None else (*lease.retired, lease.runner_instance_id)
    return Lease(
        runner_instance_id=arrival.runner_instance_id,
        store_id=arrival.store_id,
        capabilities=dict(arrival.capabilities),
        registered_at=now,
        last_seen=now,
        retired=retired[-bounds.MAX_RETIRED_INSTANCES :],
    )
