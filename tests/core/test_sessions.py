"""Proves the lifecycle and the refusals of a Session as pure values (30.2)."""

import pytest

from tests.requirements import requirement
from webcodex.core import sessions as core_sessions


@requirement("S-06")
def test_the_lifecycle_table_knows_every_pair() -> None:
    reached = {
        (state, event): core_sessions.TRANSITIONS[state].get(event)
        for state in core_sessions.Lifecycle
        for event in core_sessions.Event
    }
    assert reached == {
        (core_sessions.Lifecycle.ACTIVE, core_sessions.Event.CLOSE): core_sessions.Lifecycle.CLOSED,
        (core_sessions.Lifecycle.CLOSED, core_sessions.Event.CLOSE): None,
    }
    with pytest.raises(core_sessions.IllegalTransition):
        core_sessions.advance(core_sessions.Lifecycle.CLOSED, core_sessions.Event.CLOSE)


@requirement("S-08")
@pytest.mark.parametrize(
    ("mode", "guards", "demand", "refusal"),
    [
        ("normal", (), {"writes_files"}, None),
        ("read_only", (), set(), None),
        ("read_only", (), {"writes_files"}, "read_only"),
        ("read_only", ("deny_write_tools",), {"runs_programs"}, "read_only"),
        ("normal", ("deny_write_tools",), {"writes_files"}, "deny_write_tools"),
        ("normal", ("deny_write_tools",), {"runs_programs"}, None),
        ("normal", ("deny_shell_tools",), {"runs_programs"}, "deny_shell_tools"),
    ],
)
def test_a_session_refuses_by_mode_then_guards(
    mode: str, guards: tuple[str, ...], demand: set[str], refusal: str | None
) -> None:
    session = core_sessions.Session(
        session_id="wc_sess_a",
        authority="a",
        project=None,
        title="t",
        title_redacted=False,
        mode=core_sessions.Mode(mode),
        guards=core_sessions.Guards(**dict.fromkeys(guards, True)),
        lifecycle=core_sessions.Lifecycle.ACTIVE,
        created_at=1,
        updated_at=1,
        latest_instruction=None,
        latest_instruction_redacted=False,
        last_sequence=0,
        events_retained=0,
        meaningful_tool_calls=0,
    )
    refused = core_sessions.refuse(session, core_sessions.Demand(**dict.fromkeys(demand, True)))
    assert refused == (None if refusal is None else (core_sessions.Refusal.GUARD_DENIED, refusal))
