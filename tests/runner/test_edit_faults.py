"""Edits that end short: given up, disturbed, refused by the disk, or not to be undone."""

import errno
import functools
import os
import resource
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner.crash_points import AFTER, BEFORE, BODY, build
from tests.runner.edit_place import (
    BY,
    NOW,
    answer_of,
    asked,
    create,
    delete,
    edits_of,
    records,
    tree,
    write,
)
from tests.runner.place import Place, as_user, registered, soon
from webcodex.runner import deadline, failures, kept_answers

MIB = 1024 * 1024


@requirement("R-45", "R-55")
def test_an_edit_that_nobody_waits_for_is_dropped_before_it_begins_and_finished_after(
    place: Place, folder: Path
) -> None:
    over = Event()
    until = deadline.Deadline(at=monotonic() + 20, given_up=over)
    edits = edits_of(place)
    body = asked(write("a.txt", "A", "B"), key="k")
    for step in edits.steps(registered(folder), BY, body, until):
        if step == "intent":
            over.set()
    assert (folder / "a.txt").read_text() == "B"
    late = asked(create("n", "N"), key="late")
    with pytest.raises(failures.RequestFailed) as caught:
        edits.edit(registered(folder), BY, late, until)
    assert (caught.value.failure.code, caught.value.execution.value) == ("timeout", "not_started")
    assert not (folder / "n").exists()
    assert answer_of(edits, folder, late)["replayed"] is False


@requirement("R-55", "R-56", "R-57")
def test_what_others_wrote_during_the_undo_is_left_with_its_backup_and_kept_as_the_answer(
    place: Place,
) -> None:
    _, folder = build(place.root / "in")
    with pytest.raises(failures.RequestFailed) as caught:
        interfere(place, folder)
    outcomes = {item["path"]: item for item in (caught.value.failure.details or {})["paths"]}
    backup = outcomes["a.txt"]["backup"]
    assert caught.value.failure.code == "edit_partially_applied"
    assert caught.value.execution.value == "completed"
    assert outcomes["a.txt"]["state"] == "other"
    assert {outcomes[path]["state"] for path in ("d.txt", "r.txt", "sub/w.txt")} == {"old"}
    others = {"n": None, "n/m": None, "n/m/x.txt": b"OTHER", "a.txt": b"OUTSIDE"}
    assert tree(folder) == {**BEFORE, **others, backup: b"A"}
    again = answer_of(edits_of(place), folder, BODY)
    assert (again["error"], again["execution"]) == ("edit_partially_applied", "completed")
    assert again["paths"] == list(outcomes.values())


def interfere(place: Place, folder: Path) -> None:
    """Edits while somebody writes what was changed already and what is still to be created."""
    for step in edits_of(place).steps(registered(folder), BY, BODY, soon()):
        if step == "changed a.txt":
            (folder / "a.txt").write_bytes(b"OUTSIDE")
            (folder / "n/m/x.txt").write_bytes(b"OTHER")


