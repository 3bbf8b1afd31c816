"""A Runner that takes Jobs as the test says, and reports of them when the test says."""

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.tools.house import ADA, DEMO, House
from webcodex.core import access
from webcodex.core.json_value import JsonObject
from webcodex.protocol import fields, job_records
from webcodex.tools import job_recording, ports, registry
from webcodex.tools.contract import Audience, Call, Waits
from webcodex.tools.ports import Progress, unheard

HANDS_OVER = Waits(safe_s=5, handoff_s=0, sync_s=0, observe_s=30)
WAITS = Waits(safe_s=5, handoff_s=5, sync_s=5, observe_s=30)
PATIENCE_S = 10.0
ECHO = ["echo", "OK"]


def record(job_id: str, state: str = "running", update_seq: int = 1, **changed: Any) -> dict[str, Any]:
    """The record of a Job on the link; its ``tail`` is that of its log."""
    tail = changed.pop("tail", "")
    log = {"tail": tail, "first_retained_line": 1, "next_line": 1 + tail.count("\n"), "truncated": False}
    return {
        "job_id": job_id,
        "project": DEMO,
        "purpose": "work",
        "state": state,
        "exit_code": 0 if state == "completed" else None,
        "signal": None,
        "created_at": 1,
        "started_at": 2,
        "finished_at": None if state in {"agent_queued", "running", "stop_requested"} else 5,
        "timeout_secs": 60,
        "update_seq": update_seq,
        "reason_code": None,
        "log": log,
        **changed,
    }


class Jobs:
    """Takes every Job that is asked for, unless ``refusal`` is set, once ``may_take`` is."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.refusal: ports.RunnerError | None = None
        self.taken: list[Mapping[str, Any]] = []
        self.first_report: dict[str, Any] = {}
        self.was_asked = asyncio.Event()
        self.may_take = asyncio.Event()
        self.may_take.set()
        house.runner.answers["start_process_job"] = self._take
        house.runner.answers["job_snapshot"] = {"stdout_tail": "OK\n", "stderr_tail": "", "job": {}}

    async def _take(self, body: Mapping[str, Any]) -> JsonObject:
        self.was_asked.set()
        await self.may_take.wait()
        if self.refusal is not None:
            raise self.refusal
        self.taken.append(body)
        return {"job": record(body["job_id"], **self.first_report), "replayed": False}

    async def report(self, job_id: str, state: str, update_seq: int, **changed: Any) -> None:
        said = job_records.read(fields.Fields(record(job_id, state, update_seq, **changed), "job"))
        await job_recording.take(self.house.services, said)

    async def call(
        self,
        name: str = "run_process",
        *,
        by: access.Caller = ADA,
        waits: Waits = WAITS,
        recorder: str | None = None,
        progress: Progress = unheard,
        **arguments: Any,
    ) -> dict[str, Any]:
        """Returns the output of a call, successful or not."""
        if name == "run_process":
            arguments = {"project": DEMO, "argv": ECHO, **arguments}
        call = Call(
            caller=by,
            audience=Audience.MODEL,
            name=name,
            arguments=arguments,
            recorder=recorder,
            waits=waits,
            progress=progress,
        )
        answer = await registry.invoke(self.house.services, call)
        output = answer["output"]
        assert isinstance(output, dict)
        if answer["success"]:
            plain = {key: value for key, value in output.items() if not key.startswith("session_")}
            registry.find(name, Audience.MODEL).result.model_validate(plain)
        return output

    async def running(self, **arguments: Any) -> str:
        """Starts a Job that goes on, and returns its id."""
        output = await self.call(waits=HANDS_OVER, **arguments)
        assert (output["job"]["state"], output["completed"]) == ("running", False)
        return str(output["job"]["job_id"])

    async def observed(self, job_id: str, **arguments: Any) -> dict[str, Any]:
        """Returns the observation of one Job; ``token`` is that of the one before."""
        item = {"job_id": job_id}
        if "token" in arguments:
            item["after_observation_token"] = arguments.pop("token")
        output = await self.call("observe_jobs", items=[item], **arguments)
        shown: dict[str, Any] = output["items"][0]
        return shown

    async def states(self, **arguments: Any) -> list[str]:
        """The states of the listed Jobs; looking changes what was seen (S-45)."""
        return [job["state"] for job in (await self.call("list_jobs", **arguments))["jobs"]]


async def events(house: House, session: str, tool: str = "run_process") -> list[dict[str, Any]]:
    """The events of one tool's calls in a Session."""
    summary = await house.output("read_session_summary", session_id=session)
    return [event for event in summary["events"] if event.get("tool_name") == tool]


async def job_counts(house: House, session: str) -> dict[str, Any]:
    """What a handoff says of a Session's Jobs (S-45)."""
    brief = (await house.output("read_session_handoff", session_id=session))["handoff_brief"]
    shown: dict[str, Any] = brief["attention"]
    return shown
