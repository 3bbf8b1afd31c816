"""`list_project_files`: order, pages, bounds, what is left out, and that nothing outside is ever seen."""

import os
import socket
import tempfile
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.runner import test_paths_fuzz as fuzz
from tests.runner.place import Place, as_user, registered, soon
from webcodex.protocol import bounds, fields
from webcodex.runner import deadline, failures, listing, own_files


def listed(place: Place, folder: Path, own: own_files.OwnFiles | None = None, **body: Any) -> dict[str, Any]:
    return listing.list_files(registered(folder), own or place.own(), body, soon())


def names(place: Place, folder: Path, **body: Any) -> list[str]:
    return [entry["path"] for entry in listed(place, folder, **body)["entries"]]


def pages(place: Place, folder: Path, most_visits: int = 100_000, **body: Any) -> list[dict[str, Any]]:
    """Returns every page from the first to the last."""
    project, own = registered(folder), place.own()
    found = [listing.list_files(project, own, body, soon(), most_visits)]
    while found[-1]["truncated"]:
        more = {**body, "cursor": found[-1]["next_cursor"]}
        found.append(listing.list_files(project, own, more, soon(), most_visits))
    return found


def refusal(place: Place, folder: Path, **body: Any) -> str:
    with pytest.raises(failures.RequestFailed) as refused:
        listed(place, folder, **body)
    return refused.value.failure.code


@pytest.fixture
def folder(place: Place) -> Path:
    """A project in which a directory's name is the beginning of other names."""
    made = place.add_project("demo")
    for path in ("a/b.txt", "a/c/d.txt", "a-b/x", "a.txt", "z", ".git/HEAD"):
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(path)
    (made / "a0").symlink_to("a")
    return made


@requirement("R-52")
def test_entries_stand_in_byte_order_with_type_and_size(place: Place, folder: Path) -> None:
    kinds = {"a": "dir", "a-b": "dir", "a/c": "dir", "a0": "symlink"}
    paths = ["a", "a-b", "a-b/x", "a.txt", "a/b.txt", "a/c", "a/c/d.txt", "a0", "z"]
    assert listed(place, folder) == {
        "entries": [
            {"path": path, "type": kinds.get(path, "file"), "size": None if path in kinds else len(path)}
            for path in paths
        ],
        "returned": 9,
        "truncated": False,
        "next_cursor": None,
        "omitted_sensitive": 0,
    }
    assert paths == sorted(paths, key=str.encode)


@requirement("R-52")
def test_depth_counts_levels_below_the_path(place: Place, folder: Path) -> None:
    assert names(place, folder, depth=1) == ["a", "a-b", "a.txt", "a0", "z"]
    assert names(place, folder, path="a", depth=1) == ["a/b.txt", "a/c"]
    deep = folder / "/".join(["d"] * 20)
    deep.mkdir(parents=True)
    assert len(names(place, folder, path="d")) == 4
    assert len(names(place, folder, path="d", depth=16)) == 16


@requirement("R-11", "R-52")
def test_a_path_may_lead_through_links_beneath_the_root(place: Place, folder: Path) -> None:
    assert names(place, folder, path="./a0/c") == ["a0/c/d.txt"]
    assert names(place, folder, path="a/b.txt") == ["a/b.txt"]
    (folder / "up").symlink_to("a/../a-b")
    assert names(place, folder, path="up") == ["up/x"]


@requirement("R-10", "R-11", "R-13", "R-52")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("absent", "not_found"),
        ("a.txt/x", "not_found"),
        ("/", "invalid_path"),
        ("a/../a", "invalid_path"),
        ("out", "invalid_path"),
        ("root", "invalid_path"),
        ("loop", "invalid_path"),
        ("dangling", "invalid_path"),
        ("pipe", "invalid_path"),
        (".git", "sensitive_path"),
        ("a/.SSH/x", "sensitive_path"),
        ("keys", "sensitive_path"),
    ],
)
def test_a_path_that_leads_to_no_place_is_refused(path: str, code: str, place: Place, folder: Path) -> None:
    targets = {"out": "../..", "root": "/", "loop": "loop", "dangling": "nothing", "keys": ".ssh"}
    for name, target in targets.items():
        (folder / name).symlink_to(target)
    (folder / ".ssh").mkdir()
    os.mkfifo(folder / "pipe")
    assert refusal(place, folder, path=path) == code


@requirement("R-11")
def test_a_directory_on_another_file_system_is_neither_a_place_nor_entered(place: Place) -> None:
    assert Path("/dev").stat().st_dev != Path("/proc").stat().st_dev
    assert refusal(place, Path("/"), path="proc") == "invalid_path"
    found = names(place, Path("/"), globs=["proc", "proc/**"], limit=1000)
    assert found == ["proc"]


