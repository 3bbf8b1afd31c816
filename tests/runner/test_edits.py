"""Edits of a Project's files: their form, their bounds, and all or nothing."""

import stat
import tempfile
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.runner.crash_points import AFTER, BODY, build
from tests.runner.edit_place import (
    BY,
    answer_of,
    apply,
    asked,
    create,
    delete,
    edits_of,
    records,
    replace,
    sha256,
    tree,
    write,
)
from tests.runner.place import Place, registered, soon
from webcodex.runner import failures

MIB = 1024 * 1024


@requirement("R-54", "R-55")
def test_each_operation_is_made_and_answered_in_the_form_of_the_specification(place: Place) -> None:
    _, folder = build(place.root / "in")
    (folder / "a.txt").chmod(0o751)
    answer = answer_of(edits_of(place), folder, BODY)
    assert answer == {
        "applied": True,
        "replayed": False,
        "state_changed": True,
        "files": [
            {"path": "a.txt", "op": "write", "before_sha256": sha256("A"), "after_sha256": sha256("B")},
            {"path": "n/m/x.txt", "op": "create", "before_sha256": None, "after_sha256": sha256("X")},
            {"path": "d.txt", "op": "delete", "before_sha256": sha256("D"), "after_sha256": None},
            {
                "path": "r.txt",
                "op": "replace",
                "before_sha256": sha256("one two\n"),
                "after_sha256": sha256("1 two\n"),
            },
            {"path": "sub/w.txt", "op": "write", "before_sha256": sha256("W"), "after_sha256": sha256("V")},
        ],
        "changed_paths": ["a.txt", "n/m/x.txt", "d.txt", "r.txt", "sub/w.txt"],
    }
    assert tree(folder) == AFTER
    assert stat.S_IMODE((folder / "a.txt").stat().st_mode) == 0o751
    plain = place.root / "plain"
    plain.touch()
    assert (folder / "n/m/x.txt").stat().st_mode == plain.stat().st_mode


@requirement("R-54")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"edits": []},
        asked(*[create(f"{number}", "") for number in range(17)]),
        asked({"path": "n", "op": "move", "expected_sha256": None}),
        asked({"op": "create", "expected_sha256": None, "content": ""}),
        asked({"path": "n", "op": "create", "expected_sha256": None}),
        asked({**create("n", ""), "expected_sha256": sha256("")}),
        asked({**create("n", ""), "replacements": [{"old": "a", "new": "b"}]}),
        asked({**write("a.txt", "A", ""), "expected_sha256": None}),
        asked({**write("a.txt", "A", ""), "expected_sha256": "A" * 64}),
        asked({**write("a.txt", "A", ""), "content": None}),
        asked({**delete("a.txt", "A"), "content": ""}),
        asked(replace("a.txt", "A")),
        asked(replace("a.txt", "A", *[("A", "A", 1)] * 33)),
        asked(replace("a.txt", "A", ("", "B", 1))),
        asked(replace("a.txt", "A", ("A", "B", 0))),
        asked(replace("a.txt", "A", ("A", "B", True))),
        asked({**replace("a.txt", "A", ("A", "B", 1)), "content": "B"}),
        asked(create("n", ""), key=""),
        asked(create("n", ""), key=" "),
        asked(create("n", ""), key="k" * 129),
    ],
)
def test_a_request_out_of_form_is_refused_and_changes_nothing(
    place: Place, folder: Path, body: dict[str, Any]
) -> None:
    before = tree(folder)
    answer = answer_of(edits_of(place), folder, body)
    assert answer == {"error": "invalid_arguments", "execution": "not_started"}
    assert (tree(folder), records(place)) == (before, [])


