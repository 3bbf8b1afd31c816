"""`search_project_texts`: what is found, told, skipped and left out, by a real process that can be ended."""

import os
import subprocess
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner.place import Place, registered, soon
from tests.runner.test_paths_fuzz import swapping
from webcodex.protocol import bounds, fields
from webcodex.runner import deadline, failures, own_files, search_files, text_search, tree_walk

NOTHING: dict[str, Any] = {
    "truncated": False,
    "searched_files": 0,
    "skipped_files": 0,
    "omitted_sensitive": 0,
}


def searched(
    place: Place, folder: Path, pattern: str, own: own_files.OwnFiles | None = None, **body: Any
) -> dict[str, Any]:
    asked = {"pattern": pattern, **body}
    return text_search.search(registered(folder), own or place.own(), asked, soon())


def found(place: Place, folder: Path, pattern: str, **body: Any) -> list[str]:
    """Returns ``path:line:text`` of every match."""
    matches = searched(place, folder, pattern, **body)["matches"]
    return [f"{match['path']}:{match['line']}:{match['text']}" for match in matches]


def refusal(place: Place, folder: Path, pattern: Any, **body: Any) -> str:
    with pytest.raises(failures.RequestFailed) as refused:
        searched(place, folder, pattern, **body)
    return refused.value.failure.code


@pytest.fixture
def folder(place: Place) -> Path:
    """A project with a few texts."""
    made = place.add_project("demo")
    (made / "src").mkdir()
    (made / "src/clamp.py").write_text("def clamp(value):\n    return value\n\nclamp(1)\n")
    (made / "src-notes").write_text("Clamp it.\r\nÉtude\r\n")
    (made / "README").write_text("no newline: clamp")
    return made


@requirement("R-52")
def test_matches_are_told_in_the_order_of_the_paths_with_their_context(place: Place, folder: Path) -> None:
    assert searched(place, folder, "clamp", context=1) == {
        **NOTHING,
        "matches": [
            {"path": "README", "line": 1, "text": "no newline: clamp", "before": [], "after": []},
            {
                "path": "src/clamp.py",
                "line": 1,
                "text": "def clamp(value):",
                "before": [],
                "after": ["    return value"],
            },
            {"path": "src/clamp.py", "line": 4, "text": "clamp(1)", "before": [""], "after": []},
        ],
        "searched_files": 3,
    }


@requirement("R-52")
def test_files_or_counts_are_told_where_they_are_asked_for(place: Place, folder: Path) -> None:
    told = {**NOTHING, "searched_files": 3}
    assert searched(place, folder, "clamp", result_mode="files_with_matches") == {
        **told,
        "files": ["README", "src/clamp.py"],
    }
    assert searched(place, folder, "clamp", result_mode="count") == {
        **told,
        "counts": [{"path": "README", "count": 1}, {"path": "src/clamp.py", "count": 2}],
    }


@requirement("R-52")
def test_case_counts_unless_it_is_said_not_to(place: Place, folder: Path) -> None:
    assert found(place, folder, "CLAMP") == []
    assert found(place, folder, "CLAMP IT", case_sensitive=False) == ["src-notes:1:Clamp it."]
    assert found(place, folder, "étude", case_sensitive=False) == ["src-notes:2:Étude"]
    assert found(place, folder, "é.UDE$", case_sensitive=False, pattern_mode="regex") == ["src-notes:2:Étude"]


@requirement("R-52")
def test_a_literal_is_no_expression_and_an_expression_stays_in_its_line(place: Place, folder: Path) -> None:
    assert found(place, folder, "clamp(1)") == ["src/clamp.py:4:clamp(1)"]
    assert found(place, folder, "cl[a]mp.1", pattern_mode="regex") == ["src/clamp.py:4:clamp(1)"]
    assert found(place, folder, r"value\W+return", pattern_mode="regex") == []
    assert found(place, folder, r"^\s*$", pattern_mode="regex") == ["src/clamp.py:3:"]


@requirement("R-11", "R-52")
def test_paths_globs_and_links_decide_where_is_searched(place: Place, folder: Path) -> None:
    (folder / "link").symlink_to("src")
    (folder / "file-link").symlink_to("README")
    assert searched(place, folder, "clamp")["searched_files"] == 3
    assert found(place, folder, "clamp(1)", path="link") == ["link/clamp.py:4:clamp(1)"]
    assert found(place, folder, "clamp", path="file-link") == ["file-link:1:no newline: clamp"]
    assert found(place, folder, "clamp", globs=["!src/"]) == ["README:1:no newline: clamp"]
    assert searched(place, folder, "clamp", globs=["*.{c,h}"]) == {**NOTHING, "matches": []}
    assert refusal(place, folder, "clamp", path="absent") == "not_found"
    assert refusal(place, folder, "clamp", path=".git") == "sensitive_path"
    (folder / "out").symlink_to("../..")
    assert refusal(place, folder, "clamp", path="out") == "invalid_path"


