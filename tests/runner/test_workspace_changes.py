"""`workspace_changes`: every kind of change, its diff, its pages, and what is withheld."""

import json
import os
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner.place import Place, registered, soon
from tests.runner.test_git_status import GIT, git
from webcodex.protocol import bounds, fields
from webcodex.runner import deadline, failures, own_files, workspace_changes

UNAVAILABLE = {"available": False, "files": [], "truncated": False, "next_cursor": None}
UNKNOWN = {"additions": None, "deletions": None, "binary": None, "withheld": False, "diff": None}
WITHHELD = {**UNKNOWN, "withheld": True}


def changes(place: Place, folder: Path, own: own_files.OwnFiles | None = None, **body: Any) -> dict[str, Any]:
    return workspace_changes.workspace_changes(registered(folder), own or place.own(), GIT, body, soon())


def rows(place: Place, folder: Path, **body: Any) -> dict[str, dict[str, Any]]:
    """Returns the files of a whole answer by path, each without it."""
    reply = changes(place, folder, **body)
    assert (reply["available"], reply["truncated"], reply["next_cursor"]) == (True, False, None)
    found = {row.pop("path"): row for row in reply["files"]}
    assert list(found) == sorted(found, key=str.encode)
    assert len(found) == len(reply["files"])
    return found


def row(status: str, added: int, deleted: int, diff: str | None) -> dict[str, Any]:
    counts = {"additions": added, "deletions": deleted, "binary": False}
    return {"status": status, **counts, "withheld": False, "diff": diff}


def commit(folder: Path) -> None:
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "-q", "-m", "more")


@pytest.fixture
def repository(place: Place) -> Path:
    """A project with one commit on `main`."""
    folder = place.add_project("demo")
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "gone.txt").write_text("bye\n")
    (folder / "sub").mkdir()
    (folder / "sub/run.sh").write_text("echo\n")
    commit(folder)
    return folder


@requirement("R-52")
def test_a_clean_repository_has_no_changes(place: Place, repository: Path) -> None:
    assert changes(place, repository) == {**UNAVAILABLE, "available": True}


@requirement("R-52")
def test_each_kind_of_change_is_told_with_its_diff(place: Place, repository: Path) -> None:
    _change_every_kind(repository)
    found = rows(place, repository)
    ids = {path: git(repository, "hash-object", path)[:7] for path in ("a.txt", "staged.txt")}
    old = {path: git(repository, "rev-parse", f"HEAD:{path}")[:7] for path in ("a.txt", "gone.txt")}
    assert found == {
        "a.txt": row(
            "modified",
            1,
            1,
            f"diff --git a/a.txt b/a.txt\nindex {old['a.txt']}..{ids['a.txt']} 100644\n--- a/a.txt\n"
            "+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
        ),
        "gone.txt": row(
            "deleted",
            0,
            1,
            "diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n"
            f"index {old['gone.txt']}..0000000\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n",
        ),
        "new.txt": row(
            "untracked",
            1,
            0,
            "diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n"
            "@@ -0,0 +1 @@\n+fresh\n",
        ),
        "staged.txt": row(
            "added",
            1,
            0,
            "diff --git a/staged.txt b/staged.txt\nnew file mode 100644\n"
            f"index 0000000..{ids['staged.txt']}\n--- /dev/null\n+++ b/staged.txt\n@@ -0,0 +1 @@\n+staged\n",
        ),
        "sub/run.sh": row(
            "modified", 0, 0, "diff --git a/sub/run.sh b/sub/run.sh\nold mode 100644\nnew mode 100755\n"
        ),
    }


def _change_every_kind(repository: Path) -> None:
    (repository / "a.txt").write_text("one\nTWO\nthree\n")
    (repository / "gone.txt").unlink()
    (repository / "sub/run.sh").chmod(0o755)
    (repository / "new.txt").write_text("fresh\n")
    (repository / "staged.txt").write_text("staged\n")
    git(repository, "add", "staged.txt")


@requirement("R-52")
def test_conflicts_types_and_binaries_are_told_as_such(place: Place, repository: Path) -> None:
    (repository / "data").write_bytes(b"a\0b")
    (repository / "untouched").write_bytes(b"a\0b")
    commit(repository)
    git(repository, "checkout", "-q", "-b", "other")
    (repository / "a.txt").write_text("one\nother\nthree\n")
    commit(repository)
    git(repository, "checkout", "-q", "main")
    (repository / "a.txt").write_text("one\nmain\nthree\n")
    commit(repository)
    git(repository, "merge", "other", check=False)
    (repository / "data").write_bytes(b"a\0c")
    (repository / "fresh").write_bytes(b"\0")
    (repository / "gone.txt").unlink()
    (repository / "gone.txt").symlink_to("/etc/passwd")
    (repository / "link").symlink_to("/etc/passwd")
    found = rows(place, repository)
    assert {path: row["status"] for path, row in found.items()} == {
        "a.txt": "conflicted",
        "data": "modified",
        "fresh": "untracked",
        "gone.txt": "type_changed",
        "link": "untracked",
    }
    assert "+<<<<<<< HEAD\n" in found["a.txt"]["diff"]
    assert found["data"] == {**UNKNOWN, "status": "modified", "binary": True}
    assert found["fresh"] == {**UNKNOWN, "status": "untracked", "binary": True}
    assert found["gone.txt"]["diff"].endswith("@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n")
    assert found["link"] == {**UNKNOWN, "status": "untracked"}


