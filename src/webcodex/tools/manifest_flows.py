"""Holds the flows that the manifest recommends: for each intent, tools in a useful order (M-35)."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from webcodex.core.json_value import Json, JsonObject


class Intent(StrEnum):
    """What a caller is about to do (M-35)."""

    CODING = "coding"
    AUDIT = "audit"
    EXPLORATION = "exploration"
    RELEASE = "release"
    DISCOVERY = "discovery"


FLOWS: Final[dict[Intent, tuple[tuple[str, str], ...]]] = {
    Intent.CODING: (
        ("list_projects", "Find the exact Project."),
        ("work_on_project", "Begin a Workflow Session for the user's words, or resume exactly one."),
        ("read_session_handoff", "When resuming: read what is proven, claimed and unknown."),
        ("search_project_texts", "Find where the change belongs."),
        ("read_files", "Read before changing, and keep each SHA-256."),
        ("edit_project_files", "Change files by the hashes that were read."),
        ("run_process", "Validate the files as they are now."),
        ("observe_jobs", "Follow what still runs; never start it again."),
        ("read_workspace_changes", "Compare what changed with what was asked for."),
    ),
    Intent.AUDIT: (
        ("list_projects", "Find the exact Project."),
        ("list_sessions", "Find the Workflow Session by its work, never by recency."),
        ("read_session_handoff", "Read what is proven, claimed and unknown."),
        ("read_session_summary", "Read the recorded calls."),
        ("list_external_observations", "Read the claims of others; they are no verdicts."),
        ("read_workspace_changes", "Look at the files themselves."),
    ),
    Intent.EXPLORATION: (
        ("list_projects", "Find the exact Project."),
        ("get_git_status", "Learn branch, commit and conflicts."),
        ("list_project_files", "Learn the layout."),
        ("search_project_texts", "Find names and words."),
        ("read_files", "Read what matters."),
    ),
    Intent.RELEASE: (
        ("get_git_status", "Check branch, commit and conflicts."),
        ("read_workspace_changes", "Check that nothing is left over."),
        ("run_process", "Validate the files as they are now."),
        ("observe_jobs", "Follow what still runs; never start it again."),
        ("finish_coding_task", "Read what the record proves; it decides nothing."),
        ("close_session", "Close only when the user says that the work is over."),
    ),
    Intent.DISCOVERY: (
        ("read_tool_manifest", "Learn which tools there are, and read one contract."),
        ("get_runtime_status", "Learn what is served here."),
        ("list_runners", "Learn which machines are connected and what they can do."),
        ("list_projects", "Learn which Projects are visible."),
        ("call_runtime_tool", "Call a tool that this host does not list."),
    ),
}


def tools_of(intent: Intent) -> set[str]:
    """Returns the names in the flow of ``intent``, served or not."""
    return {tool for tool, _ in FLOWS[intent]}


def shown(intent: Intent, served: Collection[str]) -> JsonObject:
    """Returns the flow of ``intent`` without the steps whose tool is not served."""
    steps: list[Json] = [{"tool": tool, "why": why} for tool, why in FLOWS[intent] if tool in served]
    return {"intent": intent.value, "steps": steps}