@requirement("R-52")
@pytest.mark.parametrize(
    "body",
    [
        {"depth": 0},
        {"depth": 17},
        {"limit": 0},
        {"limit": 1001},
        {"limit": True},
        {"globs": ["*"] * 21},
        {"globs": "*"},
        {"globs": [1]},
        {"globs": ["../*"]},
        {"cursor": "!"},
        {"cursor": "_w"},
        {"cursor": "a" * 6000},
        {"path": 1},
    ],
)
def test_arguments_outside_their_bounds_are_refused(body: dict[str, Any], place: Place, folder: Path) -> None:
    assert refusal(place, folder, **body) == "invalid_arguments"


@requirement("R-13", "R-52")
def test_what_is_sensitive_is_left_out_and_counted(place: Place, folder: Path) -> None:
    (folder / "a/.env").touch()
    (folder / "a/.env.example").touch()
    (folder / ".ssh").mkdir()
    (folder / ".ssh/config").touch()
    (folder / ".docker").mkdir()
    (folder / ".docker/config.json").touch()
    (folder / "config.json").touch()
    own = place.own()
    (folder / "z1").hardlink_to(place.config)
    (folder / "registry").mkdir()
    found = listed(place, folder, own, globs=["*e*", "*.json", ".*", "z*"])
    assert [entry["path"] for entry in found["entries"]] == [
        ".docker",
        "a/.env.example",
        "config.json",
        "registry",
        "z",
    ]
    assert found["omitted_sensitive"] == 4
    inside = own_files.OwnFiles(
        config_path=own.config_path, config_identity=own.config_identity, directories=(folder / "registry",)
    )
    found = listed(place, folder, inside, globs=["/registry"])
    assert (found["entries"], found["omitted_sensitive"]) == ([], 1)
    assert listed(place, folder, inside, globs=["/registry"], depth=1) == found


