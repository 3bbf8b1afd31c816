"""The operator's verbs, of which only ``associate`` writes anything (A-52, A-53, A-63, A-64)."""

from adapter_kit import (
    bindings,
    discovery,
    hook_input,
    json_text,
    limits,
    paths,
    private_files,
    process,
    refusal,
    registration,
    snapshots,
)
from adapter_kit import server_client as client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    Expired = Callable[[], NoReturn]
    Options = dict[str, list[str]]

_NOTE = (
    "Match the user's stated work to one Session; ask only if it is ambiguous; never choose by recency; "
    "reading binds no writer."
)


def discover(registry_path: str, options: "Options", expired: "Expired") -> bytes:
    """What the Server lists for this exact root; nothing is chosen or written.

    Raises:
        Refused: with the reason for which the list is not whole.
    """
    registry = bindings.load(registry_path)
    root = hook_input.canonical_directory(options["--project-root"][0])
    project, sessions = _listed(registry, root, expired)
    return json_text.line(
        {
            "project": project,
            "project_root": root,
            "sessions": sessions,
            "writes": False,
            "agent_note": _NOTE,
        }
    )


def associate(registry_path: str, options: "Options", expired: "Expired") -> bytes:
    """The registry holds this association, once; nothing else was written.

    Raises:
        Refused: with the reason for which it does not.
        OSError: if that is not certain.
    """
    registry = bindings.load(registry_path)
    root = hook_input.canonical_directory(options["--project-root"][0])
    entries = sorted({hook_input.canonical_directory(entry) for entry in options["--entry-root"]})
    session_id = options["--session"][0]
    project, sessions = _listed(registry, root, expired)
    if not any(row.get("session_id") == session_id for row in sessions):
        raise refusal.Refused("session_not_in_exact_project")
    binding = bindings.Binding(
        project=project,
        project_root=_confirmed(root),
        entry_roots=tuple(_confirmed(entry) for entry in entries),
        session_id=session_id,
        local_session_id=options.get("--local-session", [""])[0],
    )
    status = "already_associated"
    if not any(known.stored() == binding.stored() for known in registry.bindings):
        _write(registry, registry.with_binding(binding))
        status = "associated"
    return json_text.line({"status": status, "project": project, "session_id": session_id})


def status(registry_path: str) -> bytes:
    """What there is, and when a hook was last here; nothing was sent, locked or written (A-63).

    Raises:
        Refused: if the registry, the directory or the count of evictions cannot be read.
    """
    registry = bindings.load(registry_path)
    folder = private_files.Folder(registry.state_dir)
    roots = [root for binding in registry.bindings for root in binding.roots()]
    unmounted = len({root.path for root in roots if not root.is_unchanged()})
    return json_text.line(
        {
            "status": "attention" if unmounted else "ok",
            "bindings": len(registry.bindings),
            "snapshots": snapshots.count(folder),
            "snapshots_evicted": snapshots.evicted(folder),
            "unmounted_roots": unmounted,
            "last_hook_at": folder.modified_at(bindings.LOCK) or None,
        }
    )


def registered(registry_path: str, script: str) -> bytes:
    """The command line for the host's own hook configuration; nothing was changed (A-64).

    Raises:
        Refused: if the registry is broken or a path cannot be written for a shell.
    """
    bindings.load(registry_path)
    return registration.text(script, ["--registry", registry_path], ["hook"])


def _listed(registry: bindings.Registry, root: str, expired: "Expired") -> "tuple[str, list[discovery.Row]]":
    authorization = client.read_authorization(registry.authorization_file)
    deadline = client.Deadline(limits.DISCOVERY_SECONDS - limits.WATCHDOG_MARGIN_SECONDS)
    with process.Watchdog(limits.DISCOVERY_SECONDS, expired):
        console = discovery.Console(registry.server_url, authorization, deadline)
        project = console.project_at(root)
        return project, console.sessions_of(project)


def _confirmed(path: str) -> bindings.Root:
    return bindings.Root(path, paths.identity(path))


def _write(registry: bindings.Registry, changed: bindings.Registry) -> None:
    """The changed registry is stored, unless somebody else was faster (A-53)."""
    folder = private_files.Folder(registry.state_dir)
    with private_files.FileLock(folder, bindings.LOCK) as lock:
        if not lock.take(limits.RECOVERY_WAIT_SECONDS):
            raise refusal.Refused("recovery_busy")
        registry.require_unchanged()
        private_files.replace(registry.path, changed.content)
