"""Rules on a Runner's hello and keeps its lease, in transactions (R-30, R-34, R-35, C-15).

What a connection reports counts only while it holds its client_id: a later hello takes that away at once.

``Forbidden``  the credential may not register this client_id: ``register_forbidden``
``Refused``    the lease says no: ``register_failed``
``NotHeld``    another connection holds the client_id now; nothing was written
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from webcodex.core import access
from webcodex.core.json_value import JsonObject
from webcodex.protocol import hello, lease, messages, records
from webcodex.storage import accounts, projects, runners
from webcodex.storage.database import Transaction
from webcodex.storage.projects import Project
from webcodex.storage.runners import Runner


class Forbidden(Exception):
    """The credential may not register this client_id (R-30)."""


class Refused(Exception):
    """The lease stays as it was; ``reason`` is a word of R-32."""

    def __init__(self, reason: lease.Refusal) -> None:
        super().__init__(reason.value)
        self.reason = reason


class NotHeld(Exception):
    """Another connection holds the client_id now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """Which connection speaks for which client_id."""

    client_id: str
    connection_id: str


def register(
    tx: Transaction,
    caller: access.Caller,
    said: hello.Hello,
    connection_id: str,
    *,
    now: int,
    present_seen_at: int | None,
) -> lease.Admission:
    """Makes the connection the holder of the hello's client_id, with the inventory that came along.

    ``present_seen_at`` is when a still open connection of that client_id was last heard, in Unix s. The
    stored inventory stays when pages will follow, unless it belongs to somebody else.

    Raises:
        Forbidden: R-30.
        Refused: R-34.

    """
    _check_credential(tx, caller, said.client_id)
    stored = runners.find(tx, said.client_id)
    held = None if stored is None else _lease(stored)
    if held is not None and present_seen_at is not None:
        held = lease.seen(held, present_seen_at)
    arrival = lease.Arrival(
        runner_instance_id=said.runner_instance_id, store_id=said.store_id, capabilities=said.capabilities
    )
    verdict = lease.decide(arrival, held, now)
    if isinstance(verdict, lease.Refused):
        raise Refused(verdict.reason)
    runners.save(tx, _holder(verdict.lease, caller, said, connection_id))
    changes_hands = stored is not None and stored.user_id != caller.user_id
    if said.projects is not None or changes_hands:
        projects.replace_inventory(tx, said.client_id, _projects(said.client_id, said.projects or ()))
    return verdict.admission


def publish(tx: Transaction, holding: Holding, entries: Iterable[hello.ProjectEntry]) -> None:
    """Leaves exactly ``entries`` as the Projects of the client_id (R-35).

    Raises:
        NotHeld: nothing was written.

    """
    _held(tx, holding)
    projects.replace_inventory(tx, holding.client_id, _projects(holding.client_id, entries))


def change_facts(tx: Transaction, holding: Holding, changed: messages.RuntimeMetadata) -> None:
    """Stores the facts that changed; the others stay.

    Raises:
        NotHeld: nothing was written.

    """
    stored = _held(tx, holding)
    facts = {name: value for name, value in records.wire(changed).items() if value is not None}
    runners.save(tx, replace(stored, facts={**stored.facts, **facts}))


def note_seen(tx: Transaction, holding: Holding, seen_at: int) -> None:
    """Stores when the holder was last heard, in Unix s.

    Raises:
        NotHeld: nothing was written.

    """
    _note(tx, holding, lease.seen(_lease(_held(tx, holding)), seen_at))


def note_goodbye(tx: Transaction, holding: Holding, seen_at: int) -> None:
    """Frees the client_id for any other instance at once (R-31).

    Raises:
        NotHeld: nothing was written.

    """
    _note(tx, holding, lease.left(_lease(_held(tx, holding)), seen_at))


def check_held(tx: Transaction, holding: Holding) -> None:
    """Returns while the connection speaks for its client_id.

    Raises:
        NotHeld: another connection does.

    """
    _held(tx, holding)


def _note(tx: Transaction, holding: Holding, kept: lease.Lease) -> None:
    runners.note_seen(
        tx, holding.client_id, kept.last_seen, said_goodbye=kept.departure is lease.Departure.GOODBYE
    )


def _check_credential(tx: Transaction, caller: access.Caller, client_id: str) -> None:
    owner = accounts.owner_of_client(tx, client_id)
    if caller.is_everyone:
        is_allowed = owner is None
    else:
        is_allowed = caller.client_id == client_id and caller.user_id is not None and owner == caller.user_id
    if not is_allowed:
        raise Forbidden


def _held(tx: Transaction, holding: Holding) -> Runner:
    stored = runners.find(tx, holding.client_id)
    if stored is None or stored.connection_id != holding.connection_id:
        raise NotHeld
    return stored


def _lease(stored: Runner) -> lease.Lease:
    capabilities = stored.facts.get("capabilities")
    assert isinstance(capabilities, dict)
    return lease.Lease(
        runner_instance_id=stored.instance_id,
        store_id=stored.store_id,
        capabilities=capabilities,
        registered_at=stored.registered_at,
        last_seen=stored.last_seen_at,
        departure=lease.Departure.GOODBYE if stored.said_goodbye else lease.Departure.NONE,
        retired=stored.retired,
    )


def _holder(kept: lease.Lease, caller: access.Caller, said: hello.Hello, connection_id: str) -> Runner:
    return Runner(
        client_id=said.client_id,
        user_id=caller.user_id,
        connection_id=connection_id,
        instance_id=kept.runner_instance_id,
        store_id=kept.store_id,
        last_seen_at=kept.last_seen,
        said_goodbye=kept.departure is lease.Departure.GOODBYE,
        retired=kept.retired,
        registered_at=kept.registered_at,
        facts=_facts(said),
    )


def _facts(said: hello.Hello) -> JsonObject:
    return {
        "display_name": said.display_name,
        "owner": said.owner,
        "hostname": said.hostname,
        "process_started_at": said.process_started_at,
        "build": records.wire(said.build),
        "host_context": said.host_context,
        "policy": said.policy,
        "capabilities": dict(said.capabilities),
        "job_concurrency_limit": said.job_concurrency_limit,
        "coding_agent_providers": [records.wire(provider) for provider in said.coding_agent_providers],
    }


def _projects(client_id: str, entries: Iterable[hello.ProjectEntry]) -> list[Project]:
    return [
        Project(
            client_id=client_id,
            project_id=entry.id,
            path=entry.path,
            name=entry.name,
            allow_patch=entry.allow_patch,
            disabled=entry.disabled,
        )
        for entry in entries
    ]
