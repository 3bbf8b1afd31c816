"""The exact shape of a brief, an acceptance and a goal context, written from the specification alone.

Each check raises an ``AssertionError`` that names the place of the first breach.
"""

import re
from collections.abc import Callable

Check = Callable[[object, str], None]


def whole(low: int = 0, high: int | None = None) -> Check:
    """Accepts an int, never a bool, within the bounds."""

    def check(value: object, place: str) -> None:
        assert type(value) is int, f"{place}: not an int"
        assert low <= value, f"{place}: below {low}"
        assert high is None or value <= high, f"{place}: above {high}"

    return check


def text(chars: int, *, size_bytes: int | None = None, pattern: str | None = None) -> Check:
    """Accepts a string without control characters within the bounds."""

    def check(value: object, place: str) -> None:
        assert isinstance(value, str), f"{place}: not a string"
        assert len(value) <= chars, f"{place}: over {chars} chars"
        assert size_bytes is None or len(value.encode()) <= size_bytes, f"{place}: over {size_bytes} bytes"
        assert re.search(r"[\x00-\x1f\x7f-\x9f]", value) is None, f"{place}: a control character"
        assert pattern is None or re.fullmatch(pattern, value), f"{place}: not {pattern}"

    return check


def one_of(*values: object) -> Check:
    """Accepts exactly one of the values, of the same type."""

    def check(value: object, place: str) -> None:
        assert any(type(value) is type(known) and value == known for known in values), (
            f"{place}: {value!r} is none of {values}"
        )

    return check


def null_or(inner: Check) -> Check:
    """Accepts null or what the inner check accepts."""

    def check(value: object, place: str) -> None:
        if value is not None:
            inner(value, place)

    return check


def closed(**fields: Check) -> Check:
    """Accepts an object with exactly these keys."""

    def check(value: object, place: str) -> None:
        assert isinstance(value, dict), f"{place}: not an object"
        assert set(value) == set(fields), f"{place}: {set(value) ^ set(fields)}"
        for key, inner in fields.items():
            inner(value[key], f"{place}.{key}")

    return check


def array(inner: Check, limit: int, *, is_set: bool = True) -> Check:
    """Accepts at most ``limit`` items, without a repeated one in a set."""

    def check(value: object, place: str) -> None:
        assert isinstance(value, list), f"{place}: not a list"
        assert len(value) <= limit, f"{place}: over {limit} items"
        for number, item in enumerate(value):
            inner(item, f"{place}[{number}]")
            assert not is_set or item not in value[:number], f"{place}[{number}]: repeated"

    return check


def ascending(inner: Check, limit: int) -> Check:
    """Accepts at most ``limit`` strings, sorted and unique."""
    items = array(inner, limit)

    def check(value: object, place: str) -> None:
        items(value, place)
        assert isinstance(value, list)
        assert value == sorted(value), f"{place}: not sorted"

    return check


def listing(inner: Check, limit: int, *, is_set: bool = True, **more: Check) -> Check:
    """Accepts the list form of 40.1."""
    shape = closed(
        items=array(inner, limit, is_set=is_set), total=whole(), returned=whole(), truncated=boolean, **more
    )

    def check(value: object, place: str) -> None:
        shape(value, place)
        assert isinstance(value, dict)
        assert value["returned"] == len(value["items"]) <= value["total"], f"{place}: counts"
        assert value["truncated"] or value["returned"] == value["total"], f"{place}: truncated"

    return check


def either(*checks: Check) -> Check:
    """Accepts what one of the checks accepts."""

    def check(value: object, place: str) -> None:
        breaches = []
        for inner in checks:
            try:
                return inner(value, place)
            except AssertionError as breach:
                breaches.append(str(breach))
        raise AssertionError("; ".join(breaches))

    return check


