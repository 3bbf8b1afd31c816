"""Who may hold a client_id: every row of the table, in its order."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.protocol import lease

NOW = 1_760_000_000
HELD = lease.Lease(
    runner_instance_id="present",
    store_id="store",
    capabilities={"git": True, "jobs": False},
    registered_at=NOW - 500,
    last_seen=NOW - 10,
    retired=("older",),
)
ONLINE = HELD
OFFLINE = replace(HELD, last_seen=NOW - 61)
LEFT = lease.left(HELD, NOW - 5)


def arrival(
    instance: str, store: str = "store", capabilities: Mapping[str, bool] | None = None
) -> lease.Arrival:
    return lease.Arrival(
        runner_instance_id=instance, store_id=store, capabilities=capabilities or {"git": True}
    )


def taken_over(present: lease.Lease, instance: str, store: str) -> lease.Lease:
    return lease.Lease(
        runner_instance_id=instance,
        store_id=store,
        capabilities={"git": True},
        registered_at=NOW,
        last_seen=NOW,
        retired=(*present.retired, present.runner_instance_id),
    )


@requirement("R-34")
def test_the_first_runner_of_a_client_takes_the_lease() -> None:
    assert lease.decide(arrival("new"), None, NOW) == lease.Accepted(
        admission=lease.Admission.FIRST,
        lease=lease.Lease(
            runner_instance_id="new",
            store_id="store",
            capabilities={"git": True},
            registered_at=NOW,
            last_seen=NOW,
        ),
    )


@requirement("R-34")
@pytest.mark.parametrize("present", [ONLINE, OFFLINE, LEFT], ids=["online", "offline", "left"])
@pytest.mark.parametrize("store", ["store", "other"])
def test_a_retired_instance_is_refused_whoever_is_present(present: lease.Lease, store: str) -> None:
    assert lease.decide(arrival("older", store), present, NOW) == lease.Refused(
        reason=lease.Refusal.INSTANCE_RETIRED
    )


@requirement("R-34")
@pytest.mark.parametrize("present", [ONLINE, OFFLINE, LEFT], ids=["online", "offline", "left"])
def test_the_same_instance_comes_back_and_keeps_its_registration(present: lease.Lease) -> None:
    assert lease.decide(arrival("present"), present, NOW) == lease.Accepted(
        admission=lease.Admission.RECONNECTED,
        lease=replace(HELD, last_seen=NOW, capabilities={"git": True}, departure=lease.Departure.NONE),
    )


@requirement("R-34")
@pytest.mark.parametrize("after", [{"jobs": True}, {"git": False}, {"git": False, "jobs": True}])
def test_the_same_instance_may_not_come_back_with_less(after: dict[str, bool]) -> None:
    assert lease.decide(arrival("present", capabilities=after), ONLINE, NOW) == lease.Refused(
        reason=lease.Refusal.CAPABILITIES_SHRUNK
    )


@requirement("R-34")
def test_the_same_instance_may_come_back_with_more() -> None:
    verdict = lease.decide(arrival("present", capabilities={"git": True, "jobs": True}), ONLINE, NOW)
    assert isinstance(verdict, lease.Accepted)
    assert verdict.lease.capabilities == {"git": True, "jobs": True}


@requirement("R-34")
@pytest.mark.parametrize("present", [ONLINE, OFFLINE, LEFT], ids=["online", "offline", "left"])
def test_another_instance_with_the_same_store_is_accepted_at_once(present: lease.Lease) -> None:
    assert lease.decide(arrival("new"), present, NOW) == lease.Accepted(
        admission=lease.Admission.RESTARTED, lease=taken_over(present, "new", "store")
    )


@requirement("R-34")
def test_a_stranger_is_refused_while_the_present_instance_is_online() -> None:
    assert lease.decide(arrival("new", "other"), ONLINE, NOW) == lease.Refused(
        reason=lease.Refusal.INSTANCE_ALREADY_ONLINE
    )


@requirement("R-34")
@pytest.mark.parametrize("present", [OFFLINE, LEFT], ids=["offline", "left"])
def test_a_stranger_replaces_an_instance_that_is_away(present: lease.Lease) -> None:
    assert lease.decide(arrival("new", "other"), present, NOW) == lease.Accepted(
        admission=lease.Admission.REPLACED, lease=taken_over(present, "new", "other")
    )


@requirement("R-34")
def test_an_instance_seen_sixty_seconds_ago_is_still_online() -> None:
    at_the_edge = replace(HELD, last_seen=NOW - 60)
    assert lease.is_online(at_the_edge, NOW)
    assert not lease.is_online(at_the_edge, NOW + 1)


@requirement("R-34")
def test_a_frame_renews_the_lease_and_a_goodbye_frees_it() -> None:
    renewed = lease.seen(OFFLINE, NOW)
    assert lease.is_online(renewed, NOW)
    assert lease.seen(renewed, NOW - 30) == renewed
    assert not lease.is_online(lease.left(renewed, NOW), NOW)


@requirement("R-34")
def test_the_sixteen_newest_retired_instances_are_remembered() -> None:
    present: lease.Lease | None = None
    for number in range(20):
        verdict = lease.decide(arrival(f"i{number}"), present, NOW + number)
        assert isinstance(verdict, lease.Accepted)
        present = verdict.lease
    assert present is not None
    assert present.retired == tuple(f"i{number}" for number in range(3, 19))


@requirement("R-34")
@given(
    instances=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20),
    store=st.sampled_from(["store", "other"]),
)
def test_no_instance_holds_a_lease_again_once_another_had_it(instances: list[str], store: str) -> None:
    present: lease.Lease | None = None
    holders: list[str] = []
    for instance in instances:
        verdict = lease.decide(arrival(instance, store), present, NOW)
        if isinstance(verdict, lease.Accepted):
            present = verdict.lease
            if holders[-1:] != [instance]:
                holders.append(instance)
    assert len(set(holders)) == len(holders)
