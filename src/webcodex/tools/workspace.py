"""Asks a Project's Runner for the Git facts of its workspace, within the handoff's own deadline (H-07)."""

import asyncio

from webcodex.core import handoff_facts, limits
from webcodex.core.handoff_facts import Git, Missing, Workspace, WorkspaceFacts
from webcodex.core.json_value import Json, JsonObject
from webcodex.tools import ports, runner_calls
from webcodex.tools.contract import Work


async def read(work: Work) -> WorkspaceFacts:
    """Returns the Git facts, or that there are none: no Project, Runner away, too late, facts missing."""
    return facts(await status(work))


async def status(work: Work) -> JsonObject:
    """Returns the Runner's whole Git status, or nothing where there is none within 8 s (H-07)."""
    if work.target.project is None:
        return {}
    within_s = min(limits.WORKSPACE_S, work.waits.safe_s)
    try:
        async with asyncio.timeout(within_s):
            return await runner_calls.ask(work, "git_status", {}, budget_s=within_s)
    except (ports.RunnerError, TimeoutError):
        return {}


def facts(answer: JsonObject) -> WorkspaceFacts:
    """Returns what a Runner's answer proves; without a clean state and a conflict count that is nothing."""
    if answer.get("available") is not True:
        is_plain = answer.get("reason_code") == "non_git_project"
        return Workspace.NON_GIT if is_plain else Missing.WORKSPACE
    dirty, conflicted = answer.get("dirty"), answer.get("conflicted")
    if not isinstance(dirty, bool) or not isinstance(conflicted, bool):
        return Missing.WORKSPACE
    return Git(
        branch=_text(answer.get("branch")),
        head=_text(answer.get("head")),
        dirty=dirty,
        conflicted=conflicted,
        ahead=_count(answer.get("ahead")),
        behind=_count(answer.get("behind")),
    )


def shown(workspace: handoff_facts.WorkspaceFacts) -> JsonObject:
    """Returns the workspace part of ``work_on_project`` (S-60)."""
    if isinstance(workspace, Git):
        return {
            "status": "available",
            "branch": workspace.branch,
            "head": workspace.head,
            "dirty": workspace.dirty,
        }
    status = "available" if workspace is Workspace.NON_GIT else "unavailable"
    return {"status": status, "branch": None, "head": None, "dirty": None}


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
