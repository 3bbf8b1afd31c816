"""Opening a file beneath a root: links, special files, replaced roots and the Runner's own files."""

import errno
import os
import resource
import socket
import tempfile
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.runner.place import Place, as_user, registered
from webcodex.runner import own_files, path_form, paths, root_walk


def opened(place: Place, folder: Path, path: str, links: root_walk.Links = root_walk.Links.FOLLOW) -> str:
    """Returns ``<shown path>=<content>``, or the word of the refusal."""
    try:
        with paths.open_file(registered(folder), path, place.own(), links) as file:
            return f"{file.path}={os.read(file.descriptor, 1000).decode()}"
    except path_form.PathRefused as error:
        return error.reason


@pytest.fixture
def folder(place: Place) -> Path:
    """A project with a file, a folder, and a secret beside it."""
    made = place.add_project("demo")
    (made / "a.txt").write_text("A")
    (made / "sub").mkdir()
    (made / "sub" / "b.txt").write_text("B")
    (place.root / "work" / "secret.txt").write_text("SECRET")
    return made


@requirement("R-11")
def test_a_file_beneath_the_root_is_opened_under_its_own_name(place: Place, folder: Path) -> None:
    assert opened(place, folder, "a.txt") == "a.txt=A"
    assert opened(place, folder, "./sub/./b.txt") == "sub/b.txt=B"


@requirement("R-11", "R-12")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("absent", "not_found"),
        ("absent/b.txt", "not_found"),
        ("a.txt/b.txt", "not_found"),
        ("sub", "not_file"),
        (".", "not_file"),
        ("/a.txt", "invalid_path"),
        ("sub/../a.txt", "invalid_path"),
        ("x" * 255, "not_found"),
        (".git/config", "sensitive_path"),
        (".env", "sensitive_path"),
    ],
)
def test_a_path_that_leads_to_no_file_is_refused(path: str, reason: str, place: Place, folder: Path) -> None:
    assert opened(place, folder, path) == reason


LINKS = {
    "beneath": ("sub/b.txt", "B"),
    "through-a-folder/b.txt": ("sub", "B"),
    "sub/up": ("../a.txt", "A"),
    "sub/dotted": (".././/sub/../a.txt", "A"),
    "absolute": ("{root}/a.txt", "invalid_path"),
    "absolute-elsewhere": ("/etc/passwd", "invalid_path"),
    "dangling": ("absent", "invalid_path"),
    "out": ("../secret.txt", "invalid_path"),
    "out-and-back": ("../demo/a.txt", "invalid_path"),
    "sub/out": ("../../secret.txt", "invalid_path"),
    "itself": ("itself", "invalid_path"),
    "to-a-folder": ("sub", "not_file"),
    "to-git": (".git/config", "sensitive_path"),
    "through-git": (".git/../a.txt", "sensitive_path"),
    "to-a-key": ("sub/server.pem", "sensitive_path"),
}


@requirement("R-11", "R-13")
@pytest.mark.parametrize("path", LINKS)
def test_a_link_is_followed_beneath_the_root_only(path: str, place: Place, folder: Path) -> None:
    target, expected = LINKS[path]
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("CONFIG")
    (folder / "sub" / "server.pem").write_text("KEY")
    name = path.removesuffix("/b.txt")
    (folder / name).symlink_to(target.format(root=folder))
    found = opened(place, folder, path)
    assert found == (f"{path}={expected}" if len(expected) == 1 else expected)
    assert opened(place, folder, path, root_walk.Links.REFUSE) == "invalid_path"


@requirement("R-11")
def test_sixteen_links_are_followed_and_seventeen_are_not(place: Place, folder: Path) -> None:
    (folder / "hop0").symlink_to("a.txt")
    for hop in range(1, 17):
        (folder / f"hop{hop}").symlink_to(f"hop{hop - 1}")
    assert opened(place, folder, "hop15") == "hop15=A"
    assert opened(place, folder, "hop16") == "invalid_path"


@requirement("R-11")
def test_a_walk_of_endless_detours_is_given_up(place: Place, folder: Path) -> None:
    here = folder
    for depth in range(300):
        here = here / "d"
        here.mkdir()
        (here / "e").mkdir()
        if depth == 299:
            (here / "detour").symlink_to("e/../" * 800 + "e")
    assert opened(place, folder, "d/" * 300 + "detour") == "invalid_path"


