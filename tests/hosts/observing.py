"""An operator's private set-up for reports of one conversation, beside the real Server of the host tests."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.adapters import hook_fixture
from tests.hosts import machine

REPORTING: Final = "session:collaborate"


class Observing:
    """A new Session of the machine's project, and the hook's configuration that names it."""

    def __init__(self, folder: Path, desk: machine.Machine, *, origin: str = "") -> None:
        """Prepares everything but the conversation; ``origin`` replaces the Server that reports go to."""
        folder.mkdir(exist_ok=True)
        self._desk = desk
        self.token = desk.pat("runtime:read", "project:read", REPORTING)
        asked = {"project": machine.PROJECT, "instruction": "Clamp inclusively"}
        self.session = str(self._called("work_on_project", asked)["session_id"])
        self.operator = hook_fixture.Operator(
            folder,
            origin or desk.server.url,
            project=machine.PROJECT,
            project_root=str(desk.root),
            workflow_session_id=self.session,
        )
        hook_fixture.private(self.operator.authorization, f"Bearer {self.token}\n".encode())

    def line(self) -> str:
        """Returns the registration as the script prints it."""
        return self.operator.run(b"", "--print-registration").out.decode().removesuffix("\n")

    def bind(self, conversation: str) -> None:
        """The configuration names exactly this conversation."""
        self.operator.configure(local_session_id=conversation)

    def reports(self) -> list[dict[str, Any]]:
        """Returns what ``list_external_observations`` says of the Session."""
        listed = self._called(
            "list_external_observations", {"project": machine.PROJECT, "session_id": self.session}
        )
        assert (listed["provenance"], listed["coverage"]["complete"]) == ("external_report", False)
        return list(listed["observations"])

    def tools(self) -> list[str]:
        """Returns the reported tools, sorted; no report may say more than that the tool was used."""
        reports = self.reports()
        assert {(one["exit_code"], one["status"]) for one in reports} <= {(None, "unknown")}
        assert len({one["event_id"] for one in reports}) == len(reports)
        return sorted(one["tool"] for one in reports)

    def events(self, calls: Iterable[str]) -> set[str]:
        """Returns the event ids that reports of these tool calls have (A-25)."""
        return {self.operator.event(call)["event_id"] for call in calls}

    def waiting(self) -> set[str]:
        """Returns the event ids of the reports that wait in the outbox."""
        return {json.loads(content)["event"]["event_id"] for content in self.operator.pending().values()}

    def _called(self, tool: str, arguments: dict[str, Any]) -> Any:
        status, result = self._desk.server.call(tool, arguments, token=self.token)
        assert status == 200, result
        return result["output"]
