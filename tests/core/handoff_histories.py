"""Facts to make handoffs from: one small fixed history, and random ones full of hostile text."""

from hypothesis import strategies as st

from webcodex.core import handoff_facts, observations, sessions

NOW = 1_790_000_000
SESSION_ID = "wc_sess_UMrs5faxcnrRoga9"
PROJECT = "agent:r1:demo"
SECRETS = ("sk-abcdEFGH01234567", "bearer\tabcdefgh01234567", "wc_pat_abcd1234", "API_KEY=abc")

ATOMS = (
    "\x00",
    "\n",
    "\x1b",
    "\x7f",
    "\x85",
    '"',
    "\\",
    "/",
    " ",
    "a",
    "é",
    "漢",
    "😀",
    "\u202e",
    "\ud800",
    "word ",
)
hostile_text = st.builds(
    lambda start, atom, times, end: start + atom * times + end,
    st.text(max_size=6),
    st.sampled_from(ATOMS),
    st.integers(1, 700),
    st.text(max_size=6),
)
text_with_secrets = st.one_of(
    hostile_text,
    st.tuples(st.text(max_size=6), st.sampled_from(SECRETS), st.text(max_size=6)).map("".join),
)
paths = st.one_of(
    st.sampled_from(["clamp.py", "tests/test_clamp.py", "a b/ü.py"]),
    st.sampled_from(
        ["/etc/passwd", "\\x", "a/../b", "C:\\x", "file:///x", "", "a\nb", f"keys/{SECRETS[0]}", "x" * 513]
    ),
    st.builds(lambda atom, times: atom * times, st.sampled_from(ATOMS), st.integers(1, 200)),
)
moments = st.integers(1, 2**33)
counts = st.integers(0, 300)


def session(**changed: object) -> sessions.Session:
    """Makes a small active Session with the given fields changed."""
    fields: dict[str, object] = {
        "session_id": SESSION_ID,
        "authority": "owner",
        "project": PROJECT,
        "title": "Implement clamp",
        "title_redacted": False,
        "mode": sessions.Mode.NORMAL,
        "guards": sessions.Guards(),
        "lifecycle": sessions.Lifecycle.ACTIVE,
        "created_at": NOW,
        "updated_at": NOW,
        "latest_instruction": "Implement clamp",
        "latest_instruction_redacted": False,
        "last_sequence": 4,
        "events_retained": 4,
        "meaningful_tool_calls": 4,
    }
    return sessions.Session(**(fields | changed))  # type: ignore[arg-type]  # tests name real fields


def facts(**changed: object) -> handoff_facts.HandoffFacts:
    """Makes facts without a gap, with nothing to do, and with the given fields changed."""
    fields: dict[str, object] = {
        "session": session(),
        "ledger": handoff_facts.Ledger(),
        "messages": (),
        "validation": handoff_facts.Validation(status=handoff_facts.ValidationStatus.PASSED, attempts=1),
        "jobs": handoff_facts.Jobs(),
        "workspace": git(),
        "reports": (),
    }
    return handoff_facts.HandoffFacts(**(fields | changed))  # type: ignore[arg-type]  # tests name real fields


def git(**changed: object) -> handoff_facts.Git:
    """Makes a clean work tree without an upstream."""
    fields: dict[str, object] = {
        "branch": "main",
        "head": "0123456789abcdef0123456789abcdef01234567",
        "dirty": False,
        "conflicted": False,
        "ahead": None,
        "behind": None,
    }
    return handoff_facts.Git(**(fields | changed))  # type: ignore[arg-type]  # tests name real fields


def message(number: int, kind: handoff_facts.MessageKind, **changed: object) -> handoff_facts.Message:
    """Makes one open message with its own id."""
    fields: dict[str, object] = {
        "message_id": f"wc_msg_{number:016d}",
        "kind": kind,
        "text": f"message {number}",
        "redacted": False,
        "status": handoff_facts.MessageStatus.OPEN,
        "superseded": False,
        "created_at": NOW + number,
    }
    return handoff_facts.Message(**(fields | changed))  # type: ignore[arg-type]  # tests name real fields


def report(number: int, exit_code: int | None = None, **changed: object) -> observations.Observation:
    """Makes one stored report with its own event id and time."""
    fields: dict[str, object] = {
        "session_id": SESSION_ID,
        "project": PROJECT,
        "adapter_id": "a" * 64,
        "event_id": f"{number:064x}",
        "tool": "Bash",
        "exit_code": exit_code,
    }
    stored = fields | {key: value for key, value in changed.items() if key != "recorded_at"}
    recorded_at = changed.get("recorded_at", NOW + number)
    return observations.Observation(
        report=observations.Report(**stored),  # type: ignore[arg-type]  # tests name real fields
        recorded_at=recorded_at,  # type: ignore[arg-type]  # tests name real fields
    )


def scope(number: int, verdict: handoff_facts.Verdict, **changed: object) -> handoff_facts.ScopeVerdict:
    """Makes the newest verdict of one scope."""
    fields: dict[str, object] = {
        "kind": handoff_facts.ScopeKind.UNKNOWN,
        "identity": f"scope-{number}",
        "verdict": verdict,
        "is_after": True,
        "event_id": f"evt_{number:016d}",
        "ended_at": NOW + number,
    }
    return handoff_facts.ScopeVerdict(**(fields | changed))  # type: ignore[arg-type]  # tests name real fields


