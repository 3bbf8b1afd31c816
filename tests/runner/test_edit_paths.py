"""Where edits may write: no link in the way, nothing outside, nothing sensitive, nothing swapped (R-11)."""

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner.edit_place import (
    BY,
    answer_of,
    apply,
    asked,
    create,
    delete,
    edits_of,
    records,
    tree,
    write,
)
from tests.runner.place import Place, registered, soon
from webcodex.runner import failures


@pytest.fixture
def folder(place: Place) -> Path:
    """A project with files, a folder, links in and out, special files, and a secret beside it."""
    made = place.add_project("demo")
    (made / "a.txt").write_text("A")
    (made / "sub").mkdir()
    (made / "sub" / "b.txt").write_text("B")
    (made / "link").symlink_to("a.txt")
    (made / "sublink").symlink_to("sub")
    (made / "out").symlink_to("../..")
    (made / "dangling").symlink_to("absent")
    (made / ".env").write_text("A")
    (made / ".git").mkdir()
    (made / ".git" / "config").write_text("A")
    os.mkfifo(made / "fifo")
    (place.root / "secret.txt").write_text("A")
    return made


def whole(folder: Path) -> dict[str, bytes | str | None]:
    """Returns everything beneath a folder, links as their targets; special files are only named."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        content = str(path.readlink()) if path.is_symlink() else None
        found[path.relative_to(folder).as_posix()] = content or (
            path.read_bytes() if path.is_file() else None
        )
    return found


@requirement("R-10", "R-11", "R-13", "R-56")
@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("link", "invalid_path"),
        ("sublink/b.txt", "invalid_path"),
        ("sublink/new.txt", "invalid_path"),
        ("out/secret.txt", "invalid_path"),
        ("dangling", "invalid_path"),
        ("dangling/new.txt", "invalid_path"),
        ("", "invalid_path"),
        ("../secret.txt", "invalid_path"),
        ("sub/../a.txt", "invalid_path"),
        ("/etc/hosts", "invalid_path"),
        ("sub//b.txt", "invalid_path"),
        ("a.txt ", "invalid_path"),
        ("x:y", "invalid_path"),
        (".", "not_file"),
        ("sub", "not_file"),
        ("fifo", "not_file"),
        (".env", "sensitive_path"),
        (".ENV", "sensitive_path"),
        (".git/config", "sensitive_path"),
        (".git/hooks/pre-commit", "sensitive_path"),
        ("sub/id_rsa", "sensitive_path"),
    ],
)
def test_a_path_that_may_not_be_written_is_refused_by_every_operation(
    place: Place, folder: Path, path: str, word: str
) -> None:
    before = whole(place.root / "work")
    for edit in (create(path, "N"), write(path, "A", "N"), delete(path, "A")):
        answer = apply(place, folder, write("a.txt", "A", "N"), edit, key="k")
        assert (answer["error"], answer["execution"]) == (word, "not_started")
    assert whole(place.root / "work") == before
    assert records(place) == []


@requirement("R-11", "R-55", "R-56")
def test_a_path_beneath_a_file_is_missing_and_cannot_be_created(place: Place, folder: Path) -> None:
    assert apply(place, folder, create("a.txt/new", "N"))["error"] == "invalid_path"
    answer = apply(place, folder, write("a.txt/new", "A", "N"))
    assert answer["failed"] == [{"index": 0, "path": "a.txt/new", "reason": "missing", "actual_sha256": None}]


@requirement("R-11")
def test_no_file_is_made_on_another_file_system_or_in_place_of_a_socket(place: Place) -> None:
    assert Path("/proc").stat().st_dev != Path("/").stat().st_dev
    assert apply(place, Path("/"), create("proc/wc-new", "N"))["error"] == "invalid_path"
    folder = place.add_project("demo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        assert apply(place, folder, delete("socket", "A"))["error"] == "not_file"
    assert apply(place, Path("/dev"), write("null", "", "N"))["error"] == "not_file"


@requirement("R-13")
def test_the_runners_own_files_are_never_written_under_any_name(place: Place, folder: Path) -> None:
    edits = edits_of(place)
    (place.state_dir / "store_id").write_text("A")
    (folder / "harmless").hardlink_to(place.state_dir / "store_id")
    (folder / "config").hardlink_to(place.config)
    config = place.config.read_bytes()
    refused = [
        (folder, write("harmless", "A", "N")),
        (folder, write("config", config, "N")),
        (place.root, write("runner-state/store_id", "A", "N")),
        (place.root, create("projects.d/new.toml", "N")),
        (place.root, create("runner-state/sub/new", "N")),
        (place.root, delete("runner.toml", config)),
    ]
    for root, edit in refused:
        assert answer_of(edits, root, asked(edit))["error"] == "sensitive_path"
    assert place.config.read_bytes() == config


@requirement("R-11", "R-55", "R-56")
def test_a_replaced_root_is_refused(place: Place, folder: Path) -> None:
    project = registered(folder)
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    (folder / "a.txt").write_text("A")
    with pytest.raises(failures.RequestFailed) as caught:
        edits_of(place).edit(project, BY, asked(write("a.txt", "A", "N")), soon())
    assert caught.value.failure.code == "project_root_replaced"
    assert tree(folder) == {"a.txt": b"A"}


def swap_folder(folder: Path) -> None:
    (folder / "sub").rename(folder / "moved")
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_text("B")


def swap_link(folder: Path) -> None:
    (folder / "sub").rename(folder.parent / "outside")
    (folder / "sub").symlink_to("../outside")


def swap_file(folder: Path) -> None:
    (folder / "new").write_text("B")
    (folder / "new").rename(folder / "sub" / "b.txt")


def swap_file_for_link(folder: Path) -> None:
    (folder / "sub" / "b.txt").rename(folder / "moved.txt")
    (folder / "sub" / "b.txt").symlink_to("../moved.txt")


def remove_folder(folder: Path) -> None:
    (folder / "sub").rename(folder.parent / "outside")


def make_folder(folder: Path) -> None:
    (folder / "n").mkdir()


def change_file(folder: Path) -> None:
    (folder / "new").write_text("OUTSIDE")
    (folder / "new").rename(folder / "sub" / "b.txt")


def make_file(folder: Path) -> None:
    (folder / "n" / "x.txt").write_text("OUTSIDE")


def meddled(
    place: Place, folder: Path, body: dict[str, Any], at: str, meddle: Callable[[], None]
) -> tuple[str, str]:
    """Returns how an edit is refused when somebody meddles after one of its effects."""
    try:
        for step in edits_of(place).steps(registered(folder), BY, body, soon()):
            if step == at:
                meddle()
    except failures.RequestFailed as error:
        return error.failure.code, error.execution.value
    raise AssertionError("the edit was not refused")


EDITS = (write("a.txt", "A", "N"), write("sub/b.txt", "B", "N"), create("n/x.txt", "X"))
SWAPS: Mapping[str, tuple[str, Callable[[Path], None], str]] = {
    "another folder": ("backup sub/b.txt", swap_folder, "path_changed"),
    "a link for the folder": ("backup sub/b.txt", swap_link, "path_changed"),
    "a link before it is held": ("intent", swap_link, "path_changed"),
    "no folder": ("intent", remove_folder, "path_changed"),
    "the made folder": ("intent", make_folder, "path_changed"),
    "an equal file": ("backup a.txt", swap_file, "path_changed"),
    "an equal file after the backup": ("backup sub/b.txt", swap_file, "path_changed"),
    "a link for the file": ("backup a.txt", swap_file_for_link, "path_changed"),
    "another content": ("backup sub/b.txt", change_file, "edit_precondition_failed"),
    "the made file": ("backup sub/b.txt", make_file, "edit_precondition_failed"),
    "the made file at the last moment": ("checked again", make_file, "path_changed"),
}


@requirement("R-11", "R-55", "R-56")
@pytest.mark.parametrize("name", SWAPS)
def test_what_is_swapped_between_the_check_and_the_change_stops_the_edit_and_is_left(
    place: Place, folder: Path, name: str
) -> None:
    at, swap, word = SWAPS[name]
    expected: dict[str, Any] = {}

    def meddle() -> None:
        swap(folder)
        expected.update(whole(place.root / "work"))

    assert meddled(place, folder, asked(*EDITS, key="k"), at, meddle) == (word, "not_started")
    left = whole(place.root / "work")
    assert left == {
        path: content
        for path, content in expected.items()
        if ".wc-" not in path and (path != "demo/n" or path in left)
    }
    assert ("demo/n" in left) == (swap in {make_folder, make_file})
    assert records(place) == []


@requirement("R-11", "R-55", "R-56")
def test_a_name_swapped_without_end_never_leads_an_edit_outside(place: Place, folder: Path) -> None:
    outside = place.root / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("B")
    steps = [
        "intent",
        "temporary a.txt",
        "temporary sub/b.txt",
        "backup a.txt",
        "backup sub/b.txt",
        "directories synced",
    ]

    def swap() -> None:
        (folder / "sub").rename(folder / "kept")
        (folder / "sub").symlink_to(outside)

    for at in steps:
        assert meddled(place, folder, asked(*EDITS[:2]), at, swap) == ("path_changed", "not_started")
        (folder / "sub").unlink()
        (folder / "kept").rename(folder / "sub")
        assert tree(outside) == {"b.txt": b"B"}, at
        assert tree(folder / "sub") == {"b.txt": b"B"}, at
