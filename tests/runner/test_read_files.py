"""`read_files`: ranges, hashes, budgets, and every way in which one item may fail."""

import hashlib
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.runner.place import Place, read_files, registered, soon
from webcodex.protocol import bounds, fields
from webcodex.runner import deadline, failures, file_range, file_tools, projects


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def folder(place: Place) -> Path:
    """An empty project."""
    return place.add_project("demo")


async def only(place: Place, folder: Path, item: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    """Returns the one item of an answer to one item."""
    reply = await read_files(registered(folder), place.own(), item, **more)
    assert (reply["requested_count"], reply["returned_count"]) == (1, 1)
    [answered] = reply["items"]
    return dict(answered)


@requirement("R-51")
async def test_a_file_is_answered_in_the_form_of_the_specification(place: Place, folder: Path) -> None:
    content = b"def clamp(value):\n    return value\n\n"
    (folder / "clamp.py").write_bytes(content)
    assert await read_files(registered(folder), place.own(), "./clamp.py") == {
        "requested_count": 1,
        "returned_count": 1,
        "succeeded_count": 1,
        "failed_count": 0,
        "items": [
            {
                "index": 0,
                "path": "clamp.py",
                "success": True,
                "error": None,
                "output": {
                    "text": content.decode(),
                    "format": "plain",
                    "path": "clamp.py",
                    "sha256": sha256(content),
                    "start_line": 1,
                    "limit": 2000,
                    "total_lines": 3,
                    "returned_lines": 3,
                    "end_line": 3,
                    "has_more": False,
                    "next_start_line": None,
                },
            }
        ],
        "output_truncated": False,
        "next_index": None,
    }


@requirement("R-51")
@pytest.mark.parametrize(
    ("content", "start", "limit", "expected"),
    [
        (b"", 1, 5, ("", 0, 0, None, False, None)),
        (b"", 3, 5, ("", 0, 0, None, False, None)),
        (b"\n", 1, 5, ("\n", 1, 1, 1, False, None)),
        (b"one", 1, 5, ("one", 1, 1, 1, False, None)),
        (b"one\ntwo", 2, 5, ("two", 2, 1, 2, False, None)),
        (b"one\ntwo\n", 1, 1, ("one\n", 2, 1, 1, True, 2)),
        (b"one\ntwo\nthree\n", 2, 1, ("two\n", 3, 1, 2, True, 3)),
        (b"one\ntwo\nthree\n", 3, 1, ("three\n", 3, 1, 3, False, None)),
        (b"one\ntwo\n", 3, 5, ("", 2, 0, None, False, None)),
        (b"one\r\ntwo\rthree\n", 1, 1, ("one\r\n", 2, 1, 1, True, 2)),
        (b"one\xe2\x80\xa8two\x0cthree\n", 1, 5, ("one\u2028two\x0cthree\n", 1, 1, 1, False, None)),
        (b"\xef\xbb\xbfone\n", 1, 5, ("\ufeffone\n", 1, 1, 1, False, None)),
    ],
)
async def test_a_range_is_counted_in_lines_that_newlines_begin(
    content: bytes, start: int, limit: int, expected: tuple[Any, ...], place: Place, folder: Path
) -> None:
    (folder / "f").write_bytes(content)
    answered = await only(place, folder, {"path": "f", "start_line": start, "limit": limit})
    output = answered["output"]
    names = ("text", "total_lines", "returned_lines", "end_line", "has_more", "next_start_line")
    assert tuple(output[name] for name in names) == expected
    assert output["sha256"] == sha256(content)


@requirement("R-51")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.text("aü\r", max_size=3), max_size=12),
    ended=st.booleans(),
    start=st.integers(1, 14),
    limit=st.integers(1, 14),
)
def test_any_range_equals_the_lines_that_python_would_cut(
    place: Place, lines: list[str], ended: bool, start: int, limit: int
) -> None:
    text = "\n".join(lines) + ("\n" if ended and lines else "")
    path = place.root / "f"
    path.write_bytes(text.encode())
    cut = [line + "\n" for line in text.split("\n")]
    cut = [*cut[:-1], *([cut[-1][:-1]] if cut[-1] != "\n" else [])]
    wanted = file_range.Wanted(start_line=start, limit=limit, expected_sha256=None, with_line_numbers=False)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = file_range.read(descriptor, len(text.encode()), wanted, soon())
    finally:
        os.close(descriptor)
    expected = cut[start - 1 : start - 1 + limit]
    assert found == file_range.Range(
        text="".join(expected),
        sha256=sha256(text.encode()),
        total_lines=len(cut),
        returned_lines=len(expected),
    )


