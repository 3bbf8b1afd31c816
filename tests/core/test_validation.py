"""Proves what attempts to validate mean: scope, verdict and status (S-40, S-41, S-43)."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.core import handoff_facts, validation
from webcodex.core.handoff_facts import ScopeVerdict, ValidationStatus, Verdict

PASSED, FAILED, INCONCLUSIVE = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE


def line(verdict: Verdict, *, is_after: bool) -> ScopeVerdict:
    return ScopeVerdict(
        kind=handoff_facts.ScopeKind.UNKNOWN,
        identity="tests",
        verdict=verdict,
        is_after=is_after,
        event_id="evt_1",
        ended_at=1,
    )


@requirement("S-41", "H-10")
def test_a_scope_is_its_word_or_the_hash_of_what_runs_where() -> None:
    canonical = '{"argv":["pytest","-k","é"],"cwd":"src"}'
    hashed = validation.scope_of(["pytest", "-k", "é"], "src", None)
    assert hashed.identity == hashlib.sha256(canonical.encode()).hexdigest()
    assert hashed.shown == f"validation-{hashed.identity[:16]}"
    named = validation.scope_of(["pytest"], "", "unit")
    assert (named.identity, named.shown) == ("unit", "unit")
    assert named == validation.scope_of(["make", "test"], "src", "unit")
    assert hashed != validation.scope_of(["pytest", "-k", "é"], "", None)


@requirement("S-40", "R-62")
@pytest.mark.parametrize(
    ("state", "exit_code", "verdict"),
    [
        ("completed", 0, PASSED),
        ("failed", 1, FAILED),
        ("failed", 255, FAILED),
        ("completed", 3, FAILED),
        ("failed", None, INCONCLUSIVE),
        ("completed", None, INCONCLUSIVE),
        ("timed_out", None, INCONCLUSIVE),
        ("timed_out", 0, INCONCLUSIVE),
        ("stopped", 0, INCONCLUSIVE),
        ("cancelled", None, None),
        ("lost", None, INCONCLUSIVE),
        *((state, None, None) for state in ("queued", "agent_queued", "running", "stop_requested")),
        ("recovering", None, None),
    ],
)
def test_only_a_proven_exit_passes_or_fails(
    state: str, exit_code: int | None, verdict: Verdict | None
) -> None:
    assert validation.verdict_of(state, exit_code) is verdict


@requirement("S-43")
@pytest.mark.parametrize(
    ("after", "before", "has_overflowed", "status"),
    [
        ([], [], False, ValidationStatus.NOT_RUN),
        ([], [], True, ValidationStatus.INCONCLUSIVE),
        ([PASSED], [], False, ValidationStatus.PASSED),
        ([PASSED], [PASSED], False, ValidationStatus.PASSED),
        ([PASSED], [], True, ValidationStatus.INCONCLUSIVE),
        ([PASSED], [FAILED], False, ValidationStatus.INCONCLUSIVE),
        ([PASSED], [INCONCLUSIVE], False, ValidationStatus.INCONCLUSIVE),
        ([PASSED, INCONCLUSIVE], [], False, ValidationStatus.INCONCLUSIVE),
        ([PASSED, INCONCLUSIVE, FAILED], [PASSED], True, ValidationStatus.FAILED),
        ([], [PASSED], False, ValidationStatus.STALE),
        ([], [FAILED, INCONCLUSIVE], False, ValidationStatus.STALE),
    ],
)
def test_the_first_matching_row_is_the_status(
    after: list[Verdict], before: list[Verdict], has_overflowed: bool, status: ValidationStatus
) -> None:
    lines = [line(verdict, is_after=True) for verdict in after]
    lines += [line(verdict, is_after=False) for verdict in before]
    assert validation.status_of(lines, has_overflowed=has_overflowed) is status
    assert validation.status_of(reversed(lines), has_overflowed=has_overflowed) is status


@requirement("S-43", "S-44")
@given(st.lists(st.tuples(st.sampled_from(Verdict), st.booleans()), max_size=6), st.booleans())
def test_passed_needs_a_pass_after_the_last_change_and_nothing_against_it(
    drawn: list[tuple[Verdict, bool]], has_overflowed: bool
) -> None:
    status = validation.status_of(
        [line(verdict, is_after=is_after) for verdict, is_after in drawn], has_overflowed=has_overflowed
    )
    is_proven = (PASSED, True) in drawn and all(verdict is PASSED for verdict, _ in drawn)
    assert (status is ValidationStatus.PASSED) is (is_proven and not has_overflowed)


@requirement("S-10", "S-12")
def test_an_event_names_the_scope_and_the_verdict_and_never_the_command() -> None:
    scope = validation.scope_of(["planted-command"], "planted/cwd", None)
    facts = validation.event_facts(scope, FAILED)
    assert facts == {"validation": {"scope": scope.shown, "verdict": "failed"}}
    assert "planted" not in str(facts)
