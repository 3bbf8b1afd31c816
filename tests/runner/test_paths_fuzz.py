"""Path resolution against a model of the tree, and against somebody who swaps names all the while."""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.runner.place import Place, registered, soon
from webcodex.runner import own_files, path_form, paths

NAMES = ("a", "b", "c")


@dataclass
class Tree:
    """A folder of the model: names to texts (files), link targets or further folders."""

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: dict[str, "Tree"] = field(default_factory=dict)


def trees(depth: int) -> st.SearchStrategy[Tree]:
    inner = trees(depth - 1) if depth else st.builds(Tree)
    target = st.lists(st.sampled_from([*NAMES, "..", "."]), min_size=1, max_size=5).map("/".join)
    return st.builds(
        Tree,
        files=st.dictionaries(st.sampled_from(NAMES), st.text("xyz", min_size=1, max_size=3), max_size=2),
        links=st.dictionaries(st.sampled_from(NAMES), target | target.map("/".__add__), max_size=2),
        folders=st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
    )


def build(tree: Tree, folder: Path) -> None:
    """Makes the tree on the disk; where a name is taken, folders go before files and files before links."""
    folder.mkdir()
    for name, inner in tree.folders.items():
        build(inner, folder / name)
    for name, text in tree.files.items():
        if name not in tree.folders:
            (folder / name).write_text(text)
    for name, target in tree.links.items():
        if name not in {*tree.folders, *tree.files}:
            (folder / name).symlink_to(target)


def expected(tree: Tree, path: str) -> str:
    """Says by the model what a path leads to: ``=<text>`` or the word of the refusal."""
    standing = [tree]
    coming = [(part, False) for part in path.split("/") if part != "."]
    hops = 0
    while coming:
        (name, linked), coming = coming[0], coming[1:]
        here = standing[-1]
        if name == "..":
            if len(standing) == 1:
                return "invalid_path"
            standing.pop()
        elif name in here.folders:
            standing.append(here.folders[name])
        elif name in here.files:
            return "not_found" if coming else f"={here.files[name]}"
        elif name in here.links:
            hops += 1
            target = here.links[name]
            if target.startswith("/") or hops > 16:
                return "invalid_path"
            coming = [(part, True) for part in target.split("/") if part != "."] + coming
        else:
            return "invalid_path" if linked else "not_found"
    return "not_file"


def found(folder: Path, path: str, own: own_files.OwnFiles) -> str:
    try:
        with paths.open_file(registered(folder), path, own) as file:
            return "=" + os.read(file.descriptor, 100).decode()
    except path_form.PathRefused as error:
        return error.reason


@requirement("R-11")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tree=trees(2),
    asked=st.lists(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join), min_size=1, max_size=8
    ),
)
def test_every_path_leads_where_the_model_says(place: Place, tree: Tree, asked: list[str]) -> None:
    own = place.own()
    with tempfile.TemporaryDirectory(dir=place.root) as made:
        folder = Path(made) / "root"
        for name in NAMES:
            (folder.parent / name).write_text("OUTSIDE")
        build(tree, folder)
        for path in asked:
            assert found(folder, path, own) == expected(tree, path)


@contextmanager
def swapping(folder: Path, name: str, others: list[Path]) -> Iterator[list[int]]:
    """Keeps putting one of several things under ``folder/name`` while the block runs; counts the swaps."""
    stop, swaps = threading.Event(), [0]

    def swap() -> None:
        while not stop.is_set():
            for other in others:
                other.rename(folder / name)
                swaps[0] += 1
                (folder / name).rename(other)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield swaps
    finally:
        stop.set()
        thread.join(20)


@requirement("R-11")
@pytest.mark.parametrize(
    ("outward", "path"),
    [("../../outside", "d/secret.txt"), ("/", "d/secret.txt"), ("../../outside/secret.txt", "d")],
)
def test_no_swap_during_a_walk_ever_opens_what_lies_outside(outward: str, path: str, place: Place) -> None:
    own = place.own()
    folder = place.add_project("demo")
    parts = place.root / "parts"
    parts.mkdir()
    outside = place.root / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("SECRET")
    inside = parts / "inside"
    if path == "d":
        inside.write_text("A")
    else:
        inside.mkdir()
        (inside / "secret.txt").write_text("A")
    link = parts / "link"
    link.symlink_to(outward)
    seen: set[str] = set()
    with swapping(folder, "d", [inside, link]) as swaps:
        until = soon()
        while until.remaining_s():
            seen.add(found(folder, path, own))
            if swaps[0] >= 300 and {"=A", "invalid_path"} <= seen:
                break
    assert swaps[0] >= 300
    assert {"=A", "invalid_path"} <= seen <= {"=A", "invalid_path", "not_found"}
