"""The wait between two attempts to reach the Server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.runner import backoff

LOST, REFUSED = backoff.Parting.LOST, backoff.Parting.CREDENTIAL_REFUSED


def waits(*attempts: tuple[backoff.Parting, float]) -> list[float]:
    pause = backoff.Backoff()
    waited = []
    for parting, connected_s in attempts:
        pause, wait_s = pause.after(parting, connected_s=connected_s, chance=0.5)
        waited.append(wait_s)
    return waited


@requirement("R-36")
def test_the_wait_doubles_from_one_second_to_thirty() -> None:
    assert waits(*[(LOST, 0.0)] * 8) == [1, 2, 4, 8, 16, 30, 30, 30]


@requirement("R-36")
def test_sixty_seconds_of_good_connection_reset_the_wait() -> None:
    assert waits((LOST, 0), (LOST, 0), (LOST, 59.9), (LOST, 60.0), (LOST, 0)) == [1, 2, 4, 1, 2]


@requirement("R-36")
def test_a_refused_credential_is_tried_again_after_thirty_seconds_only() -> None:
    assert waits((LOST, 0), (REFUSED, 0), (REFUSED, 0), (LOST, 0)) == [1, 30, 30, 2]


@requirement("R-36")
@pytest.mark.parametrize(("chance", "wait_s"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
def test_jitter_spreads_the_wait_by_twenty_percent(chance: float, wait_s: float) -> None:
    _, waited = backoff.Backoff().after(LOST, connected_s=0.0, chance=chance)
    assert waited == pytest.approx(wait_s)


@requirement("R-36")
@given(st.lists(st.tuples(st.sampled_from([LOST, REFUSED]), st.floats(0, 200), st.floats(0, 1)), max_size=20))
def test_no_history_makes_the_wait_shorter_or_longer_than_its_bounds(
    history: list[tuple[backoff.Parting, float, float]],
) -> None:
    pause = backoff.Backoff()
    for parting, connected_s, chance in history:
        pause, wait_s = pause.after(parting, connected_s=connected_s, chance=chance)
        assert 0.79 < wait_s < 36.01
