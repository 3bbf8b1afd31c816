"""One hook-fed recovery run: select, read the Server anew, compare, and say what is known (A-54 to A-60).

It writes nothing but the private snapshot, and no failure touches that.
"""

from adapter_kit import (
    bindings,
    discovery,
    handoff_read,
    hook_input,
    limits,
    private_files,
    process,
    recovery_text,
    refusal,
    selection,
    snapshots,
)
from adapter_kit import server_client as client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_ONE = 1


class Visit:
    """What one conversation asked for, where, and by when it must have an answer."""

    __slots__ = ("conversation", "cwd", "deadline", "event", "expired", "registry")

    def __init__(  # noqa: PLR0917  # read in this order
        self,
        event: str,
        conversation: str,
        cwd: str,
        registry: bindings.Registry,
        deadline: client.Deadline,
        expired: "Callable[[], NoReturn]",
    ) -> None:
        self.event = event
        self.conversation = conversation
        self.cwd = cwd
        self.registry = registry
        self.deadline = deadline
        self.expired = expired


def answer(
    registry_path: str,
    script: str,
    stdin: "Callable[[], bytes]",
    expired: "Callable[[], NoReturn]",
) -> bytes:
    """What goes to stdout; ``expired`` is called, in another thread, if the network holds past the deadline.

    Raises:
        Refused: with the reason for which nothing is shown.
        OSError: if the snapshot may not have been stored.
    """
    deadline = client.Deadline(limits.RECOVERY_SECONDS - limits.WATCHDOG_MARGIN_SECONDS)
    payload = hook_input.parsed(stdin())
    if payload is None:
        return recovery_text.nothing()
    conversation = hook_input.conversation(payload)
    registry = bindings.load(registry_path)
    if hook_input.is_not_kept(payload) and not selection.names(registry, conversation):
        return recovery_text.nothing()
    cwd = hook_input.directory(payload.get("cwd"))
    event = str(payload["hook_event_name"])
    visit = Visit(event, conversation, cwd, registry, deadline, expired)
    folder = private_files.Folder(registry.state_dir)
    try:
        with private_files.FileLock(folder, bindings.LOCK) as lock:
            lock.mark()
            context = _context(visit, script, folder, lock)
    finally:
        folder.close()
    return recovery_text.envelope(event, context) if context else recovery_text.nothing()


def _context(
    visit: Visit, script: str, folder: private_files.Folder, lock: private_files.FileLock
) -> "str | None":
    choices = selection.choices(visit.registry, visit.conversation, visit.cwd)
    if not choices:
        return _unassociated(visit, script)
    if len(choices) > _ONE:
        return recovery_text.selection_required(choices)
    evidence = _read(visit, choices[0])
    if not lock.take(min(limits.RECOVERY_WAIT_SECONDS, visit.deadline.remaining())):
        raise refusal.Refused("recovery_busy")
    visit.registry.require_unchanged()
    snapshot = snapshots.Snapshot(folder, visit.registry, visit.conversation, evidence)
    is_known = snapshot.was_offered()
    if is_known and visit.event == hook_input.PROMPT:
        return recovery_text.unchanged(evidence, snapshot.path)
    context = recovery_text.whole(evidence, snapshot.path)
    if not is_known:
        snapshot.replace()
    return context


def _read(visit: Visit, choice: selection.Choice) -> "snapshots.Evidence":
    """The evidence as the Server has it now; two requests, unless the list of Projects is long (A-56)."""
    binding, registry = choice.binding, visit.registry
    if not choice.entry_root.is_unchanged():
        raise refusal.Refused("entry_root_replaced")
    if not binding.project_root.is_unchanged():
        raise refusal.Refused("project_root_replaced")
    authorization = client.read_authorization(registry.authorization_file)
    allowed = visit.deadline.remaining() + limits.WATCHDOG_MARGIN_SECONDS
    with process.Watchdog(allowed, visit.expired):
        parts = handoff_read.read(
            registry.server_url, authorization, binding.project, binding.session_id, visit.deadline
        )
        console = discovery.Console(registry.server_url, authorization, visit.deadline)
        console.require_project(binding.project, binding.project_root.path)
    return {
        **parts,
        "local_cwd": visit.cwd,
        "project": binding.project,
        "session_id": binding.session_id,
    }


def _unassociated(visit: Visit, script: str) -> "str | None":
    if visit.event != hook_input.SESSION_START:
        return None
    from adapter_kit import registration  # only here does a hook need a command line

    try:
        words = ["--registry", visit.registry.path]
        command = registration.line(script, words, ["discover", "--project-root", visit.cwd])
        command.encode("utf-8")
    except (refusal.Refused, ValueError):  # a path that no shell reads back, or without a UTF-8 form
        command = None
    return recovery_text.unassociated(command)