def job(number: int, **changed: object) -> handoff_facts.Job:
    """Makes one running Job."""
    fields: dict[str, object] = {
        "job_id": f"wc_job_{number:016d}",
        "state": handoff_facts.JobState.RUNNING,
        "purpose": handoff_facts.JobPurpose.WORK,
        "created_at": NOW + number,
    }
    return handoff_facts.Job(**(fields | changed))  # type: ignore[arg-type]  # tests name real fields


def jobs(*unended: handoff_facts.Job, terminal_pending: int = 0) -> handoff_facts.Jobs:
    """Makes the Jobs of a Session out of those that have not ended."""
    return handoff_facts.Jobs(
        unended=unended, terminal_pending=terminal_pending, recorded=len(unended) + terminal_pending
    )


sessions_drawn = st.builds(
    session,
    lifecycle=st.sampled_from(sessions.Lifecycle),
    mode=st.sampled_from(sessions.Mode),
    title=text_with_secrets,
    title_redacted=st.booleans(),
    latest_instruction=st.none() | text_with_secrets,
    meaningful_tool_calls=counts,
)
ledgers = st.builds(
    handoff_facts.Ledger,
    events=st.lists(
        st.builds(
            handoff_facts.PathEvent,
            write_like=st.booleans(),
            changed_paths=st.lists(paths, max_size=4).map(tuple),
            observed_paths=st.lists(paths, max_size=4).map(tuple),
            changed_total=counts,
            observed_total=counts,
        ),
        max_size=8,
    ).map(tuple),
    events_evicted=counts,
)
messages_drawn = st.lists(
    st.builds(
        message,
        st.integers(0, 10**9),
        st.sampled_from(handoff_facts.MessageKind),
        text=text_with_secrets,
        redacted=st.booleans(),
        status=st.sampled_from(handoff_facts.MessageStatus),
        superseded=st.booleans(),
        created_at=moments,
    ),
    max_size=12,
    unique_by=lambda drawn: drawn.message_id,
).map(tuple)
validations = st.builds(
    handoff_facts.Validation,
    status=st.sampled_from(handoff_facts.ValidationStatus),
    scopes=st.lists(
        st.builds(
            scope,
            st.integers(0, 30),
            st.sampled_from(handoff_facts.Verdict),
            kind=st.sampled_from(handoff_facts.ScopeKind),
            identity=st.sampled_from(["unit", "lint.all", "x" * 64, "validation-0123456789abcdef"])
            | text_with_secrets,
            is_after=st.booleans(),
            ended_at=moments,
        ),
        max_size=8,
    ).map(tuple),
    attempts=counts,
)
jobs_drawn = st.builds(
    handoff_facts.Jobs,
    unended=st.lists(
        st.builds(
            job,
            st.integers(0, 10**9),
            state=st.sampled_from(handoff_facts.JobState),
            purpose=st.sampled_from(handoff_facts.JobPurpose),
            created_at=moments,
        ),
        max_size=6,
    ).map(tuple),
    terminal_pending=counts,
    recorded=counts,
)
works = st.builds(
    git,
    branch=st.none() | st.sampled_from(["", "main", SECRETS[0], "b" * 201]) | st.text(max_size=8),
    head=st.none() | st.sampled_from(["abc", "0123abc", "A" * 40, "f" * 64]),
    dirty=st.booleans(),
    conflicted=st.booleans(),
    ahead=st.none() | counts,
    behind=st.none() | counts,
)
reports_drawn = st.lists(
    st.builds(
        report,
        st.integers(0, 2**63),
        st.none() | st.integers(-(2**31), 2**31 - 1),
        tool=st.sampled_from(["Bash", "mcp__x.y:z", "T" * 64]),
        recorded_at=st.integers(NOW, NOW + 3),
    ),
    max_size=9,
    unique_by=lambda observation: observation.report.event_id,
).map(tuple)
runs_drawn = st.lists(
    st.builds(
        handoff_facts.Run,
        run_id=st.integers(0, 10**9).map(lambda number: f"wc_agent_run_{number:016d}"),
        state=st.sampled_from(handoff_facts.RunState),
        is_outcome_unknown=st.booleans(),
        updated_at=moments,
    ),
    max_size=4,
).map(tuple)
checks = st.builds(
    handoff_facts.OutputCheck,
    outputs=st.lists(
        st.builds(
            handoff_facts.Output,
            path=paths | st.sampled_from(["d/" * 100, "d/" * 100 + "x", "漢" * 200]),
            status=st.sampled_from(handoff_facts.OutputStatus),
        ),
        max_size=16,
    ).map(tuple),
    checked_at=moments,
    counter_moved=st.booleans(),
)
missing = handoff_facts.Missing
histories = st.builds(
    handoff_facts.HandoffFacts,
    session=sessions_drawn,
    ledger=ledgers | st.just(missing.LEDGER),
    messages=messages_drawn | st.just(missing.MESSAGES),
    validation=validations | st.sampled_from([missing.VALIDATION, missing.VALIDATION_NOT_REQUESTED]),
    jobs=jobs_drawn | st.just(missing.JOBS),
    workspace=works
    | st.sampled_from([handoff_facts.Workspace.NON_GIT, missing.WORKSPACE, missing.WORKSPACE_NOT_REQUESTED]),
    reports=reports_drawn | st.sampled_from(handoff_facts.ReportsMissing),
    changed=st.frozensets(st.sampled_from(handoff_facts.Changed)),
    runs=runs_drawn,
    output_check=checks,
)
