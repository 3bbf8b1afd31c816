"""Private snapshots: evidence was offered to a conversation; whether it was used is unknown (A-57, A-62)."""

from adapter_kit import bindings, json_text, limits, paths, private_files, refusal, reports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Evidence = dict[str, object]

_PREFIX = "recovery-"
_STAGED = ".recovery-"
_EVICTED = ".evicted"
_DIGITS_MAX = 18


class Snapshot:
    """The one snapshot of a conversation and a target; the caller holds ``.lock`` around its methods."""

    __slots__ = ("_content", "_fingerprint", "_folder", "_name", "path")

    def __init__(
        self,
        folder: private_files.Folder,
        registry: bindings.Registry,
        conversation: str,
        evidence: "Evidence",
    ) -> None:
        """Prepares what would be stored.

        Raises:
            Refused: ``recovery_state_capacity`` if it is too large to be read again.
        """
        target = (registry.server_url, conversation, evidence["project"], evidence["session_id"])
        self._folder = folder
        self._name = f"{_PREFIX}{reports.digest(json_text.encode(target))}.json"
        self._fingerprint = reports.digest(json_text.encode(evidence))
        self._content = json_text.page({"fingerprint": self._fingerprint, "evidence": evidence})
        self.path = paths.within(registry.state_dir, self._name)
        if len(self._content) > limits.MAX_BYTES:
            raise refusal.Refused("recovery_state_capacity")

    def was_offered(self) -> bool:
        """Whether exactly this evidence was offered before.

        Raises:
            Refused: if the file is not private or too large.
        """
        try:
            stored = json_text.decode(self._folder.read(self._name))
        except (FileNotFoundError, ValueError):
            return False
        return isinstance(stored, dict) and stored.get("fingerprint") == self._fingerprint

    def replace(self, offer: "Callable[[], None]") -> None:
        """This evidence is stored in place of what was offered before; a new one may evict the oldest.

        ``offer`` is called when all but the exchange of names is done: a run that dies before it has offered
        the evidence leaves the snapshot as it was, so that the next one offers it (A-62).

        Raises:
            Refused: ``recovery_cache_capacity`` if no room can be made.
            OSError: if it is not certain.
        """
        if not self._folder.has(self._name):
            _make_room(self._folder)
        self._folder.replace(self._name, self._content, offer)


def count(folder: private_files.Folder) -> int:
    """How many snapshots there are."""
    return len(_kept(folder.names()))


def evicted(folder: private_files.Folder) -> int:
    """How many snapshots have made room for others.

    Raises:
        Refused: ``recovery_cache_capacity`` if the count cannot be read.
    """
    try:
        stored = folder.read(_EVICTED).strip()
    except FileNotFoundError:
        return 0
    if not stored.isdigit() or len(stored) > _DIGITS_MAX:
        raise refusal.Refused("recovery_cache_capacity")
    return int(stored)


def _make_room(folder: private_files.Folder) -> None:
    names = folder.names()
    folder.remove_staged(names, _STAGED)
    kept = _kept(names)
    if len(kept) < limits.SNAPSHOTS:
        return
    already = evicted(folder)
    try:
        folder.remove(folder.least_recent(kept))
    except OSError:
        raise refusal.Refused("recovery_cache_capacity") from None
    folder.replace(_EVICTED, b"%d\n" % (already + 1))


def _kept(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(_PREFIX)]