@requirement("R-54", "R-56")
@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("one", "1", 1)], "1 two two\n"),
        ([("two", "2", 2)], "one 2 2\n"),
        ([("two two", "2", 1), ("one 2", "12", 1)], "12\n"),
        ([("one", "", 1), ("\n", "", 1)], " two two"),
        ([("three", "3", 1)], "edit_text_not_found"),
        ([("two", "2", 3)], "edit_text_not_found"),
        ([("two", "2", 1)], "edit_text_ambiguous"),
        ([("one", "1", 1), ("one", "1", 1)], "edit_text_not_found"),
        ([("o", "0", 2)], "edit_text_ambiguous"),
    ],
)
def test_a_text_is_replaced_only_where_it_occurs_exactly_as_often_as_stated(
    place: Place, folder: Path, pairs: list[tuple[str, str, int]], expected: str
) -> None:
    answer = apply(place, folder, replace("t.txt", "one two two\n", *pairs), write("a.txt", "A", "B"))
    if expected.startswith("edit_"):
        assert answer == {"error": expected, "execution": "not_started"}
        assert tree(folder) == {"a.txt": b"A", "t.txt": b"one two two\n"}
    else:
        assert tree(folder) == {"a.txt": b"B", "t.txt": expected.encode()}


@requirement("R-54", "R-56")
def test_places_that_overlap_are_ambiguous_and_long_repeats_are_found_at_once(
    place: Place, folder: Path
) -> None:
    (folder / "a.txt").write_text("aaa")
    for count in (1, 2):
        answer = apply(place, folder, replace("a.txt", "aaa", ("aa", "b", count)))
        assert answer["error"] == "edit_text_ambiguous"
    long = "a" * MIB
    (folder / "a.txt").write_text(long)
    answer = apply(place, folder, replace("a.txt", long, ("a" * (MIB // 2), "b", MIB // 2)))
    assert answer["error"] == "edit_text_ambiguous"
    assert apply(place, folder, replace("a.txt", long, ("a", "b", MIB)))["applied"] is True


@requirement("R-54", "R-56")
def test_contents_are_bounded_alone_and_together(place: Place, folder: Path) -> None:
    full = "x" * MIB
    (folder / "long").write_text(full + "x")
    too_large: list[list[dict[str, Any]]] = [
        [create("n", full + "x")],
        [create("n", "ü" * (MIB // 2) + "x")],
        [create("1", full), create("2", full), create("3", full), create("4", "x")],
        [create("1", full), create("2", full), create("3", full), replace("a.txt", "A", ("A", "B", 1))],
        [replace("a.txt", "A", ("A", full + "x", 1))],
        [replace("a.txt", "A", ("A", "ü" * (MIB // 2 + 1), 1))],
        [replace("long", full + "x", ("x" * MIB, "", 1))],
    ]
    before = tree(folder)
    for edits in too_large:
        assert apply(place, folder, *edits) == {"error": "edit_too_large", "execution": "not_started"}
    assert tree(folder) == before
    answer = apply(place, folder, *[create(str(number), full) for number in range(3)])
    assert answer["applied"] is True
    assert apply(place, folder, write("long", full + "x", "short"))["applied"] is True


@requirement("R-54", "R-56")
def test_bytes_that_are_no_text_can_be_written_over_but_not_edited(place: Place, folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"A\xff")
    answer = apply(place, folder, replace("a.txt", b"A\xff", ("A", "B", 1)))
    assert answer == {"error": "invalid_utf8", "execution": "not_started"}
    assert apply(place, folder, write("a.txt", b"A\xff", "ü\0"))["applied"] is True
    assert (folder / "a.txt").read_bytes() == "ü\0".encode()


@requirement("R-55", "R-56")
def test_every_failed_precondition_is_told_and_nothing_is_changed(place: Place, folder: Path) -> None:
    before = tree(folder)
    answer = apply(
        place,
        folder,
        create("n.txt", "N"),
        create("a.txt", "N"),
        write("t.txt", "other", "N"),
        write("./absent/x", "A", "N"),
        delete("absent", "A"),
        replace("a.txt", "B", ("A", "B", 1)),
        key="k",
    )
    assert answer == {
        "error": "edit_precondition_failed",
        "execution": "not_started",
        "failed": [
            {"index": 1, "path": "a.txt", "reason": "exists", "actual_sha256": sha256("A")},
            {"index": 2, "path": "t.txt", "reason": "sha_mismatch", "actual_sha256": sha256("one two two\n")},
            {"index": 3, "path": "absent/x", "reason": "missing", "actual_sha256": None},
            {"index": 4, "path": "absent", "reason": "missing", "actual_sha256": None},
            {"index": 5, "path": "a.txt", "reason": "sha_mismatch", "actual_sha256": sha256("A")},
        ],
    }
    assert (tree(folder), records(place)) == (before, [])


@requirement("R-56")
@pytest.mark.parametrize(
    "edits",
    [
        [write("a.txt", "A", "B"), write("./a.txt", "A", "C")],
        [write("a.txt", "A", "B"), delete("a.txt", "A")],
        [create("n", "N"), create("n", "M")],
        [create("n/x", "N"), create("n", "M")],
        [create("n", "M"), create("n/x", "N")],
    ],
)
def test_two_edits_of_one_path_or_one_beneath_the_other_are_refused(
    place: Place, folder: Path, edits: list[dict[str, Any]]
) -> None:
    before = tree(folder)
    answer = apply(place, folder, *edits)
    assert answer == {"error": "duplicate_edit_path", "execution": "not_started"}
    assert tree(folder) == before


@requirement("R-56")
def test_a_project_that_allows_no_edits_is_left_alone(place: Place, folder: Path) -> None:
    project = changed(registered(folder), allow_patch=False)
    with pytest.raises(failures.RequestFailed) as caught:
        edits_of(place).edit(project, BY, asked(create("n", "N")), soon())
    refusal = caught.value.failure
    assert (refusal.code, refusal.recovery_kind) == ("policy_rejected", "user_action")
    assert not (folder / "n").exists()


@requirement("R-55")
def test_an_edit_that_changes_no_byte_writes_no_file(place: Place, folder: Path) -> None:
    before = (folder / "a.txt").stat()
    body = asked(write("a.txt", "A", "A"), replace("t.txt", "one two two\n", ("one", "one", 1)), key="k")
    answer = answer_of(edits_of(place), folder, body)
    assert (answer["applied"], answer["state_changed"], answer["changed_paths"]) == (True, False, [])
    assert [file["op"] for file in answer["files"]] == ["write", "replace"]
    after = (folder / "a.txt").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert answer_of(edits_of(place), folder, body)["replayed"] is True


NAMES = ("a", "b", "d/a", "d/e/b")
CONTENTS = st.sampled_from(["", "x", "xy", "xyx"])
EDITS = st.tuples(
    st.sampled_from(["create", "write", "replace", "delete"]), st.sampled_from(NAMES), CONTENTS, CONTENTS
)


@requirement("R-54", "R-55")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests=st.lists(st.lists(EDITS, min_size=1, max_size=3), min_size=1, max_size=5))
def test_any_sequence_of_edits_leaves_what_a_model_of_the_files_says(
    place: Place, requests: list[list[tuple[str, str, str, str]]]
) -> None:
    place.own()
    with tempfile.TemporaryDirectory(dir=place.root) as name:
        folder, model = Path(name), dict[str, str]()
        edits = edits_of(place)
        for request in requests:
            expected: dict[str, str] | None = dict(model)
            for op, path, before, content in request:
                expected = after(expected, model, op, path, before, content)
            is_doubled = len({path for _, path, _, _ in request}) < len(request)
            answer = answer_of(edits, folder, asked(*[made(*edit) for edit in request]))
            assert answer.get("applied", False) == (expected is not None and not is_doubled)
            model = expected if "applied" in answer and expected is not None else model
            held = {name: content.decode() for name, content in tree(folder).items() if content is not None}
            assert held == model
        assert records(place) == []


def made(op: str, path: str, before: str, content: str) -> dict[str, Any]:
    if op == "create":
        return create(path, content)
    if op == "write":
        return write(path, before, content)
    return replace(path, before, ("x", content, 1)) if op == "replace" else delete(path, before)


def after(
    files: dict[str, str] | None, model: dict[str, str], op: str, path: str, before: str, content: str
) -> dict[str, str] | None:
    """Returns the files after one edit; None where it, or an earlier one of its request, may not be made."""
    if files is None or (op == "create") != (path not in model):
        return None
    if op == "create":
        return {**files, path: content}
    if model[path] != before or (op == "replace" and before.count("x") != 1):
        return None
    if op == "delete":
        return {name: held for name, held in files.items() if name != path}
    return {**files, path: content if op == "write" else before.replace("x", content)}
