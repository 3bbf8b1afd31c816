"""Frames for tests: one sound example of each type, and how arbitrary ones are drawn."""

import json
from typing import Any, Final

from hypothesis import strategies as st

from webcodex.protocol import calls, hello, messages

HELLO: Final = hello.Hello(
    client_id="my-runner",
    runner_instance_id="3f6c",
    store_id="b1d2",
    display_name="desk",
    hostname="desk",
    process_started_at=1_760_000_000,
    build=hello.Build(version="1.0.0"),
    capabilities={"file_read": True, "git": True, "jobs": False},
    projects=(hello.ProjectEntry(id="demo", path="/srv/demo", name="Demo"),),
    job_concurrency_limit=4,
    job_inventory=hello.JobInventory(active_complete=True),
    coding_agent_providers=(
        hello.Provider(provider_id="codex", provider_instance_id="acp_7d", name="Codex"),
    ),
    coding_agent_inventory=hello.RunInventory(complete=True),
)
RESULT: Final = calls.Result(
    request_id="req_1",
    connection_id="conn_1",
    runner_instance_id="3f6c",
    duration_ms=12,
    command_execution_state=calls.ExecutionState.COMPLETED,
    body={},
    error=None,
)
FAILURE: Final = calls.Failure(
    code="timeout", message="Late.", failure_kind="unavailable", recovery_kind="retry_same"
)
EVENT: Final = messages.StreamEvent(
    stream="run",
    id="wc_agent_run_1",
    sequence=7,
    first_retained_sequence=1,
    body={"sequence": 7, "kind": "agent_message", "text": "done"},
    snapshot={"observation_revision": 9},
)
PAGE: Final = messages.InventoryPage(
    generation=1,
    snapshot_sequence=1,
    page_index=0,
    complete=True,
    projects=(hello.ProjectEntry(id="demo", path="/srv/demo"),),
)
FROM_RUNNER: Final[tuple[messages.FromRunner, ...]] = (
    HELLO,
    RESULT,
    EVENT,
    messages.Ping(ts=1),
    messages.RuntimeMetadata(hostname="desk", host_context={"role": "build"}),
    PAGE,
    messages.Goodbye(reason="shutdown"),
)

REQUEST: Final = calls.Request(
    request_id="req_1",
    connection_id="conn_1",
    kind="read_files",
    budget_ms=30_000,
    requested_by="bootstrap",
    created_at=1_760_000_000,
    body={"items": [{"path": "clamp.py"}]},
    project_id="demo",
)
REGISTERED: Final = messages.Registered(
    client=messages.Client(client_id="my-runner", connection_id="conn_1"),
    resume=(messages.Resume(stream="run", id="wc_agent_run_1", through_sequence=3, through_revision=4),),
)
FROM_SERVER: Final[tuple[messages.FromServer, ...]] = (
    REGISTERED,
    REQUEST,
    messages.Ack(stream="job", id="wc_job_1", through_sequence=0, through_revision=5),
    messages.Pong(ts=1),
    messages.InventoryStatus(generation=1, snapshot_sequence=1, status="published"),
    messages.Error(code="register_failed", message="No.", reason="instance_retired"),
)
EVERY: Final = (*FROM_RUNNER, *FROM_SERVER)

SCALARS: Final = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
JSON: Final = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Draws the text of a sound frame with one to three members replaced, dropped or added."""
    frame: dict[str, Any] = json.loads(messages.text(draw(st.sampled_from(EVERY))))
    for _ in range(draw(st.integers(1, 3))):
        container = draw(st.sampled_from(list(_containers(frame))))
        keys = list(container) if isinstance(container, dict) else list(range(len(container)))
        if not keys or draw(st.booleans()):
            if isinstance(container, dict):
                container[draw(st.text(max_size=8))] = draw(JSON)
            else:
                container.append(draw(JSON))
        elif draw(st.booleans()):
            del container[draw(st.sampled_from(keys))]
        else:
            container[draw(st.sampled_from(keys))] = draw(JSON)
    return json.dumps(frame, ensure_ascii=draw(st.booleans()))


@st.composite
def cut(draw: st.DrawFn) -> str:
    """Draws the text of a sound frame with a stretch of it replaced by other text."""
    text = messages.text(draw(st.sampled_from(EVERY)))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, len(text)))
    return text[:start] + draw(st.text(max_size=12)) + text[end:]


ARRIVING: Final = st.text(max_size=60) | JSON.map(json.dumps) | mutated() | cut()


def _containers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value, *(each for member in value.values() for each in _containers(member))]
    if isinstance(value, list):
        return [value, *(each for member in value for each in _containers(member))]
    return []
