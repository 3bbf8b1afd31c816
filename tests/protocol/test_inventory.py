"""Inventory pages: how they are cut, and that only a whole set is published."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.protocol import bounds, hello, inventory, messages


def entries(count: int, path: str = "/srv/p") -> list[hello.ProjectEntry]:
    return [hello.ProjectEntry(id=f"p{number}", path=path) for number in range(count)]


def cut(count: int, *, sequence: int = 1, generation: int = 1) -> list[messages.InventoryPage]:
    return inventory.pages(entries(count), generation=generation, snapshot_sequence=sequence)


def fed(pages: Sequence[messages.InventoryPage], now: float = 0.0) -> list[inventory.Step]:
    assembly = inventory.Assembly()
    steps = []
    for page in pages:
        steps.append(inventory.receive(assembly, page, now))
        assembly = steps[-1].assembly
    return steps


PENDING, PUBLISHED = inventory.SetStatus.PENDING, inventory.SetStatus.PUBLISHED
STALE, INVALID = inventory.SetStatus.STALE, inventory.SetStatus.INVALID


@requirement("R-35")
@pytest.mark.parametrize(
    ("count", "sizes"), [(0, [0]), (1, [1]), (64, [64]), (65, [64, 1]), (130, [64, 64, 2])]
)
def test_pages_hold_at_most_sixty_four_projects(count: int, sizes: list[int]) -> None:
    pages = cut(count)
    assert [len(page.projects) for page in pages] == sizes
    assert [page.page_index for page in pages] == list(range(len(sizes)))
    assert [page.complete for page in pages] == [False] * (len(sizes) - 1) + [True]


@requirement("R-35")
def test_pages_are_at_most_256_kibibytes() -> None:
    pages = inventory.pages(entries(64, "/" + "ü" * 4000), generation=1, snapshot_sequence=1)
    assert len(pages) > 1
    assert all(len(messages.text(page).encode()) <= bounds.MAX_PAGE_BYTES for page in pages)
    assert fed(pages)[-1].projects == tuple(entries(64, "/" + "ü" * 4000))


@requirement("R-35")
def test_an_inventory_of_more_than_sixty_four_pages_is_not_cut() -> None:
    assert len(cut(64 * 64)) == 64
    with pytest.raises(ValueError, match="more than 64 pages"):
        cut(64 * 64 + 1)


@requirement("R-35")
def test_an_empty_inventory_is_published() -> None:
    assert fed(cut(0)) == [
        inventory.Step(assembly=inventory.Assembly(settled=(1, 1)), status=PUBLISHED, projects=())
    ]


@requirement("R-35")
@given(count=st.integers(0, 300), seed=st.integers(0, 99))
def test_pages_in_any_order_and_repeated_are_published_once_when_whole(count: int, seed: int) -> None:
    pages = cut(count)
    arriving = [*pages, *pages[:-1]]
    random.Random(seed).shuffle(arriving)
    published = [step.projects for step in fed(arriving) if step.status is PUBLISHED]
    assert published == [tuple(entries(count))]


@requirement("R-35")
def test_a_newer_set_displaces_an_incomplete_older_one() -> None:
    older, newer = cut(65, sequence=1), cut(70, sequence=2)
    steps = fed([older[0], newer[0], older[1], newer[1], newer[1]])
    assert [step.status for step in steps] == [PENDING, PENDING, STALE, PUBLISHED, STALE]
    assert steps[3].projects == tuple(entries(70))


@requirement("R-35")
def test_a_higher_generation_is_newer_whatever_its_sequence() -> None:
    steps = fed([*cut(1, generation=1, sequence=9), *cut(2, generation=2, sequence=1)])
    assert [step.status for step in steps] == [PUBLISHED, PUBLISHED]


@requirement("R-35")
def test_an_incomplete_set_is_dropped_after_120_seconds() -> None:
    first, last = cut(65)
    waiting = inventory.receive(inventory.Assembly(), first, 100.0).assembly
    assert inventory.expire(waiting, 219.9) == waiting
    dropped = inventory.expire(waiting, 220.0)
    assert dropped == inventory.Assembly(settled=(1, 1))
    assert inventory.receive(dropped, last, 221.0).status is STALE


@requirement("R-35")
@pytest.mark.parametrize(
    ("first", "second", "change"),
    [
        (0, 1, {"page_index": 0}),
        (1, 0, {"page_index": 2}),
        (0, 0, {"page_index": 1}),
        (1, 0, {"complete": True}),
    ],
    ids=["one index twice", "beyond the last", "one Project twice", "two last pages"],
)
def test_a_set_that_contradicts_itself_is_dropped_whole(
    first: int, second: int, change: dict[str, Any]
) -> None:
    pages = cut(65)
    *_, last = fed([pages[first], replace(pages[second], **change)])
    assert (last.status, last.projects) == (INVALID, None)
    assert inventory.receive(last.assembly, pages[0], 0.0).status is STALE


@requirement("R-35")
def test_no_part_of_a_set_is_ever_published() -> None:
    pages = cut(200)
    for count in range(1, len(pages)):
        for some in itertools.permutations(pages, count):
            assert {step.status for step in fed(some)} == {PENDING}
