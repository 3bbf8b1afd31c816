"""An operator's private set-up for recovery, over a Server that knows one project folder and one Session."""

import json
from pathlib import Path
from typing import Any, Final

from websockets.sync.client import connect

from tests.adapters import hook_fixture, recovery_fixture
from tests.server import station
from tests.server.server_process import TOKEN, ServerProcess

PROJECT: Final = "agent:r1:demo"
PREAMBLE: Final = "WebCodex recovery:"
ANSWER_S: Final = 30.0


class Recovering:
    """A registry whose one association the script itself has made, and the folders that it names.

    ``entry`` is where conversations may begin; the project lies elsewhere, so that it can be moved.
    """

    def __init__(self, folder: Path, server: ServerProcess, entry: Path, **chosen: str) -> None:
        """Makes project, Session and association; ``chosen`` may name the only ``local`` conversation."""
        self._server = server
        self.operator = recovery_fixture.Operator(folder, server.url, is_bound=False)
        self.project = self.operator.root
        hook_fixture.private(self.operator.authorization, f"Bearer {TOKEN}\n".encode())
        _register(server, self.project)
        asked = {"project": PROJECT, "instruction": "Clamp inclusively"}
        self.session = str(self._called("work_on_project", asked)["session_id"])
        self.associate(entry, **chosen)

    def associate(self, entry: Path, *, local: str = "") -> None:
        """Conversations at ``entry``, or only ``local`` there, may read the Session."""
        words = ["--project-root", str(self.project), "--session", self.session, "--entry-root", str(entry)]
        words += ["--local-session", local] if local else []
        assert self.operator.run("associate", *words).said["status"] == "associated"

    def lead_to(self, origin: str) -> None:
        """The registry names another Server; what the script has written into it stays."""
        stored = json.loads(self.operator.registry.read_text(encoding="utf-8"))
        self.operator.configure(**stored | {"server_url": origin})

    def line(self) -> str:
        """Returns the registration as the script prints it."""
        return self.operator.run("registration").out.decode().removesuffix("\n")

    def post(self, message: str) -> None:
        """The Session has one more progress message, so its brief has changed."""
        asked = {"session_id": self.session, "kind": "progress", "message": message}
        self._called("post_session_message", asked)

    def _called(self, tool: str, arguments: dict[str, Any]) -> Any:
        status, result = self._server.call(tool, arguments)
        assert status == 200, result
        return result["output"]


def shown(context: str) -> Any:
    """Returns the JSON of one piece of context."""
    preamble, _, text = context.partition("\n")
    assert preamble.startswith(PREAMBLE)
    return json.loads(text)


def statuses(contexts: list[str]) -> list[str]:
    """Returns the status of each piece of context."""
    return [str(shown(context)["status"]) for context in contexts]


def _register(server: ServerProcess, root: Path) -> None:
    """A Runner has said that it holds the project, and has gone."""
    url = server.url.replace("http://", "ws://") + "/api/agents/ws"
    projects = [station.project("demo", path=str(root))]
    with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}, max_size=None) as runner:
        runner.send(json.dumps(station.hello(projects=projects)))
        assert json.loads(runner.recv(ANSWER_S))["success"] is True
        runner.send(json.dumps({"type": "goodbye", "reason": "done"}))