@requirement("R-51")
async def test_a_range_deep_in_a_large_file_is_found_across_reads(place: Place, folder: Path) -> None:
    lines = [f"line {number} {'ü' * (number % 90)}\n" for number in range(1, 60_001)]
    content = "".join(lines).encode()
    assert len(content) > 4_000_000
    (folder / "f").write_bytes(content)
    for start in (1, 9_000, 12_345, 59_999):
        answered = await only(place, folder, {"path": "f", "start_line": start, "limit": 700})
        output = answered["output"]
        assert output["text"] == "".join(lines[start - 1 : start + 699])
        assert (output["total_lines"], output["sha256"]) == (60_000, sha256(content))


@requirement("R-51")
async def test_numbered_text_says_each_lines_number(place: Place, folder: Path) -> None:
    (folder / "f").write_text("one\ntwo\n\nfour")
    answered = await only(place, folder, {"path": "f", "start_line": 2}, with_line_numbers=True)
    assert answered["output"]["format"] == "numbered"
    assert answered["output"]["text"] == "     2\ttwo\n     3\t\n     4\tfour"
    assert answered["output"]["returned_lines"] == 3


@requirement("R-51")
async def test_the_expected_hash_is_that_of_the_whole_file(place: Place, folder: Path) -> None:
    (folder / "f").write_bytes(b"one\ntwo\n")
    whole = sha256(b"one\ntwo\n")
    item = {"path": "f", "start_line": 2, "limit": 1}
    assert (await only(place, folder, {**item, "expected_sha256": whole}))["success"]
    refused = await only(place, folder, {**item, "expected_sha256": sha256(b"two\n")})
    assert refused == {
        "index": 0,
        "path": "f",
        "success": False,
        "error": {"reason": "sha_mismatch", "sha256": whole},
        "output": None,
    }


def make_faults(folder: Path) -> None:
    (folder / "good").write_text("A")
    (folder / "folder").mkdir()
    (folder / "binary").write_bytes(b"text\n\xff\n")
    (folder / "half").write_bytes(b"text\n\xc3")
    (folder / "long").write_bytes(b"x" * (192 * 1024 + 1))
    (folder / "escaped").write_bytes(b"\x01" * 60_000)
    with (folder / "huge").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    (folder / "out").symlink_to("/etc/passwd")


ITEM_ERRORS = {
    "invalid_path": ["/etc/passwd", "../x", "out", "a\\b", ""],
    "sensitive_path": [".git/config", ".ENV", "id_rsa"],
    "not_found": ["absent", "good/x"],
    "not_file": ["folder", "."],
    "invalid_utf8": ["binary", "half"],
    "range_too_large": ["long", "escaped"],
    "file_too_large": ["huge"],
}


@requirement("R-51")
@pytest.mark.parametrize("reason", ITEM_ERRORS)
async def test_one_bad_item_fails_alone(reason: str, place: Place, folder: Path) -> None:
    make_faults(folder)
    bad = ITEM_ERRORS[reason]
    reply = await read_files(registered(folder), place.own(), *bad, "good")
    assert [item["error"] for item in reply["items"]] == [*({"reason": reason} for _ in bad), None]
    assert [item["output"] is None for item in reply["items"]] == [*(True for _ in bad), False]
    assert (reply["succeeded_count"], reply["failed_count"]) == (1, len(bad))
    assert (reply["output_truncated"], reply["next_index"]) == (False, None)


@requirement("R-12", "R-51")
async def test_a_refused_form_is_not_repeated_and_other_refusals_name_the_project_path(
    place: Place, folder: Path
) -> None:
    reply = await read_files(registered(folder), place.own(), "/etc/passwd", "./absent", ".env")
    assert [item["path"] for item in reply["items"]] == [None, "absent", ".env"]
    assert "/etc" not in str(reply)
    assert str(place.root) not in str(reply)


@requirement("R-51")
async def test_a_range_beside_a_long_line_is_still_given(place: Place, folder: Path) -> None:
    (folder / "f").write_bytes(b"short\n" + b"x" * 400_000 + b"\nlast\n")
    first = await only(place, folder, {"path": "f", "limit": 1})
    assert (first["output"]["text"], first["output"]["next_start_line"]) == ("short\n", 2)
    assert (await only(place, folder, {"path": "f", "start_line": 2, "limit": 1}))["error"] == {
        "reason": "range_too_large"
    }
    assert (await only(place, folder, {"path": "f", "start_line": 3}))["output"]["text"] == "last\n"


