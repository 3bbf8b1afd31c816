"""A store, two users and one road to the tools, without a socket."""

import functools
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pydantic

from tests.storage import empty_store
from webcodex.core import access
from webcodex.core.json_value import JsonObject
from webcodex.storage import projects
from webcodex.storage.database import Database
from webcodex.storage.engine import SqliteDatabase
from webcodex.storage.schema import runners
from webcodex.tools import ports, registry
from webcodex.tools.contract import Audience, Call

DEMO = "agent:r1:demo"
OTHER = "agent:r1:other"
FOREIGN = "agent:r2:foreign"
GIT: JsonObject = {
    "available": True,
    "reason_code": None,
    "branch": "main",
    "head": "a" * 40,
    "dirty": False,
    "conflicted": False,
    "ahead": None,
    "behind": None,
    "entries": [],
    "truncated": False,
}


def user(user_id: str, *scopes: str) -> access.Caller:
    return access.Caller(
        credential=access.Credential.PAT,
        user_id=user_id,
        username=user_id,
        scopes=frozenset(scopes or [scope.value for scope in (*access.CODING_SCOPES,)]),
        authority=access.group_of_user(user_id),
    )


ADA = user("ada")
EVE = user("eve", "admin")
BOOTSTRAP = access.everyone(access.Credential.BOOTSTRAP)


Reply = Callable[[Mapping[str, Any]], Awaitable[JsonObject]]


@dataclass
class ScriptedRunner:
    """Answers each request kind with what the test put there, or is away."""

    answers: dict[str, JsonObject | ports.RunnerError | Reply] = field(default_factory=dict)
    asked: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)

    async def call(
        self,
        project: projects.Project,
        kind: str,
        body: Mapping[str, Any],
        *,
        budget_s: float,
        requested_by: str,
        connection_id: str | None = None,
    ) -> JsonObject:
        assert budget_s > 0
        assert requested_by
        self.asked.append((project.canonical, kind, body))
        answer = self.answers.get(kind, ports.RunnerUnavailable())
        if isinstance(answer, ports.RunnerError):
            raise answer
        assert connection_id in {None, "c"}
        return answer if isinstance(answer, dict) else await answer(body)

    def is_connected(self, client_id: str) -> bool:
        return bool(self.answers) and client_id == "r1"


class House:
    """The real store and the real tools over a scripted Runner and a clock that the test moves."""

    def __init__(
        self, folder: Path, opened: Callable[[], Database] | None = None, *, first_id: int = 1
    ) -> None:
        """Stands on a file in ``folder``, or on what ``opened`` opens; counts its ids from ``first_id``."""
        self.path = folder / "webcodex.db"
        if opened is None:
            self.path.write_bytes(empty_store.content())
        self._open = opened or functools.partial(SqliteDatabase, self.path)
        self.now = 1_790_000_000
        self.runner = ScriptedRunner()
        self.database = self._open()
        self._entropy = itertools.count(first_id)
        self.services = ports.Services(
            database=self.database,
            runners=self.runner,
            now=lambda: self.now,
            entropy=lambda size: next(self._entropy).to_bytes(size, "big"),
        )

    async def furnish(self) -> Self:
        await self.database.write(_two_runners)
        return self

    async def reopen(self) -> None:
        self.database.close()
        self.database = self._open()
        self.services = ports.Services(
            database=self.database,
            runners=self.runner,
            now=self.services.now,
            entropy=self.services.entropy,
        )

    async def call(
        self,
        name: str,
        /,
        *,
        by: access.Caller = ADA,
        recorder: str | None = None,
        audience: Audience = Audience.ADAPTER,
        **arguments: Any,
    ) -> JsonObject:
        call = Call(caller=by, audience=audience, name=name, arguments=arguments, recorder=recorder)
        answer = await registry.invoke(self.services, call)
        _check_shape(name, answer)
        return answer

    async def call_unchecked(self, name: str, /, *, recorder: str, **arguments: Any) -> JsonObject:
        """Returns an answer that holds a scripted Runner's words, whatever their shape."""
        call = Call(caller=ADA, audience=Audience.ADAPTER, name=name, arguments=arguments, recorder=recorder)
        return await registry.invoke(self.services, call)

    async def call_through_gateway(self, name: str, /, **arguments: Any) -> JsonObject:
        call = Call(
            caller=ADA,
            audience=Audience.MODEL,
            name="call_runtime_tool",
            arguments={"tool": name, "arguments": arguments},
        )
        answer = await registry.invoke(self.services, call)
        _check_shape(name, answer)
        return answer

    async def output(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        answer = await self.call(name, **arguments)
        assert answer["success"] is True, answer
        output = answer["output"]
        assert isinstance(output, dict)
        return output

    async def refusal(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        answer = await self.call(name, **arguments)
        assert answer["success"] is False, answer
        output = answer["output"]
        assert isinstance(output, dict)
        return output

    async def session(self, **arguments: Any) -> str:
        given = {"project": DEMO, "instruction": "Implement clamp and test it", **arguments}
        return str((await self.output("work_on_project", **given))["session_id"])


def report(session_id: str, event: int = 1, /, **changed: Any) -> dict[str, Any]:
    return {
        "project": DEMO,
        "session_id": session_id,
        "adapter_id": "a" * 64,
        "event_id": f"{event:064x}",
        "observed_tool": "Bash",
        **changed,
    }


def _two_runners(tx: Any) -> None:
    for client_id, user_id, names in (("r1", "ada", ("demo", "other")), ("r2", "eve", ("foreign",))):
        tx.change(
            runners.insert(),
            {
                "client_id": client_id,
                "user_id": user_id,
                "connection_id": "c",
                "instance_id": "i",
                "store_id": "s",
                "last_seen_at": 1,
                "said_goodbye": False,
                "retired": "[]",
                "registered_at": 1,
                "facts": "{}",
            },
        )
        inventory = [
            projects.Project(
                client_id=client_id, project_id=name, path=f"/srv/{name}", name=name, allow_patch=True
            )
            for name in names
        ]
        projects.replace_inventory(tx, client_id, inventory)


def _check_shape(name: str, answer: JsonObject) -> None:
    assert set(answer) == {"success", "output", "error"}
    output = answer["output"]
    assert isinstance(output, dict)
    if answer["success"] is not True:
        assert {"error_kind", "state_changed", "recovery_kind"} <= set(output)
        return
    tool = registry.find(name, Audience.ADAPTER)
    plain = {key: value for key, value in output.items() if not key.startswith("session_recorded")}
    plain.pop("session_event_id", None)
    try:
        tool.result.model_validate(plain)
    except pydantic.ValidationError as error:
        raise AssertionError(f"{name} answers what its result model does not say: {error}") from None
