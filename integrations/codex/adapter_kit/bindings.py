"""The operator's registry: from which directories which Session's evidence may be read (A-51, A-53).

A binding gives a right to read and nothing else; no conversation becomes a writer by it.
"""

from adapter_kit import config as configuration
from adapter_kit import json_text, limits, paths, private_files, refusal, server_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_KEYS = {"version", "server_url", "authorization_file", "state_dir", "bindings"}
_TEXTS = ("server_url", "authorization_file", "state_dir")
_BINDING_KEYS = {
    "project",
    "project_root",
    "project_identity",
    "entry_roots",
    "workflow_session_id",
    "local_session_id",
}
_ENTRY_KEYS = {"path", "identity"}
_PAIR = 2
LOCK = ".lock"


class Root:
    """A directory as it was when the operator confirmed it: its canonical path and its identity."""

    __slots__ = ("identity", "path")

    def __init__(self, path: str, identity: tuple[int, int]) -> None:
        self.path = path
        self.identity = identity

    def is_unchanged(self) -> bool:
        """Whether the path still leads, without a link, to the directory that was confirmed."""
        try:
            return paths.resolved(self.path) == self.path and self._is_same()
        except (OSError, ValueError):
            return False

    def is_at(self, place: str, identity: "tuple[int, int] | None") -> bool:
        """Whether this root is the directory ``place``, under this spelling or another (A-97).

        Another root is never looked up unless it seems to be this very directory: it may not be mounted.
        """
        if self.path == place:
            return True
        if identity != self.identity:
            return False
        try:
            return self._is_same()
        except (OSError, ValueError):
            return False

    def _is_same(self) -> bool:
        return paths.is_directory(self.path) and paths.identity(self.path) == self.identity


class Binding:
    """One association that the operator has confirmed; ``local_session_id`` is empty for any conversation."""

    __slots__ = ("entry_roots", "local_session_id", "project", "project_root", "session_id")

    def __init__(
        self,
        *,
        project: str,
        project_root: Root,
        entry_roots: tuple[Root, ...],
        session_id: str,
        local_session_id: str,
    ) -> None:
        self.project = project
        self.project_root = project_root
        self.entry_roots = entry_roots
        self.session_id = session_id
        self.local_session_id = local_session_id

    def roots(self) -> tuple[Root, ...]:
        """The project root and every entry root."""
        return (self.project_root, *self.entry_roots)

    def places(self) -> "tuple[object, ...]":
        """Who may read what from where, by its spelling: all of the binding but the identities."""
        roots = tuple(root.path for root in self.roots())
        return self.project, self.session_id, self.local_session_id, roots

    def stored(self) -> "dict[str, object]":
        """The binding as a registry holds it."""
        return {
            "project": self.project,
            "project_root": self.project_root.path,
            "project_identity": list(self.project_root.identity),
            "entry_roots": [
                {"path": root.path, "identity": list(root.identity)} for root in self.entry_roots
            ],
            "workflow_session_id": self.session_id,
            "local_session_id": self.local_session_id,
        }


class Registry:
    """One registry as it was read; ``content`` proves later that it is still the same."""

    __slots__ = ("authorization_file", "bindings", "content", "path", "server_url", "state_dir")

    def __init__(self, path: str, content: bytes) -> None:
        """Checks the content, every check of A-51 in its order.

        Raises:
            Refused: with the reason of the first check that fails.
        """
        stored = _parsed(content)
        server_client.parse_origin(str(stored["server_url"]))
        if not all(paths.is_absolute(str(stored[key])) for key in ("authorization_file", "state_dir")):
            raise refusal.Refused("absolute_authorization_file_required")
        self.path = path
        self.content = content
        self.server_url = str(stored["server_url"])
        self.authorization_file = str(stored["authorization_file"])
        self.state_dir = str(stored["state_dir"])
        self.bindings = _bindings(stored["bindings"])
        roots = [root for binding in self.bindings for root in binding.roots()]
        if not all(paths.is_absolute(root.path) for root in roots):
            raise refusal.Refused("absolute_project_root_required")
        if not _are_outside((path, self.authorization_file, self.state_dir), roots):
            raise refusal.Refused("operator_files_must_be_outside_projects")

    def require_unchanged(self) -> None:
        """The file still holds what was read from it; the caller holds the lock.

        Raises:
            Refused: ``registry_changed``.
        """
        try:
            is_same = private_files.read(self.path) == self.content
        except refusal.Refused:
            is_same = False
        if not is_same:
            raise refusal.Refused("registry_changed")

    def with_binding(self, binding: Binding) -> "Registry":
        """This registry with the binding at its end, checked as if it had been read, and not written yet.

        It takes the place of one that named the same directories as they were before (A-53).

        Raises:
            Refused: ``association_capacity``, ``recovery_state_capacity`` or a reason of A-51.
        """
        kept = [known for known in self.bindings if known.places() != binding.places()]
        if len(kept) >= limits.BINDINGS:
            raise refusal.Refused("association_capacity")
        content = json_text.page(
            {
                "version": 1,
                "server_url": self.server_url,
                "authorization_file": self.authorization_file,
                "state_dir": self.state_dir,
                "bindings": [known.stored() for known in (*kept, binding)],
            }
        )
        made = Registry(self.path, content)
        if len(content) > limits.MAX_BYTES:
            raise refusal.Refused("recovery_state_capacity")
        return made


