"""A Runner that edits and runs as the test says, and how a Session's validation then stands."""

from collections.abc import Mapping
from typing import Any, Final

from tests.tools.house import ADA, DEMO, House
from webcodex.core import job_log
from webcodex.core.jobs import Report, State
from webcodex.core.json_value import JsonObject
from webcodex.tools import job_recording, registry
from webcodex.tools.contract import Audience, Call, Waits

HASH: Final = "0" * 64
AT_ONCE: Final = Waits(safe_s=5, handoff_s=0, sync_s=5, observe_s=5)
"""A caller that waits for no process to end."""

NO_MORE_ENDS: Final = """
    CREATE TRIGGER no_more_ends BEFORE INSERT ON wc_session_events
    WHEN NEW.event LIKE '%tool_call_finished%' BEGIN SELECT RAISE(ABORT, 'no more ends'); END
"""
"""A trigger of SQLite: no call's end is stored any more."""


def edits(*paths: str) -> list[dict[str, Any]]:
    return [{"path": path, "op": "write", "expected_sha256": HASH, "content": "x"} for path in paths]


async def applied(body: Mapping[str, Any]) -> JsonObject:
    """Answers as a Runner that made every edit."""
    files: list[Any] = [
        {"path": edit["path"], "op": edit["op"], "before_sha256": HASH, "after_sha256": HASH}
        for edit in body["edits"]
    ]
    return {
        "applied": True,
        "replayed": False,
        "state_changed": True,
        "files": files,
        "changed_paths": [file["path"] for file in files],
    }


def record(job_id: str, state: str, exit_code: int | None, *, update_seq: int = 1) -> JsonObject:
    return {
        "job_id": job_id,
        "project": DEMO,
        "purpose": "validation",
        "state": state,
        "exit_code": exit_code,
        "signal": None,
        "created_at": 1,
        "started_at": 1,
        "finished_at": None if state == "running" else 2,
        "timeout_secs": 60,
        "update_seq": update_seq,
        "reason_code": None,
        "log": {"tail": "", "first_retained_line": 1, "next_line": 1, "truncated": False},
    }


def work_of(house: House, state: str = "completed", exit_code: int | None = 0) -> None:
    """Lets the Runner make edits, and end each process it starts in ``state``."""

    async def started(body: Mapping[str, Any]) -> JsonObject:
        return {"job": record(body["job_id"], state, exit_code), "replayed": False}

    house.runner.answers["edit_project_files"] = applied
    house.runner.answers["start_process_job"] = started


async def edit(
    house: House, session: str | None = None, /, path: str = "a.py", **arguments: Any
) -> JsonObject:
    given = {"project": DEMO, "edits": edits(path), **arguments}
    if session is not None:
        given["session_id"] = session
    return await house.call("edit_project_files", **given)


async def validate(
    house: House,
    session: str | None,
    state: str = "completed",
    exit_code: int | None = 0,
    /,
    *,
    recorder: str | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Runs one validation whose process ends in ``state``, as far as it ends at once."""
    work_of(house, state, exit_code)
    given = {"project": DEMO, "argv": ["pytest"], "purpose": "validation", "validation_scope": "unit"}
    given |= {key: value for key, value in arguments.items() if value is not None}
    if "validation_scope" in arguments and arguments["validation_scope"] is None:
        del given["validation_scope"]
    if session is not None:
        given["session_id"] = session
    call = Call(
        caller=ADA,
        audience=Audience.ADAPTER,
        name="run_process",
        arguments=given,
        recorder=recorder,
        waits=AT_ONCE,
    )
    answer = await registry.invoke(house.services, call)
    assert answer["success"] is True, answer
    output = answer["output"]
    assert isinstance(output, dict)
    return output


async def ends(
    house: House, job_id: str, state: State, exit_code: int | None, *, update_seq: int = 2
) -> None:
    """Stores what the Runner says of a Job later."""
    said = Report(
        job_id=job_id,
        state=state,
        exit_code=exit_code,
        signal=None,
        started_at=1,
        finished_at=2,
        update_seq=update_seq,
        reason_code=None,
        log=job_log.EMPTY,
    )
    await job_recording.take(house.services, said)


async def handoff(house: House, session: str) -> dict[str, Any]:
    return await house.output("get_session_handoff_state", project=DEMO, session_id=session)


async def status(house: House, session: str) -> str:
    return str((await handoff(house, session))["handoff_brief"]["validation"]["status"])


async def newest_event(house: House, session: str) -> dict[str, Any]:
    """Returns the newest event apart from this look at it."""
    events = (await house.output("read_session_summary", session_id=session, limit=20))["events"]
    shown: dict[str, Any] = events[-2]
    return shown