@requirement("R-52")
@pytest.mark.parametrize(("limit", "truncated"), [(1, True), (2, True), (3, False), (500, False)])
def test_more_than_the_limit_is_said_to_be_there_once_it_was_seen(
    limit: int, truncated: bool, place: Place, folder: Path
) -> None:
    reply = searched(place, folder, "clamp", limit=limit)
    assert (len(reply["matches"]), reply["truncated"]) == (min(limit, 3), truncated)
    files = searched(place, folder, "clamp", limit=limit, result_mode="files_with_matches")
    assert (len(files["files"]), files["truncated"]) == (min(limit, 2), limit == 1)


@requirement("R-50", "R-52")
def test_a_reply_keeps_to_its_bound(place: Place, folder: Path) -> None:
    filling = ("\x01" * 600 + "\n") * 100
    (folder / "long").write_text(f"{filling}needle\n{filling}needle\n" + "\x01needle" * 40_000)
    reply = searched(place, folder, "needle", context=80, limit=500)
    assert fields.encoded_bytes(reply) <= bounds.MAX_REPLY_BYTES - 512
    assert reply["truncated"] is True
    [match] = reply["matches"]
    assert (match["line"], match["text"]) == (101, "needle")
    assert 30 < len(match["before"]) == len(match["after"]) < 80
    assert {len(line) for line in (*match["before"], *match["after"])} == {512}
    (folder / "long").write_text(("\x01" * 600 + "needle\n") * 200)
    reply = searched(place, folder, "needle", limit=500)
    assert 50 < len(reply["matches"]) < 200
    assert fields.encoded_bytes(reply) <= bounds.MAX_REPLY_BYTES - 512


@requirement("R-12", "R-52")
def test_what_is_no_text_is_skipped_and_counted(place: Place, folder: Path) -> None:
    (folder / "binary").write_bytes(b"clamp\n" + b"x" * 100_000 + b"\0")
    (folder / "latin").write_bytes(b"clamp \xe9\n")
    (folder / "bad\\name").write_text("clamp\n")
    Path(os.fsdecode(bytes(folder) + b"/\xff")).write_text("clamp\n")
    with (folder / "huge").open("wb") as huge:
        huge.write(b"clamp\n")
        huge.truncate(1024**3)
    os.mkfifo(folder / "pipe")
    reply = searched(place, folder, "clamp", result_mode="files_with_matches")
    assert reply == {**NOTHING, "files": ["README", "src/clamp.py"], "searched_files": 3, "skipped_files": 5}