@requirement("R-52")
def test_before_the_first_commit_all_is_added_or_untracked(place: Place) -> None:
    folder = place.add_project("young")
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("a")
    (folder / "b.txt").write_text("")
    git(folder, "add", "a.txt")
    found = rows(place, folder)
    assert [(path, row["status"], row["additions"]) for path, row in found.items()] == [
        ("a.txt", "added", 1),
        ("b.txt", "untracked", 0),
    ]
    assert found["a.txt"]["diff"].endswith("@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n")
    (folder / "a.txt").unlink()
    assert list(rows(place, folder)) == ["b.txt"]


@requirement("R-52")
def test_what_was_only_removed_from_the_index_is_deleted_and_untracked(
    place: Place, repository: Path
) -> None:
    git(repository, "rm", "-q", "--cached", "a.txt")
    (repository / "gone.txt").write_text("staged\n")
    git(repository, "add", "gone.txt")
    (repository / "gone.txt").write_text("bye\n")
    reply = changes(place, repository)
    assert [(row["path"], row["status"]) for row in reply["files"]] == [
        ("a.txt", "deleted"),
        ("a.txt", "untracked"),
        ("gone.txt", "modified"),
    ]
    assert reply["files"][2] == {"path": "gone.txt", **row("modified", 0, 0, None)}


@requirement("R-13", "R-52")
def test_sensitive_and_own_content_is_withheld_and_its_status_shown(place: Place, repository: Path) -> None:
    secret = "hidden" + "-word"
    (repository / ".env").write_text("A=1\n")
    (repository / "id_rsa").write_text("old\n")
    commit(repository)
    own = place.own()
    (repository / ".env").write_text(f"A={secret}\n")
    (repository / "id_rsa").unlink()
    (repository / "new.pem").write_text(secret)
    (repository / "runner").hardlink_to(place.config)
    (repository / "state").mkdir()
    (place.state_dir / "x").write_text(secret)
    (repository / "state/x").hardlink_to(place.state_dir / "x")
    (repository / "odd:name").write_text(secret)
    reply = changes(place, repository, own)
    assert reply["files"] == [
        {"path": path, "status": status, **WITHHELD}
        for path, status in {
            ".env": "modified",
            "id_rsa": "deleted",
            "new.pem": "untracked",
            "odd:name": "untracked",
            "runner": "untracked",
            "state/x": "untracked",
        }.items()
    ]
    assert secret not in json.dumps(reply)
    git(repository, "add", "runner")
    [tracked] = [row for row in changes(place, repository, own)["files"] if row["path"] == "runner"]
    assert tracked == {"path": "runner", "status": "added", **WITHHELD}


@requirement("R-52")
def test_a_path_and_a_context_narrow_the_answer(place: Place, repository: Path) -> None:
    (repository / "a.txt").write_text("one\nTWO\nthree\n")
    (repository / "sub/run.sh").unlink()
    (repository / "sub").rmdir()
    assert list(rows(place, repository)) == ["a.txt", "sub/run.sh"]
    assert list(rows(place, repository, path="./sub")) == ["sub/run.sh"]
    assert list(rows(place, repository, path="*.txt")) == []
    diff = rows(place, repository, path="a.txt", context=0)["a.txt"]["diff"]
    assert diff.endswith("@@ -2 +2 @@ one\n-two\n+TWO\n")


@requirement("R-10", "R-50", "R-52")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"path": "../a"}, "invalid_path"),
        ({"path": "/a"}, "invalid_path"),
        ({"path": ":(glob)*"}, "invalid_path"),
        ({"path": 1}, "invalid_arguments"),
        ({"context": 11}, "invalid_arguments"),
        ({"context": -1}, "invalid_arguments"),
        ({"cursor": "?"}, "invalid_arguments"),
    ],
)
def test_arguments_outside_their_bounds_are_refused(
    body: dict[str, Any], code: str, place: Place, repository: Path
) -> None:
    with pytest.raises(failures.RequestFailed) as refused:
        changes(place, repository, **body)
    assert refused.value.failure.code == code


