"""One hook-fed recovery run: select, read the Server anew, compare, and say what is known (A-54 to A-60).

It writes nothing but the private snapshot, which no failure touches: evidence is said first, then stored as
offered.
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

    __slots__ = ("conversation", "cwd", "deadline", "event", "expired", "registry", "say")

    def __init__(  # noqa: PLR0917  # read in this order
        self,
        event: str,
        conversation: str,
        cwd: str,
        registry: bindings.Registry,
        deadline: client.Deadline,
        say: "Callable[[bytes], None]",
        expired: "Callable[[], NoReturn]",
    ) -> None:
        self.event = event
        self.conversation = conversation
        self.cwd = cwd
        self.registry = registry
        self.deadline = deadline
        self.say = say
        self.expired = expired


def answer(
    registry_path: str,
    script: str,
    stdin: "Callable[[], bytes]",
    say: "Callable[[bytes], None]",
    expired: "Callable[[], NoReturn]",
) -> None:
    """The answer was said, and the snapshot that proves it is stored.

    ``expired`` is called, in another thread, if the network holds past the deadline.

    Raises:
        Refused: with the reason for which nothing is said.
        OSError: if the snapshot may not have been stored.
    """
    deadline = client.Deadline(limits.RECOVERY_SECONDS - limits.WATCHDOG_MARGIN_SECONDS)
    payload = hook_input.parsed(stdin())
    if payload is None:
        say(recovery_text.nothing())
        return
    conversation = hook_input.conversation(payload)
    registry = bindings.load(registry_path)
    if hook_input.is_not_kept(payload) and not selection.names(registry, conversation):
        say(recovery_text.nothing())
        return
    cwd = hook_input.directory(payload.get("cwd"))
    event = str(payload["hook_event_name"])
    visit = Visit(event, conversation, cwd, registry, deadline, say, expired)
    folder = private_files.Folder(registry.state_dir)
    try:
        with private_files.FileLock(folder, bindings.LOCK) as lock:
            lock.mark()
            choices = selection.choices(registry, conversation, cwd)
            if not choices:
                say(_unassociated(visit, script))
            elif len(choices) > _ONE:
                say(recovery_text.envelope(event, recovery_text.selection_required(choices)))
            else:
                _offer(visit, choices[0], folder, lock)
    finally:
        folder.close()


def _offer(
    visit: Visit, choice: selection.Choice, folder: private_files.Folder, lock: private_files.FileLock
) -> None:
    """The evidence or the reference to it was said, before the snapshot says so (A-62)."""
    evidence = _read(visit, choice)
    if not lock.take(min(limits.RECOVERY_WAIT_SECONDS, visit.deadline.remaining())):
        raise refusal.Refused("recovery_busy")
    visit.registry.require_unchanged()
    snapshot = snapshots.Snapshot(folder, visit.registry, visit.conversation, evidence)
    is_known = snapshot.was_offered()
    if is_known and visit.event == hook_input.PROMPT:
        context = recovery_text.unchanged(evidence, snapshot.path)
    else:
        context = recovery_text.whole(evidence, snapshot.path)
    answer = recovery_text.envelope(visit.event, context)
    if is_known:
        visit.say(answer)
    else:
        snapshot.replace(lambda: visit.say(answer))


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


def _unassociated(visit: Visit, script: str) -> bytes:
    if visit.event != hook_input.SESSION_START:
        return recovery_text.nothing()
    from adapter_kit import registration  # only here does a hook need a command line

    try:
        words = ["--registry", visit.registry.path]
        command = registration.line(script, words, ["discover", "--project-root", visit.cwd])
        command.encode("utf-8")
    except (refusal.Refused, ValueError):  # a path that no shell reads back, or without a UTF-8 form
        command = None
    return recovery_text.envelope(visit.event, recovery_text.unassociated(command))
