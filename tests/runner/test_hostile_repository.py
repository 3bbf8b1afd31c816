"""A hostile checkout: looking at it starts nothing, leaves the root nowhere, and ends within its bounds."""

import hashlib
import json
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner import peer, test_git_safety
from tests.runner.place import Place, registered, soon
from tests.runner.test_git_status import GIT, git
from tests.runner.test_paths_fuzz import swapping
from webcodex.protocol import bounds, fields
from webcodex.runner import listing, text_search, workspace_changes

SECRET = "stolen" + "-word"
TREE_FILES = 20_000


def listed(place: Place, folder: Path, **body: Any) -> dict[str, Any]:
    return listing.list_files(registered(folder), place.own(), body, soon())


def searched(place: Place, folder: Path, pattern: str, **body: Any) -> dict[str, Any]:
    asked = {"pattern": pattern, **body}
    return text_search.search(registered(folder), place.own(), asked, soon())


def changed(place: Place, folder: Path, **body: Any) -> dict[str, Any]:
    return workspace_changes.workspace_changes(registered(folder), place.own(), GIT, body, soon())


def all_said(place: Place, folder: Path) -> str:
    """Returns everything that looking at a project says, as one text."""
    replies = [listed(place, folder, depth=16, limit=1000), changed(place, folder)]
    replies += [searched(place, folder, pattern) for pattern in ("one", SECRET)]
    assert all(fields.encoded_bytes(reply) <= bounds.MAX_REPLY_BYTES - 512 for reply in replies)
    return json.dumps(replies)


@requirement("R-53")
@pytest.mark.parametrize("arm", test_git_safety.TRAPS, ids=lambda arm: arm.__name__)
def test_no_program_that_a_repository_names_is_started(
    arm: Callable[[test_git_safety.Trap], None], place: Place
) -> None:
    trap = test_git_safety.Trap(place)
    arm(trap)
    trap.canary.unlink(missing_ok=True)
    reply = changed(place, trap.folder)
    all_said(place, trap.folder)
    assert not trap.sprung()
    assert reply["available"] is True
    assert {"a.txt", "renamed.txt"} & {row["path"] for row in reply["files"]}
    trap.touch()
    git(trap.folder, *test_git_safety.TRAPS[arm], check=False)
    assert trap.sprung(), "the trap does not work, so it proves nothing"


def merge_driver(trap: test_git_safety.Trap) -> None:
    test_git_safety.attributes(trap, "* merge=evil diff=evil\n")
    trap.config("merge.evil.driver", str(trap.program))
    trap.config("diff.evil.cachetextconv", "true")
    trap.config("diff.evil.textconv", str(trap.program))


def order_and_pager(trap: test_git_safety.Trap) -> None:
    trap.config("core.pager", str(trap.program))
    trap.config("pager.diff", str(trap.program))
    trap.config("interactive.diffFilter", str(trap.program))
    trap.config("diff.orderFile", str(trap.place.root / "absent"))
    trap.config("diff.noprefix", "true")
    trap.config("color.ui", "always")
    trap.config("diff.renames", "copies")
    trap.config("diff.relative", "true")
    trap.config("diff.context", "50")
    trap.config("core.quotePath", "true")
    trap.config("status.renames", "true")
    trap.config("status.showUntrackedFiles", "no")


@requirement("R-53")
@pytest.mark.parametrize("arm", [merge_driver, order_and_pager])
def test_settings_of_a_repository_change_no_answer(
    arm: Callable[[test_git_safety.Trap], None], place: Place
) -> None:
    trap = test_git_safety.Trap(place)
    (trap.folder / ".gitattributes").write_text("")
    (trap.folder / "sub").mkdir()
    (trap.folder / "sub/new").write_text("one\n")
    before = changed(place, trap.folder)
    arm(trap)
    (trap.folder / ".gitattributes").write_text("")
    assert changed(place, trap.folder) == before
    assert not trap.sprung()


@requirement("R-52", "R-53")
def test_modules_that_lie_in_a_project_are_not_imported(place: Place) -> None:
    folder = place.add_project("demo")
    canary = place.root / "canary"
    for name in ("json", "re", "os", "webcodex", "sitecustomize", "usercustomize", "encodings", "fnmatch"):
        (folder / f"{name}.py").write_text(f"open({str(canary)!r}, 'w')\n")
    (folder / "one").write_text("one\n")
    assert searched(place, folder, "one")["searched_files"] == 9
    assert not canary.exists()
    assert sys.executable != ""


def alternates(folder: Path, victim: Path) -> None:
    (folder / ".git/objects/info").mkdir(exist_ok=True)
    (folder / ".git/objects/info/alternates").write_text(f"{victim}/.git/objects\n")
    adopt(folder, victim)


def linked_objects(folder: Path, victim: Path) -> None:
    for folder_of_objects in (victim / ".git/objects").glob("??"):
        (folder / ".git/objects" / folder_of_objects.name).symlink_to(folder_of_objects)
    adopt(folder, victim)


