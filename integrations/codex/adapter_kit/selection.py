"""Which bindings a conversation in a directory may read: one, several or none, and never a guess (A-55)."""

from adapter_kit import bindings, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Choice:
    """One binding that applies, and the entry root through which it does."""

    __slots__ = ("binding", "entry_root")

    def __init__(self, binding: bindings.Binding, entry_root: bindings.Root) -> None:
        self.binding = binding
        self.entry_root = entry_root

    def target(self) -> "tuple[object, ...]":
        """What would be read; two bindings with one target leave nothing to choose."""
        return self.binding.project, self.binding.session_id, self.binding.project_root.path

    def is_unchanged(self) -> bool:
        """Whether both of its roots are the directories that were confirmed."""
        return self.entry_root.is_unchanged() and self.binding.project_root.is_unchanged()


def names(registry: bindings.Registry, local_session_id: str) -> bool:
    """Whether a binding names this conversation (A-54)."""
    return any(binding.local_session_id == local_session_id for binding in registry.bindings)


def choices(registry: bindings.Registry, local_session_id: str, cwd: str) -> "list[Choice]":
    """One choice per target that applies in the resolved ``cwd``; bindings naming the conversation win.

    Of two bindings with one target, one whose directories were replaced since yields to the other.
    """
    found = list(_applying(registry, local_session_id, cwd))
    named = [choice for choice in found if choice.binding.local_session_id]
    distinct: dict[tuple[object, ...], Choice] = {}
    for choice in named or found:
        known = distinct.setdefault(choice.target(), choice)
        if known is not choice and not known.is_unchanged() and choice.is_unchanged():
            distinct[choice.target()] = choice
    return list(distinct.values())


def _applying(registry: bindings.Registry, local_session_id: str, cwd: str) -> "Iterator[Choice]":
    """Each binding once, through its nearest entry root; another repository on the way ends the walk."""
    left = [binding for binding in registry.bindings if binding.local_session_id in {"", local_session_id}]
    for place in paths.upward(cwd):
        identity = bindings.identity_of(place)
        for binding in left[:]:
            for root in binding.entry_roots:
                if root.is_at(place, identity):
                    left.remove(binding)
                    yield Choice(binding, root)
                    break
        if _is_repository(place):
            return


def _is_repository(place: str) -> bool:
    try:
        return paths.has_entry(place, ".git")
    except (OSError, ValueError):  # what cannot be looked at inherits nothing
        return True