@requirement("R-52")
def test_pages_make_up_the_whole_whatever_their_size(place: Place, folder: Path) -> None:
    for path in ("a/.env", "a.pem", "b/.env", "b/c/id_rsa", "zz/.npmrc"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    whole = listed(place, folder, depth=16)
    assert whole["omitted_sensitive"] == 5
    for limit in range(1, 13):
        found = pages(place, folder, depth=16, limit=limit)
        assert [entry for page in found for entry in page["entries"]] == whole["entries"]
        assert sum(page["omitted_sensitive"] for page in found) == 5
        assert all(page["returned"] == len(page["entries"]) == limit for page in found[:-1])
        assert found[-1]["next_cursor"] is None


@requirement("R-52")
def test_a_page_goes_on_where_its_entry_is_gone(place: Place, folder: Path) -> None:
    cursor = listed(place, folder, limit=5)["next_cursor"]
    (folder / "a/c/d.txt").unlink()
    (folder / "a/c").rmdir()
    (folder / "a/b.txt").rename(folder / "a/b2.txt")
    assert names(place, folder, cursor=cursor) == ["a0", "z"]


@requirement("R-10", "R-52")
def test_a_name_that_no_request_can_hold_is_counted(place: Place, folder: Path) -> None:
    for name in (b"\xff", b"back\\slash", b"line\nfeed", b"dot.", b"nul.txt"):
        Path(os.fsdecode(bytes(folder) + b"/" + name)).touch()
    found = listed(place, folder, depth=1)
    assert (found["returned"], found["omitted_unnameable"]) == (5, 5)
    assert "omitted_unnameable" not in listed(place, folder, path="a")


@requirement("R-11", "R-12")
def test_what_is_no_file_directory_or_link_is_not_listed(place: Place, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        assert names(place, folder, depth=1) == ["a", "a-b", "a.txt", "a0", "z"]


@requirement("R-50", "R-52")
def test_a_reply_keeps_to_its_bound(place: Place, folder: Path) -> None:
    long = folder / ("d" * 200)
    long.mkdir()
    for number in range(1000):
        (long / f"{number:04}{'é' * 110}").touch()
    found = pages(place, folder, limit=1000)
    assert sum(page["returned"] for page in found) == 1010
    assert all(fields.encoded_bytes(page) <= bounds.MAX_REPLY_BYTES - 512 for page in found)
    assert len(found) == 2


@requirement("R-52")
def test_a_tree_too_large_for_one_walk_takes_several(place: Place) -> None:
    folder = place.add_project("demo")
    for number in range(4):
        (folder / str(number)).mkdir()
        for file in range(1100 if number == 3 else 600):
            (folder / str(number) / f"{file:04}").touch()
    without: dict[str, Any] = {"globs": ["!3/**"], "limit": 1000}
    whole = pages(place, folder, **without)
    parts = pages(place, folder, most_visits=1024, **without)
    assert [entry for page in parts for entry in page["entries"]] == [
        entry for page in whole for entry in page["entries"]
    ]
    assert [page["returned"] for page in parts] == [602, 601, 601]
    with pytest.raises(failures.RequestFailed) as refused:
        listing.list_files(registered(folder), place.own(), {"path": "3"}, soon(), most_visits=1024)
    assert refused.value.failure.code == "timeout"


@requirement("R-50")
def test_a_listing_that_has_no_time_says_so(place: Place) -> None:
    folder = place.add_project("demo")
    for number in range(1024):
        (folder / str(number)).touch()
    late = deadline.Deadline(at=monotonic(), given_up=Event())
    with pytest.raises(failures.RequestFailed) as refused:
        listing.list_files(registered(folder), place.own(), {}, late)
    assert (refused.value.failure.code, refused.value.execution) == ("timeout", failures.TIMED_OUT)


@requirement("R-11", "R-50")
def test_a_replaced_root_is_refused(place: Place, folder: Path) -> None:
    project, own = registered(folder), place.own()
    folder.rename(place.root / "elsewhere")
    folder.mkdir()
    with pytest.raises(failures.RequestFailed) as refused:
        listing.list_files(project, own, {}, soon())
    assert refused.value.failure.code == "project_root_replaced"


@requirement("R-12")
def test_a_directory_that_may_not_be_read_is_listed_and_not_entered(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        place = Place(Path(made).resolve())
        place.root.chmod(0o755)
        open_folder = place.add_project("demo")
        own = place.own()
        (open_folder / "shut").mkdir(mode=0)
        (open_folder / "z").touch()
        try:
            as_user(65534)
            found = names_as(open_folder, own)
            with pytest.raises(failures.RequestFailed) as refused:
                listing.list_files(registered(open_folder), own, {"path": "shut"}, soon())
        finally:
            as_user(0)
            (open_folder / "shut").chmod(0o700)
    assert found == ["shut", "z"]
    assert refused.value.failure.code == "permission_denied"
    assert folder.exists()


def names_as(folder: Path, own: own_files.OwnFiles) -> list[str]:
    found = listing.list_files(registered(folder), own, {}, soon())
    return [entry["path"] for entry in found["entries"]]


@requirement("R-11")
def test_what_is_missing_behind_a_link_is_not_found_and_a_link_to_nothing_is_refused(place: Place) -> None:
    folder = place.add_project("linked")
    (folder / "here").symlink_to(".")
    (folder / "twice").symlink_to("here")
    (folder / "nowhere").symlink_to("gone")
    assert refusal(place, folder, path="twice/gone") == "not_found"
    assert refusal(place, folder, path="nowhere") == "invalid_path"
    assert refusal(place, folder, path="here/nowhere/x") == "invalid_path"


@requirement("R-11")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tree=fuzz.trees(2),
    asked=st.lists(
        st.lists(st.sampled_from(fuzz.NAMES), min_size=1, max_size=4).map("/".join), min_size=1, max_size=8
    ),
)
def test_every_path_is_the_place_that_the_model_says(place: Place, tree: fuzz.Tree, asked: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=place.root) as made:
        folder = Path(made) / "root"
        for name in fuzz.NAMES:
            (folder.parent / name).write_text("OUTSIDE")
        fuzz.build(tree, folder)
        for path in asked:
            leads_to = fuzz.expected(tree, path)
            if leads_to.startswith("="):
                assert names(place, folder, path=path) == [path]
            elif leads_to == "not_file":
                held = sorted(entry.name for entry in (folder / path).iterdir())
                assert names(place, folder, path=path, depth=1) == [f"{path}/{name}" for name in held]
            else:
                assert refusal(place, folder, path=path) == leads_to


@requirement("R-11")
@pytest.mark.parametrize("outward", ["../../outside", "/"])
def test_no_swap_during_a_walk_ever_lists_what_lies_outside(outward: str, place: Place) -> None:
    folder = place.add_project("demo")
    project, own = registered(folder), place.own()
    for path in ("outside/secret", "parts/inside/secret"):
        (place.root / path).mkdir(parents=True)
    (place.root / "outside/secret/stolen").touch()
    (place.root / "parts/inside/secret/mine").touch()
    link = place.root / "parts/link"
    link.symlink_to(outward)
    seen: set[str] = set()
    with fuzz.swapping(folder, "d", [place.root / "parts/inside", link]) as swaps:
        until = soon()
        while until.remaining_s() and not (swaps[0] >= 300 and {"d/secret/mine", "invalid_path"} <= seen):
            for path in ("", "d/secret"):
                try:
                    found = listing.list_files(project, own, {"path": path}, soon())
                    seen.update(entry["path"] for entry in found["entries"])
                except failures.RequestFailed as error:
                    seen.add(error.failure.code)
    assert swaps[0] >= 300
    allowed = {"d", "d/secret", "d/secret/mine", "invalid_path", "not_found"}
    assert {"d/secret/mine", "invalid_path"} <= seen <= allowed
