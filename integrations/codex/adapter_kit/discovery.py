"""What the Server lists: the Project at an exact root and its Sessions, whole or not at all (A-52).

It chooses nothing: an inventory that is cut, ambiguous or malformed is refused.
"""

from adapter_kit import handoff_read, json_text, limits, refusal
from adapter_kit import server_client as client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Row = dict[str, object]

_PROJECTS_PATH = "/api/runtime-console/projects"
_PROJECTS_LIMIT = 100
_SESSIONS_PATH = "/api/runtime-console/workflow-sessions"
_SESSIONS_LIMIT = 50
_OK = range(200, 300)


class Console:
    """The two listing routes of one Server, asked under one deadline."""

    __slots__ = ("_authorization", "_deadline", "_origin")

    def __init__(self, origin: str, authorization: str, deadline: client.Deadline) -> None:
        self._origin = origin
        self._authorization = authorization
        self._deadline = deadline

    def project_at(self, root: str) -> str:
        """The id of the one Project whose path is exactly ``root``.

        Raises:
            Refused: ``project_identity_missing_or_ambiguous``, ``project_inventory_incomplete`` or a reason
                of ``_pages``.
        """
        rows = [row for page in self._projects(root) for row in page if row.get("path") == root]
        ids = [row.get("id") for row in rows]
        if len(ids) != 1 or not isinstance(ids[0], str) or not ids[0].startswith("agent:"):
            raise refusal.Refused("project_identity_missing_or_ambiguous")
        return ids[0]

    def require_project(self, project: str, root: str) -> None:
        """The Project still has exactly this root; rows of other Projects do not matter (A-56).

        Raises:
            Refused: ``project_binding_changed``, ``project_inventory_incomplete`` or a reason of ``_pages``.
        """
        for page in self._projects(root):
            rows = [row for row in page if row.get("id") == project]
            if rows:
                if any(row.get("path") != root for row in rows):
                    break
                return
        raise refusal.Refused("project_binding_changed")

    def sessions_of(self, project: str) -> "list[Row]":
        """Every Session of the Project, as served.

        Raises:
            Refused: ``session_inventory_incomplete`` or a reason of ``_pages``.
        """
        asked: Row = {"project": project, "limit": _SESSIONS_LIMIT}
        pages = self._pages(_SESSIONS_PATH, asked, "sessions", "session_inventory_incomplete")
        return [row for page in pages for row in page]

    def _projects(self, root: str) -> "Iterator[list[Row]]":
        asked: Row = {"query": root, "limit": _PROJECTS_LIMIT}
        return self._pages(_PROJECTS_PATH, asked, "projects", "project_inventory_incomplete")

    def _pages(self, path: str, asked: "Row", key: str, incomplete: str) -> "Iterator[list[Row]]":
        """One page after the other, each checked before it is given on.

        Raises:
            Refused: ``incomplete`` unless the list comes to an end within its bound; else
                ``oversized_discovery_response``, ``invalid_discovery_response`` or ``read_unconfirmed``.
        """
        seen: set[object] = set()
        count = 0
        cursor: object = None
        while True:
            answer = self._answer(path, asked if cursor is None else {**asked, "cursor": cursor})
            rows, cursor = _page(answer, key)
            count += len(rows)
            is_stuck = cursor is not None and (cursor in seen or not rows)
            is_cut = cursor is None and answer.get("truncated") is True
            if is_stuck or is_cut or count > limits.INVENTORY_ROWS:
                raise refusal.Refused(incomplete)
            yield rows
            if cursor is None:
                return
            if count == limits.INVENTORY_ROWS:
                raise refusal.Refused(incomplete)
            seen.add(cursor)

    def _answer(self, path: str, asked: "Row") -> "Row":
        try:
            status, body = client.post(
                self._origin,
                path,
                self._authorization,
                json_text.encode(asked),
                self._deadline.within(handoff_read.SECONDS),
            )
        except client.Oversized:
            raise refusal.Refused("oversized_discovery_response") from None
        except client.TransportFailure:
            raise refusal.Refused("read_unconfirmed") from None
        if status not in _OK:
            raise refusal.Refused("read_unconfirmed")
        try:
            answer = json_text.decode(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise refusal.Refused("invalid_discovery_response")
        return answer


def _page(answer: "Row", key: str) -> "tuple[list[Row], str | None]":
    rows, cursor = answer.get(key), answer.get("next_cursor")
    if (
        not isinstance(rows, list)
        or not all(isinstance(row, dict) for row in rows)
        or not (cursor is None or isinstance(cursor, str))
    ):
        raise refusal.Refused("invalid_discovery_response")
    return rows, cursor
