"""Takes one request of the Server to what answers it (R-41); must never know a socket."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Final

from webcodex.protocol import calls
from webcodex.runner import (
    deadline,
    edit_failures,
    edit_tools,
    failures,
    file_tools,
    git_tools,
    jobs,
    listing,
    output_checks,
    own_files,
    projects,
    text_search,
    workspace_changes,
)

_GIT_AT_ONCE: Final = 2
_LOOKS_AT_ONCE: Final = 4
"""Listings and changes together; `git_status`, which a handoff waits for, never waits for them."""

_GRACE_S: Final = 1.0
"""How long after its deadline a worker thread may take to say so itself."""

Handler = Callable[[projects.Project, calls.Request, deadline.Deadline], Awaitable[dict[str, Any]]]


class Work:
    """Everything this Runner can be asked to do, over the registry as it was last read."""

    def __init__(
        self,
        registry: projects.Registry,
        own: own_files.OwnFiles,
        git: str | None,
        edits: edit_tools.Edits,
        the_jobs: jobs.Jobs,
    ) -> None:
        self.registry = registry
        self._own = own
        self._git = git
        self._edits = edits
        self.jobs = the_jobs
        self._files: Executor = ThreadPoolExecutor(file_tools.FILES_AT_ONCE, "files")
        self._gits: Executor = ThreadPoolExecutor(_GIT_AT_ONCE, "git")
        self._looks: Executor = ThreadPoolExecutor(_LOOKS_AT_ONCE, "looks")
        self._searches: Executor = ThreadPoolExecutor(text_search.AT_ONCE, "searches")
        self._changes: Executor = ThreadPoolExecutor(1, "edits")
        self._handlers: Mapping[str, Handler] = {
            "read_files": self._read_files,
            "list_project_files": self._list_project_files,
            "search_project_texts": self._search_project_texts,
            "git_status": self._git_status,
            "workspace_changes": self._workspace_changes,
            "edit_project_files": self._edit_project_files,
            "check_outputs": self._check_outputs,
            "start_process_job": self._start_process_job,
        }
        self._of_jobs: Mapping[str, Callable[[calls.Request], Awaitable[dict[str, Any]]]] = {
            "stop_job": self.jobs.stop,
            "job_snapshot": self.jobs.snapshot,
        }

    def capabilities(self) -> dict[str, bool]:
        """Returns what the hello promises: only what is served (R-33)."""
        return {
            "file_read": True,
            "file_write": True,
            "git": self._git is not None,
            "jobs": True,
            "async_jobs": True,
            "structured_process_argv": True,
            "structured_execution_jobs": True,
            "job_state_reconciliation": True,
            "coding_agent_runs": False,
            "git_worktree": False,
        }

    async def answer(self, request: calls.Request, until: deadline.Deadline) -> dict[str, Any]:
        """Returns the body that answers a request.

        Raises:
            RequestFailed: it has none.

        """
        try:
            async with asyncio.timeout(until.remaining_s() + _GRACE_S):
                return await self._handle(request, until)
        except TimeoutError as error:
            raise failures.RequestFailed(failures.TIMEOUT, failures.TIMED_OUT) from error

    async def _handle(self, request: calls.Request, until: deadline.Deadline) -> dict[str, Any]:
        of_jobs = self._of_jobs.get(request.kind)
        if of_jobs is not None:  # a Job is stopped and shown whatever became of its Project
            return await of_jobs(request)
        handler = self._handlers.get(request.kind)
        if handler is None:
            raise failures.RequestFailed(failures.NOT_SERVED)
        project = self.registry.projects.get(request.project_id or "")
        if project is None or project.disabled:
            raise failures.RequestFailed(failures.UNKNOWN_PROJECT)
        return await handler(project, request, until)

    async def settled(self) -> None:
        """Returns once every change that was begun is over, so that an inventory can tell of it (R-45)."""
        await self.jobs.settled()
        await asyncio.get_running_loop().run_in_executor(self._changes, lambda: None)  # edits go in turn

    def close(self) -> None:
        """Drops what has not begun; an edit that has is finished, all else ends at its deadline (R-45)."""
        for pool in (self._files, self._gits, self._looks, self._searches):
            pool.shutdown(wait=False, cancel_futures=True)
        self._changes.shutdown(wait=True, cancel_futures=True)

    async def _read_files(
        self, project: projects.Project, request: calls.Request, until: deadline.Deadline
    ) -> dict[str, Any]:
        return await file_tools.read_files(project, self._own, request.body, pool=self._files, until=until)

    async def _git_status(
        self, project: projects.Project, _request: calls.Request, until: deadline.Deadline
    ) -> dict[str, Any]:
        if self._git is None:
            raise failures.RequestFailed(failures.NOT_SERVED)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._gits, git_tools.git_status, project, self._git, until)

    async def _list_project_files(
        self, project: projects.Project, request: calls.Request, until: deadline.Deadline
    ) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._looks, listing.list_files, project, self._own, request.body, until
        )

    async def _search_project_texts(
        self, project: projects.Project, request: calls.Request, until: deadline.Deadline
    ) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._searches, text_search.search, project, self._own, request.body, until
        )

    async def _workspace_changes(
        self, project: projects.Project, request: calls.Request, until: deadline.Deadline
    ) -> dict[str, Any]:
        if self._git is None:
            raise failures.RequestFailed(failures.NOT_SERVED)
        changes = workspace_changes.workspace_changes
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._looks, changes, project, self._own, self._git, request.body, until
        )

    async def _edit_project_files(
        self, project: projects.Project, request: calls.Request, until: deadline.Deadline
    ) -> dict[str, Any]:
        edit = self._changes.submit(self._edits.edit, project, request.requested_by, request.body, until)
        answer = asyncio.wrap_future(edit)
        try:
            await asyncio.wait([answer], timeout=until.remaining_s())
        finally:
            is_dropped = edit.cancel()
            answer.cancel()
        if is_dropped:
            raise failures.RequestFailed(failures.TIMEOUT)
        if not edit.done():
            raise edit_failures.unknown([])
        return edit.result()

    async def _check_outputs(
        self, project: projects.Project, request: calls.Request, until: deadline.Deadline
    ) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._looks, output_checks.check_outputs, project, self._own, request.body, until
        )

    async def _start_process_job(
        self, project: projects.Project, request: calls.Request, until: deadline.Deadline
    ) -> dict[str, Any]:
        return await self.jobs.start(project, request, until)