@requirement("R-13", "R-52")
def test_what_is_sensitive_is_never_searched_and_no_count_tells_what_it_holds(
    place: Place, folder: Path
) -> None:
    for path in (".env", "src/id_rsa", ".aws/credentials", ".docker/config.json", ".git/config"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("hidden-word\n")
    own = place.own()
    (place.state_dir / "inside").write_text("hidden-word\n")
    (folder / "linked-state").hardlink_to(place.state_dir / "inside")
    (folder / "linked-config").hardlink_to(place.config)
    (folder / "linked-text").hardlink_to(folder / "README")
    for pattern in ("hidden-word", "wc_agent_5", "wc_agent_x", "client_id"):
        assert searched(place, folder, pattern, own) == {
            **NOTHING,
            "matches": [],
            "searched_files": 4,
            "omitted_sensitive": 6,
        }
    assert refusal(place, folder, "client_id", own=own, path="linked-config") == "sensitive_path"


@requirement("R-50", "R-52")
def test_the_longest_arguments_fit(place: Place, folder: Path) -> None:
    wide = "\N{GRINNING FACE}"
    globs = [*[wide * 512] * 31, "*"]
    path = "/".join(["d" * 200] * 20)
    assert refusal(place, folder, wide * 256, globs=globs, path=path) == "not_found"
    assert searched(place, folder, wide * 256, globs=globs) == {**NOTHING, "matches": [], "searched_files": 3}
    assert refusal(place, folder, "x", path="d" * 1_000_000) == "invalid_path"


@requirement("R-52")
@pytest.mark.parametrize(
    ("pattern", "mode"),
    [
        ("", "literal"),
        ("é" * 513, "literal"),
        ("a\nb", "literal"),
        ("(", "regex"),
        ("[z-a]", "regex"),
        ("(" * 1000, "regex"),
        ("(?<=a*)b", "regex"),
    ],
)
def test_a_pattern_that_no_line_can_match_is_refused(
    pattern: str, mode: str, place: Place, folder: Path
) -> None:
    assert refusal(place, folder, pattern, pattern_mode=mode) == "invalid_pattern"
    assert len(found(place, folder, "clamp")) == 3


@requirement("R-52")
@pytest.mark.parametrize(
    "body",
    [
        {"pattern": 1},
        {"pattern_mode": "glob"},
        {"result_mode": "all"},
        {"context": 81},
        {"context": -1},
        {"limit": 501},
        {"limit": 0},
        {"timeout_secs": 0},
        {"timeout_secs": 121},
        {"case_sensitive": 1},
        {"globs": ["*"] * 33},
        {"globs": ["a//b"]},
    ],
)
def test_arguments_outside_their_bounds_are_refused(body: dict[str, Any], place: Place, folder: Path) -> None:
    asked = {"pattern": "clamp", **body}
    assert refusal(place, folder, asked.pop("pattern"), **asked) == "invalid_arguments"


def programs() -> list[int]:
    """Returns the search programs that this process has as children."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [
        int(child) for child in children if b"search_program" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


@requirement("R-50", "R-52")
def test_an_expression_without_an_end_is_ended_at_its_time(place: Place, folder: Path) -> None:
    (folder / "trap").write_text("a" * 60 + "b\n")
    with pytest.raises(failures.RequestFailed) as refused:
        searched(place, folder, "^(a+)+$", pattern_mode="regex", timeout_secs=1)
    assert (refused.value.failure.code, refused.value.execution) == ("timeout", failures.TIMED_OUT)
    assert programs() == []
    assert len(found(place, folder, "clamp", globs=["!trap"])) == 3


@requirement("R-50")
def test_a_search_that_nobody_waits_for_is_ended(place: Place, folder: Path) -> None:
    given_up = Event()
    given_up.set()
    over = deadline.Deadline(at=monotonic() + 20, given_up=given_up)
    with pytest.raises(failures.RequestFailed) as refused:
        text_search.search(registered(folder), place.own(), {"pattern": "clamp"}, over)
    assert refused.value.failure.code == "timeout"


@requirement("R-52")
def test_a_program_that_nobody_can_end_ends_itself(place: Place, folder: Path) -> None:
    (folder / "trap").write_text("a" * 60 + "b\n")
    asked = text_search.parse({"pattern": "^(a+)+$", "pattern_mode": "regex", "timeout_secs": 1})
    argv, environment = text_search.command(registered(folder), place.own(), asked)
    with subprocess.Popen(
        argv, cwd=folder, env=environment, stdout=subprocess.PIPE, start_new_session=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.read() == b""
        assert program.wait(20) == -14


@requirement("R-11", "R-50")
def test_a_replaced_root_is_refused_on_either_side(place: Place, folder: Path) -> None:
    project, own = registered(folder), place.own()
    argv, environment = text_search.command(project, own, text_search.parse({"pattern": "clamp"}))
    folder.rename(place.root / "elsewhere")
    folder.mkdir()
    with pytest.raises(failures.RequestFailed) as refused:
        text_search.search(project, own, {"pattern": "clamp"}, soon())
    assert refused.value.failure.code == "project_root_replaced"
    answer = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, timeout=20, check=True)
    assert answer.stdout == b'{"refused":"project_root_replaced"}'


@requirement("R-11", "R-12")
def test_what_is_no_file_any_more_is_neither_followed_nor_waited_for(place: Place, folder: Path) -> None:
    (folder / "link").symlink_to("README")
    os.mkfifo(folder / "pipe")
    own = search_files.Own(place.own())
    holder = os.open(folder, os.O_RDONLY)
    try:
        content = search_files.read(tree_walk.Found(holder, "README", "README", tree_walk.Kind.FILE), own)
        for name in ("link", "pipe", "src", "gone"):
            with pytest.raises((search_files.NotText, OSError)):
                search_files.read(tree_walk.Found(holder, name, name, tree_walk.Kind.FILE), own)
    finally:
        os.close(holder)
    assert content == b"no newline: clamp"


@requirement("R-11")
def test_no_swap_during_a_search_ever_finds_what_lies_outside(place: Place) -> None:
    folder = place.add_project("demo")
    for path, text in (("outside/deep/a", "needle SECRET\n"), ("parts/inside/deep/a", "needle\n")):
        (place.root / path).parent.mkdir(parents=True)
        (place.root / path).write_text(text)
    (place.root / "parts/link").symlink_to("../../outside")
    seen: set[str] = set()
    with swapping(folder, "d", [place.root / "parts/inside", place.root / "parts/link"]) as swaps:
        for path in ("", "d/deep", "d/deep/a") * 4:
            try:
                seen.update(found(place, folder, "needle", path=path))
            except failures.RequestFailed as error:
                seen.add(error.failure.code)
    assert swaps[0] >= 100
    assert seen <= {"d/deep/a:1:needle", "invalid_path", "not_found"}