@requirement("R-51")
async def test_a_text_of_192_kibibytes_is_given_and_numbers_count_with_it(place: Place, folder: Path) -> None:
    (folder / "f").write_bytes(b"x" * (192 * 1024 - 1) + b"\n")
    assert (await only(place, folder, "f"))["success"]
    numbered = await only(place, folder, "f", with_line_numbers=True)
    assert numbered["error"] == {"reason": "range_too_large"}


@requirement("R-51")
async def test_a_file_of_64_mebibytes_is_read(place: Place, folder: Path) -> None:
    with (folder / "f").open("wb") as file:
        file.write(b"first\n")
        file.truncate(64 * 1024 * 1024)
    answered = await only(place, folder, {"path": "f", "limit": 1})
    assert answered["output"]["text"] == "first\n"


@requirement("R-50", "R-51")
async def test_items_are_whole_until_the_reply_is_full(place: Place, folder: Path) -> None:
    for name in "abcd":
        (folder / name).write_text(name * 100_000)
    reply = await read_files(registered(folder), place.own(), "a", "absent", "b", "c", "d")
    assert [item["index"] for item in reply["items"]] == [0, 1, 2]
    assert [item["success"] for item in reply["items"]] == [True, False, True]
    assert (reply["requested_count"], reply["returned_count"]) == (5, 3)
    assert (reply["succeeded_count"], reply["failed_count"]) == (2, 1)
    assert (reply["output_truncated"], reply["next_index"]) == (True, 3)
    assert fields.encoded_bytes(reply) <= bounds.MAX_REPLY_BYTES


@requirement("R-51")
async def test_what_cannot_be_opened_for_want_of_means_is_an_io_error(place: Place, folder: Path) -> None:
    (folder / "f").write_text("A")
    own = place.own()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    project, item = registered(folder), file_tools.parse({"items": [{"path": "f"}]})[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        answered = file_tools.outcome(project, own, item, 0, soon())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert answered["error"] == {"reason": "io_error"}


@requirement("R-51")
async def test_what_is_not_read_by_the_deadline_is_timed_out(place: Place, folder: Path) -> None:
    (folder / "f").write_text("A")
    late = await only(place, folder, "f", until=soon(-1))
    assert late["error"] == {"reason": "timeout"}
    given_up = deadline.Deadline(at=monotonic() + 60, given_up=Event())
    given_up.given_up.set()
    assert (await only(place, folder, "f", until=given_up))["error"] == {"reason": "timeout"}


@requirement("R-51")
async def test_items_behind_a_busy_pool_are_timed_out_and_the_others_stand(
    place: Place, folder: Path
) -> None:
    (folder / "f").write_text("A")
    release = Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(release.wait, 20)
        try:
            reply = await file_tools.read_files(
                registered(folder), place.own(), {"items": [{"path": "f"}]}, pool=pool, until=soon(0.05)
            )
        finally:
            release.set()
    assert [item["error"] for item in reply["items"]] == [{"reason": "timeout"}]


def gone(folder: Path) -> projects.Project:
    project = registered(folder)
    folder.rmdir()
    return project


@requirement("R-11", "R-50")
async def test_a_replaced_root_fails_the_whole_call(place: Place, folder: Path) -> None:
    project = gone(folder)
    with pytest.raises(failures.RequestFailed) as caught:
        await read_files(project, place.own(), "a", "b")
    assert caught.value.failure.code == "project_root_replaced"
    assert caught.value.failure.recovery_kind == "user_action"


@requirement("R-51")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"items": []},
        {"items": [{"path": "f"}] * 9},
        {"items": ["f"]},
        {"items": [{"path": 1}]},
        {"items": [{"path": "f", "start_line": 0}]},
        {"items": [{"path": "f", "limit": 0}]},
        {"items": [{"path": "f", "limit": 2001}]},
        {"items": [{"path": "f", "limit": True}]},
        {"items": [{"path": "f", "expected_sha256": "9F" * 32}]},
        {"items": [{"path": "f"}], "with_line_numbers": "yes"},
    ],
)
def test_a_body_in_another_form_is_refused_whole(body: dict[str, Any]) -> None:
    with pytest.raises(failures.RequestFailed) as caught:
        file_tools.parse(body)
    assert caught.value.failure == failures.INVALID_ARGUMENTS