def load(path: str) -> Registry:
    """The registry at ``path``, every check of A-51 passed.

    Raises:
        Refused: with the reason of the first check that fails.
    """
    if not paths.is_absolute(path):
        import os.path  # costly, and a registered command names the registry absolutely

        path = os.path.abspath(path)  # noqa: PTH100  # pathlib costs more than the whole run
    return Registry(path, private_files.read(path))


def is_conversation(value: object) -> bool:
    """Whether the value may name the local conversation of a binding; empty is every conversation."""
    return value == "" or (configuration.is_plain_text(value) and len(str(value)) <= limits.IDENTITY_CHARS)


def _parsed(content: bytes) -> "dict[str, object]":
    try:
        stored = json_text.decode(content)
    except ValueError:
        stored = None
    if (
        isinstance(stored, dict)
        and stored.keys() == _KEYS
        and type(stored["version"]) is int
        and stored["version"] == 1
        and all(configuration.is_plain_text(stored[key]) for key in _TEXTS)
        and isinstance(stored["bindings"], list)
        and len(stored["bindings"]) <= limits.BINDINGS
    ):
        return stored
    raise refusal.Refused("invalid_recovery_registry")


def _bindings(stored: object) -> "tuple[Binding, ...]":
    assert isinstance(stored, list)
    return tuple(_binding(item) for item in stored)


def _binding(stored: object) -> Binding:
    if (
        not isinstance(stored, dict)
        or stored.keys() != _BINDING_KEYS
        or not configuration.is_plain_text(stored["project"])
        or not stored["project"].startswith("agent:")
        or not configuration.is_plain_text(stored["project_root"])
        or not configuration.is_session_id(stored["workflow_session_id"])
        or not is_conversation(stored["local_session_id"])
    ):
        raise refusal.Refused("invalid_recovery_association")
    entries = stored["entry_roots"]
    if (
        not isinstance(entries, list)
        or not 1 <= len(entries) <= limits.ENTRY_ROOTS
        or not all(_is_entry(entry) for entry in entries)
    ):
        raise refusal.Refused("invalid_entry_root")
    return Binding(
        project=stored["project"],
        project_root=Root(stored["project_root"], _identity(stored["project_identity"])),
        entry_roots=tuple(Root(entry["path"], _identity(entry["identity"])) for entry in entries),
        session_id=stored["workflow_session_id"],
        local_session_id=stored["local_session_id"],
    )


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict) and entry.keys() == _ENTRY_KEYS and configuration.is_plain_text(entry["path"])
    )


def _identity(stored: object) -> tuple[int, int]:
    if (
        isinstance(stored, list)
        and len(stored) == _PAIR
        and all(type(part) is int and part >= 0 for part in stored)
    ):
        return stored[0], stored[1]
    raise refusal.Refused("invalid_root_identity")


def _are_outside(operator_paths: "Iterable[str]", roots: "list[Root]") -> bool:
    """Whether no operator path, as written or resolved, lies in one of the roots."""
    try:
        spelled = {form for path in operator_paths for form in (path, paths.resolved(path))}
    except (OSError, ValueError):
        return False
    places = {place for path in spelled for place in paths.upward(path)}
    known = {root.path for root in roots}
    if not places.isdisjoint(known):
        return False
    identities = {root.identity for root in roots}
    for place in places:
        found = identity_of(place)
        if found in identities and any(root.is_at(place, found) for root in roots):
            return False
    return True


def identity_of(place: str) -> "tuple[int, int] | None":
    """The identity of the directory, or None if it cannot be looked up."""
    try:
        return paths.identity(place)
    except (OSError, ValueError):
        return None