def common_directory(folder: Path, victim: Path) -> None:
    (folder / ".git/commondir").write_text(f"{victim}/.git\n")
    adopt(folder, victim)


def pointer(folder: Path, victim: Path) -> None:
    (folder / ".git").rename(folder / "mine")
    (folder / ".git").write_text(f"gitdir: {victim}/.git\n")


def pointer_to_a_copy(folder: Path, victim: Path) -> None:
    """Points to a directory inside that borrows the rest and says that it belongs here."""
    common_directory(folder, victim)
    (folder / ".git").rename(folder / "mine")
    (folder / ".git").write_text("gitdir: mine\n")
    (folder / "mine/gitdir").write_text(f"{folder}/.git\n")


def pointer_to_an_accomplice(folder: Path, victim: Path) -> None:
    """Points to a directory beside the project that says it belongs to it, and borrows the rest."""
    pointer_to_a_copy(folder, victim)
    (folder / "mine").rename(folder.parent / "accomplice")
    (folder / ".git").write_text("gitdir: ../accomplice\n")


def link(folder: Path, victim: Path) -> None:
    (folder / ".git").rename(folder / "mine")
    (folder / ".git").symlink_to(victim / ".git")


def adopt(folder: Path, victim: Path) -> None:
    """Makes the victim's commit the HEAD of the project."""
    (folder / ".git/HEAD").write_text(git(victim, "rev-parse", "HEAD") + "\n")
    (folder / ".git/index").unlink(missing_ok=True)


@requirement("R-11", "R-53")
@pytest.mark.parametrize(
    "borrow",
    [
        alternates,
        linked_objects,
        common_directory,
        pointer,
        pointer_to_a_copy,
        pointer_to_an_accomplice,
        link,
    ],
)
def test_a_repository_that_borrows_anothers_objects_shows_none_of_them(
    borrow: Callable[[Path, Path], None], place: Place
) -> None:
    victim, folder = place.root / "victim", place.add_project("demo")
    victim.mkdir()
    for repository in (victim, folder):
        git(repository, "init", "-q", "-b", "main")
        (repository / "a.txt").write_text(f"{SECRET}\n" if repository is victim else "one\n")
        git(repository, "add", ".")
        git(repository, "commit", "-q", "-m", "first")
    borrow(folder, victim)
    assert SECRET in git(folder, "show", "HEAD:a.txt"), "nothing is borrowed, so this proves nothing"
    reply = changed(place, folder)
    assert reply == {"available": False, "files": [], "truncated": False, "next_cursor": None}


@requirement("R-53")
@pytest.mark.parametrize(
    "pointer_text",
    ["", "gitdir: ", "gitdir: \0x", "gitdir: loop", "gitdir: /absent", "gitdir: /dev/null", "x" * 9000],
)
def test_a_pointer_to_nothing_is_no_repository(pointer_text: str, place: Place) -> None:
    folder = place.add_project("demo")
    (folder / "loop").symlink_to("loop")
    (folder / ".git").write_text(pointer_text)
    assert changed(place, folder)["available"] is False


def index_of(path: str, like: Path) -> bytes:
    """Returns a Git index that holds one file, as a program without scruples would write it."""
    status = like.stat()
    times = struct.pack(">4I", int(status.st_ctime), 0, int(status.st_mtime), 0)
    owner = struct.pack(">6I", 0, 0, 0o100644, 0, 0, status.st_size)
    entry = times + owner + hashlib.sha1(b"blob 0\0").digest() + struct.pack(">H", len(path)) + path.encode()
    entry += b"\0" * (8 - len(entry) % 8)
    index = struct.pack(">4sII", b"DIRC", 2, 1) + entry
    return index + hashlib.sha1(index).digest()


@requirement("R-11", "R-53")
@pytest.mark.parametrize("path", ["../secret", "/tmp/../{outside}/secret", ".git/secret"])
def test_an_index_that_names_what_lies_outside_shows_none_of_it(path: str, place: Place) -> None:
    folder = place.add_project("demo")
    git(folder, "init", "-q", "-b", "main")
    outside = place.root / "work"
    for holder in (outside, folder / ".git"):
        (holder / "secret").write_text(f"{SECRET}\n")
    named = path.format(outside=str(outside).removeprefix("/"))
    (folder / ".git/index").write_bytes(index_of(named, outside / "secret"))
    nothing = git(folder, "hash-object", "-t", "tree", "/dev/null")
    assert SECRET in git(folder, "diff", nothing), "plain Git shows nothing, so this proves nothing"
    [row] = changed(place, folder)["files"]
    assert (row["path"], row["status"], row["withheld"], row["diff"]) == (named, "added", True, None)


@requirement("R-11", "R-52", "R-53")
def test_worktrees_and_submodules_are_repositories_of_their_own(place: Place) -> None:
    trap = test_git_safety.Trap(place)
    git(trap.folder, "worktree", "add", "-q", str(place.root / "work/tree"))
    test_git_safety.submodule(trap)
    for folder, name in ((place.root / "work/tree", "a.txt"), (trap.folder / "inner", "c.txt")):
        (folder / name).write_text("other\n")
        assert [row["path"] for row in changed(place, folder)["files"]] == [name]
    assert "inner/c.txt" not in {row["path"] for row in changed(place, trap.folder)["files"]}
    assert not trap.sprung()