@requirement("R-11", "R-12")
def test_a_walk_for_which_no_handle_is_left_is_refused_and_keeps_none(place: Place, folder: Path) -> None:
    (folder / "sub" / "up").symlink_to("../sub/../a.txt")
    held = {int(path.name) for path in Path("/dev/fd").iterdir()}
    limits = [number for number in range(len(held) + 8) if number not in held]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found: list[str] = []
    for limit in limits:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            found.append(opened(place, folder, "sub/up"))
        except OSError as error:
            found.append(os.strerror(error.errno or 0))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert {int(path.name) for path in Path("/dev/fd").iterdir()} == held
    assert set(found) == {os.strerror(errno.EMFILE), "io_error", "sub/up=A"}


@requirement("R-11", "R-12")
def test_special_files_are_never_opened_for_reading(place: Place, folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        assert opened(place, folder, "socket") == "not_file"
    assert opened(place, folder, "fifo") == "not_file"
    assert opened(place, folder, "null") == "invalid_path"


@requirement("R-11", "R-12")
def test_a_device_is_no_file_and_another_file_system_is_not_entered(place: Place) -> None:
    assert opened(place, Path("/dev"), "null") == "not_file"
    assert Path("/proc").stat().st_dev != Path("/").stat().st_dev
    assert opened(place, Path("/"), "proc/version") == "invalid_path"


@requirement("R-11")
def test_a_replaced_root_is_noticed_even_when_it_looks_the_same(place: Place, folder: Path) -> None:
    project = registered(folder)
    folder.rename(folder.with_name("moved"))
    with pytest.raises(paths.RootReplaced), paths.open_file(project, "a.txt", place.own()):
        pass
    folder.mkdir()
    (folder / "a.txt").write_text("OTHER")
    with pytest.raises(paths.RootReplaced), paths.open_file(project, "a.txt", place.own()):
        pass
    (folder / "a.txt").unlink()
    folder.rmdir()
    folder.symlink_to("moved")
    with pytest.raises(paths.RootReplaced), paths.open_file(project, "a.txt", place.own()):
        pass


def refusal(folder: Path, path: str, own: own_files.OwnFiles) -> str:
    with (
        pytest.raises(path_form.PathRefused) as caught,
        paths.open_file(registered(folder), path, own),
    ):
        pass
    return caught.value.reason


@requirement("R-13")
def test_the_runners_own_files_are_withheld_under_any_name(place: Place, folder: Path) -> None:
    own = place.own()
    (place.state_dir / "runs").mkdir()
    (place.state_dir / "runs" / "state.json").write_text("{}")
    (folder / "harmless.json").hardlink_to(place.state_dir / "runs" / "state.json")
    (folder / "harmless.toml").hardlink_to(place.config)
    (folder / "twice.txt").hardlink_to(folder / "a.txt")
    assert refusal(folder, "harmless.json", own) == "sensitive_path"
    assert refusal(folder, "harmless.toml", own) == "sensitive_path"
    place.config.unlink()
    assert refusal(folder, "harmless.toml", own) == "sensitive_path"
    with paths.open_file(registered(folder), "twice.txt", own) as file:
        assert os.read(file.descriptor, 10) == b"A"


@requirement("R-13")
def test_a_root_around_the_runners_own_files_does_not_open_them(place: Place, folder: Path) -> None:
    own = place.own()
    (place.state_dir / "store_id").write_text("id")
    place.configure(client_id="rewritten")
    for path in ("runner.toml", "projects.d/demo.toml", "runner-state/store_id"):
        assert refusal(place.root, path, own) == "sensitive_path"
    with paths.open_file(registered(place.root), "work/demo/a.txt", own) as file:
        assert (file.path, os.read(file.descriptor, 10)) == ("work/demo/a.txt", b"A")
    assert folder.exists()


@requirement("R-11", "R-12")
def test_what_this_user_may_not_read_is_permission_denied(place: Place) -> None:
    own = place.own()
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        (folder / "closed.txt").touch(mode=0)
        (folder / "shut").mkdir()
        (folder / "shut" / "a.txt").touch()
        (folder / "shut").chmod(0)
        try:
            as_user(65534)
            reasons = [refusal(folder, path, own) for path in ("closed.txt", "shut/a.txt")]
        finally:
            as_user(0)
            (folder / "shut").chmod(0o700)
    assert reasons == ["permission_denied", "permission_denied"]
