"""Cuts a Project inventory into pages and puts them together again (R-35); must never publish half a set."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from webcodex.protocol import bounds, fields, hello, messages, records


class SetStatus(enum.StrEnum):
    """What became of the set that an arriving page belongs to."""

    PENDING = "pending"
    PUBLISHED = "published"
    STALE = "stale"
    INVALID = "invalid"


@dataclass(frozen=True, kw_only=True, slots=True)
class Assembly:
    """The newest incomplete set of one connection, and the newest set that is settled."""

    identity: tuple[int, int] | None = None
    """(generation, snapshot_sequence) of the incomplete set."""

    pages: tuple[messages.InventoryPage, ...] = ()
    deadline: float = 0.0
    settled: tuple[int, int] = field(default=(-1, -1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What one page did; `projects` is the whole inventory once it is published."""

    assembly: Assembly
    status: SetStatus
    projects: tuple[hello.ProjectEntry, ...] | None = None


def receive(assembly: Assembly, page: messages.InventoryPage, now: float) -> Step:
    """Returns the assembly after `page`: a newer set displaces an incomplete older one.

    `now` is on the clock of `expire`, in seconds. A set that names one Project twice, or holds a page twice
    with other content or a page after its last one, is invalid and dropped whole.
    """
    identity = (page.generation, page.snapshot_sequence)
    if identity <= assembly.settled or (assembly.identity is not None and identity < assembly.identity):
        return Step(assembly=assembly, status=SetStatus.STALE)
    if identity != assembly.identity:
        assembly = replace(assembly, identity=identity, pages=(), deadline=now + bounds.INVENTORY_WITHIN_S)
    if page not in assembly.pages:
        assembly = replace(assembly, pages=(*assembly.pages, page))
    if not _is_consistent(assembly.pages):
        return Step(assembly=_settle(assembly, identity), status=SetStatus.INVALID)
    if not _is_whole(assembly.pages):
        return Step(assembly=assembly, status=SetStatus.PENDING)
    in_order = sorted(assembly.pages, key=lambda each: each.page_index)
    projects = tuple(entry for each in in_order for entry in each.projects)
    return Step(assembly=_settle(assembly, identity), status=SetStatus.PUBLISHED, projects=projects)


def expire(assembly: Assembly, now: float) -> Assembly:
    """Returns the assembly without a set that stayed incomplete for 120 s."""
    if assembly.identity is None or now < assembly.deadline:
        return assembly
    return _settle(assembly, assembly.identity)


def pages(
    projects: Sequence[hello.ProjectEntry], *, generation: int, snapshot_sequence: int
) -> list[messages.InventoryPage]:
    """Returns the fewest pages in order that hold `projects`, each of at most 64 entries and 256 KiB.

    Raises:
        ValueError: more than 64 pages would be needed.

    """
    chunks: list[list[hello.ProjectEntry]] = [[]]
    size_bytes = 0
    for entry in projects:
        entry_bytes = fields.encoded_bytes(records.wire(entry)) + 1
        full = len(chunks[-1]) == bounds.MAX_PAGE_PROJECTS
        if chunks[-1] and (full or size_bytes + entry_bytes > _PAGE_ROOM_BYTES):
            chunks.append([])
            size_bytes = 0
        chunks[-1].append(entry)
        size_bytes += entry_bytes
    if len(chunks) > bounds.MAX_PAGES:
        raise ValueError("the inventory needs more than 64 pages")
    return [
        messages.InventoryPage(
            generation=generation,
            snapshot_sequence=snapshot_sequence,
            page_index=index,
            complete=index == len(chunks) - 1,
            projects=tuple(chunk),
        )
        for index, chunk in enumerate(chunks)
    ]


_PAGE_ROOM_BYTES = bounds.MAX_PAGE_BYTES - 256


def _settle(assembly: Assembly, identity: tuple[int, int]) -> Assembly:
    return replace(assembly, identity=None, pages=(), deadline=0.0, settled=identity)


def _is_consistent(received: tuple[messages.InventoryPage, ...]) -> bool:
    indexes = [page.page_index for page in received]
    last = [page.page_index for page in received if page.complete]
    names = [entry.id for page in received for entry in page.projects]
    return (
        len(set(indexes)) == len(indexes)
        and len(set(names)) == len(names)
        and (not last or (len(last) == 1 and last[0] == max(indexes)))
    )


def _is_whole(received: tuple[messages.InventoryPage, ...]) -> bool:
    return any(page.complete and page.page_index == len(received) - 1 for page in received)