@requirement("R-11", "R-12", "R-52")
def test_links_pipes_sockets_and_endless_names_lead_nowhere(place: Place) -> None:
    folder = place.add_project("demo")
    git(folder, "init", "-q", "-b", "main")
    (place.root / "outside").mkdir()
    (place.root / "outside/a").write_text(f"{SECRET}\n")
    targets = [
        "..",
        "/",
        "../../../outside",
        "/proc/self/root",
        "/dev/zero",
        "loop",
        "farm",
        "../../../outside/a",
    ]
    (folder / "farm").mkdir()
    for number in range(2000):
        (folder / f"farm/{number:04}").symlink_to(targets[number % len(targets)])
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d" * 30, dir_fd=deep)
        below = os.open("d" * 30, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    with (folder / "huge").open("wb") as huge:
        huge.truncate(1024**3)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        said = all_said(place, folder)
        assert SECRET not in said
        found = searched(place, folder, "one")
    assert (found["searched_files"], found["skipped_files"], found["truncated"]) == (0, 2, False)
    for path in ("huge", "loop", "farm/0003"):
        [row] = changed(place, folder, path=path)["files"]
        assert (row["status"], row["diff"]) == ("untracked", None)


@pytest.fixture
def large() -> Iterator[Place]:
    """A project of 20,000 files, in memory where the machine has a file system for that."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        place = Place(Path(made).resolve())
        folder = place.add_project("demo")
        for number in range(TREE_FILES // 200):
            (folder / f"{number:03}").mkdir()
            holder = os.open(folder / f"{number:03}", os.O_RDONLY)
            for file in range(200):
                os.close(os.open(f"{file:03}.txt", os.O_CREAT | os.O_WRONLY, dir_fd=holder))
            os.close(holder)
        (folder / "050/100.txt").write_text("one\n")
        yield place


@requirement("R-50", "R-52")
def test_a_large_tree_is_listed_and_searched_whole(large: Place) -> None:
    folder = large.root / "work/demo"
    reply, count, last = listed(large, folder, limit=1000), 0, ""
    while True:
        count += reply["returned"]
        paths = [last, *(entry["path"] for entry in reply["entries"])]
        assert paths == sorted(paths)
        last = paths[-1]
        if not reply["truncated"]:
            break
        reply = listed(large, folder, limit=1000, cursor=reply["next_cursor"])
    assert count == TREE_FILES + TREE_FILES // 200
    found = searched(large, folder, "one", result_mode="files_with_matches")
    assert (found["files"], found["searched_files"]) == (["050/100.txt"], TREE_FILES)


@requirement("R-11")
def test_no_swap_ever_shows_what_lies_outside_as_a_new_file(place: Place) -> None:
    folder = place.add_project("demo")
    git(folder, "init", "-q", "-b", "main")
    for path, text in (("outside/a", SECRET), ("parts/inside/a", "mine")):
        (place.root / path).parent.mkdir(parents=True)
        (place.root / path).write_text(f"{text}\n")
    (place.root / "parts/link").symlink_to("../../outside")
    seen = ""
    with swapping(folder, "d", [place.root / "parts/inside", place.root / "parts/link"]) as swaps:
        until = soon()
        while until.remaining_s() and ("+mine" not in seen or swaps[0] < 300):
            seen += json.dumps(changed(place, folder))
    assert "+mine" in seen
    assert SECRET not in seen


@requirement("R-41", "R-42", "R-52")
async def test_every_look_is_served_over_the_link(place: Place) -> None:
    folder = place.add_project("demo")
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    async with peer.listening() as server, peer.running(place.configure(server_url=server.url)):
        call = await server.dialled()
        await call.welcome()
        bodies = {
            "list_project_files": {},
            "search_project_texts": {"pattern": "one"},
            "workspace_changes": {},
        }
        answers = {kind: await call.ask(kind, body) for kind, body in bodies.items()}
        refused = await call.ask("search_project_texts", {"pattern": "(", "pattern_mode": "regex"})
        lost = await call.ask("list_project_files", {"path": "absent"})
    assert {kind: answer["error"] for kind, answer in answers.items()} == dict.fromkeys(bodies)
    assert answers["list_project_files"]["body"]["entries"] == [{"path": "a.txt", "type": "file", "size": 4}]
    assert answers["search_project_texts"]["body"]["matches"][0]["path"] == "a.txt"
    assert answers["workspace_changes"]["body"]["files"][0]["status"] == "untracked"
    assert (refused["body"], refused["error"]["code"]) == (None, "invalid_pattern")
    assert (lost["body"], lost["error"]["code"], lost["error"]["recovery_kind"]) == (
        None,
        "not_found",
        "fix_input",
    )