boolean = one_of(True, False)
excerpt = closed(excerpt=null_or(text(600, size_bytes=1800)), truncated=boolean)
messages = either(
    listing(
        closed(
            message_id=text(136),
            created_at=whole(),
            status=one_of("open", "resolved"),
            superseded=boolean,
            excerpt=text(240),
            truncated=boolean,
        ),
        5,
    ),
    closed(items=one_of([]), total=one_of(None), returned=one_of(None), truncated=one_of(None)),
)
path = text(512, size_bytes=512, pattern=r"(?![/\\])(?![A-Za-z][A-Za-z0-9+.-]*:).+")
key = text(64, pattern=r"[0-9a-f]{64}")
observation = closed(
    adapter_id=key,
    event_id=key,
    tool=text(64, pattern=r"[A-Za-z0-9_.:-]{1,64}"),
    exit_code=null_or(whole(-(2**31), 2**31 - 1)),
    recorded_at=whole(1),
    status=one_of("unknown", "reported_success", "reported_failure"),
)
reports = either(
    closed(
        status=one_of("available"),
        reason_code=one_of(None),
        provenance=one_of("external_report"),
        coverage=closed(
            complete=one_of(False),
            reason=one_of("source_sequence_unavailable"),
            ordering=one_of("server_recorded_at_then_identity"),
        ),
        total=whole(0, 256),
        returned=whole(0, 5),
        truncated=boolean,
        unknown_count=whole(0, 256),
        observations=array(observation, 5),
    ),
    closed(
        status=one_of("unavailable"),
        reason_code=one_of("session_project_unavailable", "store_unavailable", "projection_unavailable"),
        provenance=one_of("external_report"),
        coverage=closed(
            complete=one_of(False),
            reason=one_of("read_unavailable"),
            ordering=one_of("server_recorded_at_then_identity"),
        ),
        total=one_of(None),
        returned=one_of(None),
        truncated=one_of(None),
        unknown_count=one_of(None),
        observations=one_of(None),
    ),
)
unasked = dict.fromkeys(("branch", "head", "dirty", "conflicted", "ahead", "behind"), one_of(None))
workspace = either(
    closed(
        status=one_of("available"),
        reason_code=one_of(None),
        branch=null_or(text(200, size_bytes=200)),
        head=null_or(text(64, pattern=r"[0-9a-f]{7,64}")),
        dirty=boolean,
        conflicted=boolean,
        ahead=null_or(whole()),
        behind=null_or(whole()),
    ),
    closed(status=one_of("available"), reason_code=one_of("non_git_project"), **unasked),
    closed(status=one_of("not_requested"), reason_code=one_of("workspace_not_requested"), **unasked),
    closed(status=one_of("unavailable"), reason_code=one_of("workspace_unavailable"), **unasked),
)
failures = listing(text(240, pattern=r"(test|diagnostic|unknown):[A-Za-z0-9_:<>.-]+"), 5)
no_failures = listing(text(0), 0)
validation = either(
    closed(status=one_of("passed", "failed"), reason_code=one_of(None), open_failures=failures),
    closed(
        status=one_of("inconclusive"),
        reason_code=one_of("validation_inconclusive"),
        open_failures=failures,
    ),
    closed(status=one_of("stale", "not_run"), reason_code=one_of(None), open_failures=no_failures),
    closed(
        status=one_of("not_requested"),
        reason_code=one_of("validation_not_requested"),
        open_failures=no_failures,
    ),
    closed(
        status=one_of("unavailable"),
        reason_code=one_of("validation_unavailable"),
        open_failures=no_failures,
    ),
)
basis_codes = one_of(
    "continuation_unavailable",
    "external_observations_changed_during_snapshot",
    "guidance_unavailable",
    "job_summary_unavailable",
    "session_changed_during_snapshot",
    "validation_not_requested",
    "validation_unavailable",
    "workspace_not_requested",
    "workspace_unavailable",
)
count = null_or(whole())
brief = closed(
    version=one_of(1),
    session=closed(
        session_id=text(136, pattern=r"wc_sess_[A-Za-z0-9_-]{1,128}"),
        lifecycle=one_of("active", "closed"),
        mode=one_of("normal", "read_only"),
    ),
    task=closed(
        root_instruction=excerpt, latest_instruction=excerpt, decisions=messages, recent_progress=messages
    ),
    workspace=workspace,
    progress=closed(
        state=one_of("closed", "blocked", "needs_validation", "insufficient_evidence", "ready_to_continue"),
        meaningful_tool_calls=whole(),
        changes=listing(path, 12),
        recent_files=listing(path, 8),
    ),
    validation=validation,
    external_observations=reports,
    attention=closed(
        workspace_conflict=null_or(boolean),
        active_jobs=count,
        blocking_jobs=count,
        terminal_pending_jobs=count,
        recovering_jobs=count,
        open_guidance=count,
        open_risks=count,
        open_questions=count,
        open_todos=count,
    ),
    next_actions=array(text(160), 5),
    basis=either(
        closed(complete=one_of(True), reason_codes=one_of([])),
        closed(complete=one_of(False), reason_codes=ascending(basis_codes, 9)),
    ),
    deterministic=one_of(True),
    llm_summary=one_of(False),
)
acceptance = closed(
    version=one_of(1),
    advisory=one_of(True),
    state=one_of("unknown", "blocked", "in_progress", "needs_attention", "ready_for_review"),
    reason_codes=ascending(text(64, pattern=r"[a-z][a-z0-9_]{0,63}"), 16),
    source_freshness=one_of("unproven"),
    evidence=listing(
        closed(
            kind=one_of(
                "validation", "task_output", "job", "run", "message", "external_observation", "workspace"
            ),
            ref=text(200),
            status=text(32),
            at=null_or(whole()),
        ),
        16,
    ),
)