@requirement("R-55", "R-56")
def test_an_undo_that_cannot_be_finished_is_an_unknown_outcome_until_it_is(
    place: Place, folder: Path
) -> None:
    edits = edits_of(place)
    steps = edits.steps(
        registered(folder), BY, asked(write("a.txt", "A", "B"), delete("t.txt", "one two two\n")), soon()
    )
    assert next(step for step in steps if step == "checked again")
    [temporary] = folder.glob(".wc-*.new")
    temporary.unlink()
    temporary.mkdir()
    with pytest.raises(failures.RequestFailed) as caught:
        list(steps)
    assert caught.value.failure.code == "edit_outcome_unknown"
    assert (caught.value.failure.details, caught.value.execution.value) == (
        {"paths": ["a.txt", "t.txt"]},
        "outcome_unknown",
    )
    assert answer_of(edits, folder, asked(create("n", "N")))["error"] == "edit_outcome_unknown"
    temporary.rmdir()
    assert answer_of(edits, folder, asked(create("n", "N")))["applied"] is True
    assert tree(folder) == {"a.txt": b"A", "t.txt": b"one two two\n", "n": b"N"}
    assert records(place) == []


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Lets no file grow beyond a size while the block runs, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@requirement("R-55", "R-56")
@pytest.mark.parametrize("size_bytes", [0, 100, 20_000])
def test_a_disk_that_takes_no_more_loses_nothing_and_keeps_nothing(
    place: Place, folder: Path, size_bytes: int
) -> None:
    edits = edits_of(place)
    before = tree(folder)
    body = asked(write("a.txt", "A", "B"), create("n/x", "N" * 30_000), delete("t.txt", "one two two\n"))
    with largest_file(size_bytes):
        answer = answer_of(edits, folder, {**body, "idempotency_key": "k"})
    assert answer == {"error": "io_error", "execution": "not_started"}
    assert tree(folder) == before
    assert list((place.state_dir / "kept-answers").iterdir()) == []
    assert answer_of(edits, folder, {**body, "idempotency_key": "k"})["replayed"] is False


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Lets nothing beneath a folder be changed while the block runs, as a file system mounted so does."""
    within = {(found.st_dev, found.st_ino) for found in map(os.stat, [folder, *folder.rglob("*")])}

    def refuse(made: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        directory = next((named[name] for name in ("dir_fd", "src_dir_fd") if named.get(name)), None)
        status = Path(arguments[0]).parent.stat() if directory is None else os.fstat(directory)
        if (status.st_dev, status.st_ino) in within:
            raise OSError(errno.EROFS, "this file system is read-only")
        return made(*arguments, **named)

    def opened(name: Any, flags: int, *arguments: Any, **named: Any) -> int:
        made: Callable[..., int] = functools.partial(refuse, open_file) if flags & os.O_CREAT else open_file
        return made(name, flags, *arguments, **named)

    open_file = os.open
    with pytest.MonkeyPatch.context() as patched:
        for name in ("unlink", "mkdir", "rmdir", "link", "rename", "replace"):
            patched.setattr(os, name, functools.partial(refuse, getattr(os, name)))
        patched.setattr(os, "open", opened)
        yield


@requirement("R-55", "R-56")
@pytest.mark.parametrize("where", ["state", "project"])
def test_a_read_only_file_system_is_told_as_what_it_is_and_leaves_nothing_open(
    place: Place, folder: Path, where: str
) -> None:
    edits, before = edits_of(place), tree(folder)
    body = asked(write("a.txt", "A", "B"), delete("t.txt", "one two two\n"), key="k")
    with read_only(folder if where == "project" else place.state_dir):
        for _ in range(2):
            assert answer_of(edits, folder, body) == {"error": "io_error", "execution": "not_started"}
    assert (tree(folder), records(place)) == (before, [])
    assert answer_of(edits, folder, body)["replayed"] is False


@requirement("R-55", "R-56")
@pytest.mark.parametrize("at", ["temporary a.txt", "changed a.txt"])
def test_a_file_system_that_turns_read_only_holds_an_edit_open_until_it_can_be_undone(
    place: Place, folder: Path, at: str
) -> None:
    edits, before = edits_of(place), tree(folder)
    body = asked(write("a.txt", "A", "B"), delete("t.txt", "one two two\n"), key="k")
    steps = edits.steps(registered(folder), BY, body, soon())
    assert next(step for step in steps if step == at)
    with read_only(folder):
        with pytest.raises(failures.RequestFailed, match="edit_outcome_unknown"):
            list(steps)
        refused = answer_of(edits, folder, asked(create("n", "N")))
        assert (refused["error"], refused["paths"]) == ("edit_outcome_unknown", ["a.txt", "t.txt"])
    edits_of(place).recover([registered(folder)])
    assert (tree(folder), records(place)) == (before, [])
    assert answer_of(edits_of(place), folder, body)["replayed"] is False


@requirement("R-57")
def test_an_old_answer_that_cannot_leave_refuses_the_new_key_and_changes_nothing(
    place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "MOST", 1)
    first = asked(write("a.txt", "A", "B"), key="first")
    assert answer_of(edits_of(place), folder, first)["applied"] is True
    later = edits_of(place, NOW + kept_answers.KEPT_FOR_S)
    new = asked(create("n", "N"), key="new")
    with read_only(place.state_dir):
        assert answer_of(later, folder, new) == {"error": "io_error", "execution": "not_started"}
    assert not (folder / "n").exists()
    assert answer_of(later, folder, first)["replayed"] is True
    assert answer_of(later, folder, new)["applied"] is True


@requirement("R-55", "R-57")
def test_an_answer_whose_backups_are_still_to_be_removed_never_leaves(
    place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "MOST", 1)
    first = asked(write("a.txt", "A", "B"), key="first")
    edits = edits_of(place)
    for step in edits.steps(registered(folder), BY, first, soon()):
        if step == "committed":
            break
    later = edits_of(place, NOW + kept_answers.KEPT_FOR_S)
    new = asked(create("n", "N"), key="new")
    assert answer_of(later, folder, new) == {"error": "idempotency_capacity", "execution": "not_started"}
    assert records(place) == [".unswept"]
    later.recover([registered(folder)])
    assert answer_of(later, folder, new)["applied"] is True
    assert (records(place), tree(folder)) == (
        [".json"],
        {"a.txt": b"B", "t.txt": b"one two two\n", "n": b"N"},
    )


@requirement("R-55", "R-56")
def test_a_directory_that_may_not_be_written_is_permission_denied() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        root = Path(name).resolve()
        place, folder = build(root / "place")
        edits = edits_of(place)
        folder.chmod(0o755)
        for path in (root, place.root, place.state_dir, place.config, *place.state_dir.rglob("*")):
            os.chown(path, 65534, 65534)
        before = tree(folder)
        try:
            as_user(65534)
            answer = answer_of(edits, folder, BODY)
        finally:
            as_user(0)
        assert (tree(folder), records(place)) == (before, [])
    if os.getuid() == 0:
        assert answer == {"error": "permission_denied", "execution": "not_started"}


@requirement("R-54")
@pytest.mark.parametrize("owner", [65534, 0])
def test_mode_bits_are_kept_and_those_that_lend_rights_only_with_their_owner(owner: int) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        root = Path(name).resolve()
        place = Place(root)
        edits, folder = edits_of(place), place.add_project("demo")
        (folder / "a.txt").write_text("A")
        for path in (root, place.config, *place.state_dir.rglob("*"), place.state_dir, folder):
            os.chown(path, 65534, -1)
        if os.getuid() == 0:
            os.chown(folder / "a.txt", owner, 0)
        (folder / "a.txt").chmod(0o6755)
        try:
            as_user(65534)
            answer = answer_of(edits, folder, asked(write("a.txt", "A", "B")))
        finally:
            as_user(0)
        status = (folder / "a.txt").stat()
    assert answer["applied"] is True
    assert stat.S_IMODE(status.st_mode) == (0o6755 if owner or os.getuid() else 0o755)


@requirement("R-55")
def test_where_no_hard_links_are_made_copies_are_kept_and_put_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "this file system makes no hard links")

    _, folder = build(place.root / "in")
    (folder / "a.txt").chmod(0o751)
    (folder / "d.txt").chmod(0o640)
    without_create = [edit for edit in BODY["edits"] if edit["op"] != "create"]
    monkeypatch.setattr(os, "link", link)
    edits = edits_of(place)
    for stopped_at in ("backup d.txt", "changed a.txt", "changed sub/w.txt"):
        steps = edits.steps(registered(folder), BY, asked(*without_create), soon())
        assert next(step for step in steps if step == stopped_at)
        edits_of(place).recover([registered(folder)])
        assert tree(folder) == BEFORE
        modes = [stat.S_IMODE((folder / name).stat().st_mode) for name in ("a.txt", "d.txt")]
        assert modes == [0o751, 0o640]
        edits = edits_of(place)
    steps = edits.steps(registered(folder), BY, BODY, soon())
    assert next(step for step in steps if step == "checked again")
    (folder / "n" / "m" / "x.txt").write_bytes(b"OTHER")
    with pytest.raises(failures.RequestFailed, match="path_changed"):
        list(steps)
    assert tree(folder) == {**BEFORE, "n": None, "n/m": None, "n/m/x.txt": b"OTHER"}
    (folder / "n" / "m" / "x.txt").unlink()
    assert answer_of(edits, folder, BODY)["applied"] is True
    assert tree(folder) == AFTER
