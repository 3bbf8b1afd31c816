"""`git_status`: the facts it gives, and that a hostile repository starts no program through it."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.requirements import requirement
from tests.runner.place import Place, registered, soon
from webcodex.runner import failures, git_safety, git_tools

GIT: Final = git_safety.find_git() or "git"
ENVIRONMENT: Final = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "1760000000 +0000",
    "GIT_COMMITTER_DATE": "1760000000 +0000",
}


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    ran = subprocess.run(
        [GIT, "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert not check or ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def status(folder: Path) -> dict[str, Any]:
    return git_tools.git_status(registered(folder), GIT, soon())


@pytest.fixture
def repository(place: Place) -> Path:
    """A project with one commit on `main`."""
    folder = place.add_project("demo")
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


CLEAN: Final[dict[str, Any]] = {
    "available": True,
    "reason_code": None,
    "branch": "main",
    "dirty": False,
    "conflicted": False,
    "ahead": None,
    "behind": None,
    "entries": [],
    "truncated": False,
}


@requirement("R-52")
def test_a_clean_repository_is_clean(repository: Path) -> None:
    assert status(repository) == {**CLEAN, "head": git(repository, "rev-parse", "HEAD")}


@requirement("R-52")
def test_a_folder_that_is_no_repository_is_said_to_be_none(place: Place, repository: Path) -> None:
    none = {**dict.fromkeys(CLEAN), "available": False, "reason_code": "non_git_project", "head": None}
    none |= {"entries": [], "truncated": False}
    assert status(place.add_project("plain")) == none
    inner = repository / "inner"
    inner.mkdir()
    assert status(inner) == none
    (inner / ".git").mkdir()
    assert status(inner) == none
    (place.add_project("linked") / ".git").symlink_to(repository / ".git")
    assert status(place.root / "work" / "linked") == none


@requirement("R-52")
def test_an_empty_repository_has_a_branch_and_no_head(place: Place) -> None:
    folder = place.add_project("empty")
    git(folder, "init", "-q", "-b", "trunk")
    assert status(folder) == {**CLEAN, "branch": "trunk", "head": None}


@requirement("R-52")
def test_a_detached_head_has_no_branch(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", head)
    assert status(repository) == {**CLEAN, "branch": None, "head": head}


@requirement("R-52")
def test_every_kind_of_change_is_an_entry(repository: Path) -> None:
    for name in ("gone", "changed", "odd\n# branch.head evil", "b c"):
        (repository / name).write_text(f"{name} text\n" * 5)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "second")
    (repository / "gone").unlink()
    (repository / "changed").write_text("other\n")
    git(repository, "mv", "odd\n# branch.head evil", "new name")
    (repository / "staged").write_text("x")
    git(repository, "add", "staged")
    (repository / "unmerged?").write_text("x")
    found = status(repository)
    assert (found["branch"], found["dirty"], found["conflicted"]) == ("main", True, False)
    assert sorted(found["entries"], key=lambda entry: entry["path"]) == [
        {"path": "changed", "index": ".", "worktree": "M"},
        {"path": "gone", "index": ".", "worktree": "D"},
        {
            "path": "new name",
            "index": "R",
            "worktree": ".",
            "orig_path": "odd\n# branch.head evil",
        },
        {"path": "staged", "index": "A", "worktree": "."},
        {"path": "unmerged?", "index": "?", "worktree": "?"},
    ]


@requirement("R-52")
def test_a_conflict_is_told_from_a_change(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "side")
    (repository / "a.txt").write_text("side\n")
    git(repository, "commit", "-q", "-a", "-m", "side")
    git(repository, "checkout", "-q", "main")
    (repository / "a.txt").write_text("main\n")
    git(repository, "commit", "-q", "-a", "-m", "main")
    git(repository, "merge", "-q", "side", check=False)
    found = status(repository)
    assert (found["dirty"], found["conflicted"]) == (True, True)
    assert found["entries"] == [{"path": "a.txt", "index": "U", "worktree": "U"}]


@requirement("R-52")
def test_ahead_and_behind_are_counted_against_the_upstream(place: Place, repository: Path) -> None:
    clone = place.root / "work" / "clone"
    git(place.root, "clone", "-q", str(repository), str(clone))
    for name in ("one", "two"):
        (clone / name).write_text(name)
        git(clone, "add", ".")
        git(clone, "commit", "-q", "-m", name)
    (repository / "three").write_text("three")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "three")
    git(clone, "fetch", "-q")
    found = status(clone)
    assert (found["ahead"], found["behind"]) == (2, 1)


@requirement("R-52")
def test_a_linked_worktree_is_a_repository_of_its_own(place: Place, repository: Path) -> None:
    tree = place.root / "work" / "tree"
    git(repository, "worktree", "add", "-q", "-b", "side", str(tree))
    (tree / "new").write_text("x")
    found = status(tree)
    assert (found["branch"], found["dirty"]) == ("side", True)


@requirement("R-52")
def test_a_long_list_is_cut_at_200_entries_and_says_so(repository: Path) -> None:
    for number in range(201):
        (repository / f"new{number:03}").touch()
    found = status(repository)
    assert (len(found["entries"]), found["truncated"]) == (200, True)
    assert (found["dirty"], found["conflicted"]) == (True, False)
    (repository / "new200").unlink()
    assert status(repository)["truncated"] is False


@requirement("R-52")
def test_names_that_are_no_text_are_shown_as_text(repository: Path) -> None:
    (Path(os.fsdecode(os.fsencode(repository) + b"/\xff\xfe"))).touch()
    [entry] = status(repository)["entries"]
    assert entry == {"path": "\ufffd\ufffd", "index": "?", "worktree": "?"}


@requirement("R-50")
def test_a_repository_git_cannot_read_fails_and_is_not_called_clean(repository: Path) -> None:
    (repository / ".git" / "config").write_text("[broken")
    with pytest.raises(failures.RequestFailed) as caught:
        status(repository)
    assert caught.value.failure == failures.GIT_FAILED
    (repository / ".git" / "config").write_text("")
    (repository / ".git" / "index").write_bytes(b"DIRC broken")
    with pytest.raises(failures.RequestFailed):
        status(repository)


@requirement("R-11")
def test_a_replaced_root_is_noticed(repository: Path) -> None:
    project = registered(repository)
    repository.rename(repository.with_name("moved"))
    repository.mkdir()
    with pytest.raises(failures.RequestFailed) as caught:
        git_tools.git_status(project, GIT, soon())
    assert caught.value.failure == failures.ROOT_REPLACED


@requirement("R-50")
def test_a_deadline_that_has_passed_is_a_timeout(repository: Path) -> None:
    with pytest.raises(failures.RequestFailed) as caught:
        git_tools.git_status(registered(repository), GIT, soon(-1))
    assert caught.value.failure == failures.TIMEOUT


@requirement("R-50", "R-53")
def test_git_is_ended_with_its_group_when_its_time_is_over(repository: Path, place: Place) -> None:
    slow = place.root / "slow-git"
    pids = place.root / "pids"
    slow.write_text(f"#!/bin/sh\nsleep 60 &\necho $! $$ > {pids}.new\nmv {pids}.new {pids}\nwait\n")
    slow.chmod(0o755)
    until = soon()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(git_tools.git_status, registered(repository), str(slow), until)
        while until.remaining_s() and not pids.exists():
            until.given_up.wait(0.01)
        until.given_up.set()
        error = asked.exception(20)
    assert isinstance(error, failures.RequestFailed)
    assert error.failure == failures.TIMEOUT
    dying = soon(10)
    started = [int(pid) for pid in pids.read_text().split()]
    while any(map(_runs, started)) and dying.remaining_s():
        dying.given_up.wait(0.01)
    assert not any(map(_runs, started))


def _runs(pid: int) -> bool:
    try:
        return b"Z" not in Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1]
    except FileNotFoundError:
        return False


@requirement("R-50")
def test_a_missing_git_fails_and_claims_nothing(repository: Path) -> None:
    with pytest.raises(failures.RequestFailed) as caught:
        git_tools.git_status(registered(repository), "/nonexistent/git", soon())
    assert caught.value.failure == failures.GIT_FAILED