@requirement("R-50", "R-52")
def test_pages_make_up_the_whole_within_their_bounds(place: Place, repository: Path) -> None:
    for number in range(60):
        (repository / f"{number:03}").write_text(f"{number}\n" * (9000 if number % 3 == 0 else 1))
    (repository / "a.txt").write_text("\x01" * 65_000 + "\n")
    (repository / "sub/run.sh").write_text("".join(f'"{number}"\n' for number in range(300_000)))
    for number in range(150):
        (repository / "sub" / f"{number:03}").write_text("x\n")
    seen: list[dict[str, Any]] = []
    reply = changes(place, repository)
    while True:
        seen += reply["files"]
        assert fields.encoded_bytes(reply) <= bounds.MAX_REPLY_BYTES - 512
        assert 1 <= len(reply["files"]) <= 100
        if reply["next_cursor"] is None:
            break
        assert reply["truncated"] is True
        reply = changes(place, repository, cursor=reply["next_cursor"])
    paths = [row["path"] for row in seen]
    assert paths == sorted({*paths}, key=str.encode)
    assert len(paths) == 212
    by_path = {row["path"]: row for row in seen}
    assert max(len(row["diff"].encode()) for row in seen) <= 64 * 1024
    cut = {path for path, row in by_path.items() if "diff_truncated" in row}
    assert cut == {"a.txt", "sub/run.sh"}
    assert len(by_path["a.txt"]["diff"]) > 30_000
    assert by_path["sub/run.sh"]["additions"] == 300_000
    assert by_path["sub/run.sh"]["diff"].endswith('"\n')


@requirement("R-52")
def test_a_name_and_a_text_in_any_bytes_are_shown_as_they_can_be(place: Place, repository: Path) -> None:
    (repository / 'q"é.txt').write_text("née\n")
    commit(repository)
    (repository / 'q"é.txt').write_bytes(b"n\xe9e\n")
    (repository / "tab\tname").write_text("x\n")
    (repository / 'new"é').write_text("y\n")
    Path(os.fsdecode(bytes(repository) + b"/\xff")).write_text("x\n")
    Path(os.fsdecode(bytes(repository) + b"/\xfe")).write_text("x\n")
    reply = changes(place, repository)
    assert reply["omitted_unnameable"] == 2
    found = {row["path"]: row for row in reply["files"]}
    assert found["tab\tname"] == {"path": "tab\tname", "status": "untracked", **WITHHELD}
    assert found['q"é.txt']["diff"].endswith("@@ -1 +1 @@\n-née\n+n\N{REPLACEMENT CHARACTER}e\n")
    clone = place.root / "clone"
    git(place.root, "clone", "-q", str(repository), str(clone))
    (place.root / "patch").write_text(found['new"é']["diff"])
    git(clone, "apply", str(place.root / "patch"))
    assert (clone / 'new"é').read_text() == "y\n"


@requirement("R-50", "R-53")
def test_asking_writes_nothing_into_the_repository(place: Place, repository: Path) -> None:
    (repository / "a.txt").write_text("one\nTWO\nthree\n")
    (repository / "gone.txt").write_text("staged\n")
    git(repository, "add", "gone.txt")
    (repository / "gone.txt").write_text("bye\n")
    for path in ("gone.txt", "sub/run.sh"):
        os.utime(repository / path, (1, 1))
    git(repository, "config", "diff.autoRefreshIndex", "true")
    before = {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")}
    assert list(rows(place, repository)) == ["a.txt", "gone.txt"]
    assert {path: path.stat().st_mtime_ns for path in (repository / ".git").rglob("*")} == before


@requirement("R-50", "R-52")
def test_a_file_that_git_cannot_compare_hides_no_other(place: Place, repository: Path) -> None:
    (repository / "a.txt").unlink()
    os.mkfifo(repository / "a.txt")
    (repository / "gone.txt").write_text("still here\n")
    with (repository / "huge").open("wb") as huge:
        huge.truncate(1024**3)
    found = rows(place, repository)
    assert found["a.txt"] == {"status": "modified", **UNKNOWN}
    assert found["gone.txt"]["additions"] == 1
    assert found["huge"] == {"status": "untracked", **UNKNOWN}


@requirement("R-50")
def test_a_deadline_that_passed_is_said(place: Place, repository: Path) -> None:
    late = deadline.Deadline(at=monotonic(), given_up=Event())
    with pytest.raises(failures.RequestFailed) as refused:
        workspace_changes.workspace_changes(registered(repository), place.own(), GIT, {}, late)
    assert (refused.value.failure.code, refused.value.execution) == ("timeout", failures.TIMED_OUT)


@requirement("R-52")
def test_where_git_cannot_read_nothing_is_available(place: Place, repository: Path) -> None:
    (repository / ".git/HEAD").write_text("nonsense")
    assert changes(place, repository) == UNAVAILABLE
    assert changes(place, place.add_project("plain")) == UNAVAILABLE
    assert changes(place, repository / "sub") == UNAVAILABLE
