"""Which files and directories count as private, and how they are written and locked (A-10 to A-16, A-101)."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters import hook_fixture, kit
from tests.requirements import requirement

OTHER_USER = 65_534
is_root = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root may give a file away"
)


def hard_linked(file: Path) -> None:
    os.link(file, file.with_name("second"))


def linked(file: Path) -> None:
    file.symlink_to(file.rename(file.with_name("target")))


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir(mode=0o700)


def given_away(file: Path) -> None:
    os.chown(file, OTHER_USER, -1)


def mode(bits: int) -> Callable[[Path], None]:
    return lambda file: file.chmod(bits)


BAD_FILES = [
    *(pytest.param(mode(bits), id=oct(bits)) for bits in (0o400, 0o640, 0o644, 0o604, 0o700, 0o200)),
    hard_linked,
    linked,
    fifo,
    folder,
    pytest.param(given_away, marks=is_root),
    pytest.param(Path.unlink, id="missing"),
]


def refusal_of(call: Callable[[], object]) -> str:
    with pytest.raises(kit.refusal.Refused) as refused:
        call()
    return str(refused.value.reason)


def private_folder(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "folder"
    place.mkdir(mode=0o700)
    return place


@requirement("A-10", "A-17", "A-06")
def test_private_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    file = hook_fixture.private(tmp_path / "file", b"x" * 131_072)
    assert kit.private_files.read(str(file)) == b"x" * 131_072
    hook_fixture.private(file, b"x" * 131_073)
    assert refusal_of(lambda: kit.private_files.read(str(file))) == "input_too_large"
    assert refusal_of(lambda: kit.private_files.read(f"{file}\0")) == "private_regular_file_required"


@requirement("A-10", "A-16", "A-101")
@pytest.mark.parametrize("alter", BAD_FILES)
def test_file_that_is_not_private_is_refused(tmp_path: Path, alter: Callable[[Path], None]) -> None:
    place = private_folder(tmp_path)
    file = hook_fixture.private(place / "file", b"content")
    alter(file)
    assert refusal_of(lambda: kit.private_files.read(str(file))) == "private_regular_file_required"
    inside = kit.private_files.Folder(str(place))
    if file.is_symlink() or file.exists():
        assert refusal_of(lambda: inside.read("file")) == "private_regular_file_required"
        assert refusal_of(lambda: inside.open_lock("file")) == "invalid_lock"
    else:
        with pytest.raises(FileNotFoundError):
            inside.read("file")
    inside.close()


@requirement("A-11", "A-17", "A-16", "A-101")
@pytest.mark.parametrize(
    "alter",
    [
        *(pytest.param(mode(bits), id=oct(bits)) for bits in (0o500, 0o600, 0o750, 0o755, 0o701)),
        linked,
        pytest.param(given_away, marks=is_root),
        pytest.param(Path.rmdir, id="missing"),
        pytest.param(lambda place: (place.rmdir(), place.touch(mode=0o700)), id="file"),
    ],
)
def test_directory_that_is_not_private_is_refused(tmp_path: Path, alter: Callable[[Path], None]) -> None:
    place = private_folder(tmp_path)
    alter(place)
    reason = "private_state_directory_required"
    assert refusal_of(lambda: kit.private_files.Folder(str(place))) == reason
    above = (
        kit.private_files.Folder(str(place.parent)) if place.parent.stat().st_mode & 0o777 == 0o700 else None
    )
    if above is not None and (place.is_symlink() or place.exists()):
        assert refusal_of(lambda: above.subfolder("folder")) == reason
        assert refusal_of(lambda: above.make_subfolder("folder")) == reason


EXCHANGE = """
import os, sys
sys.path.insert(0, {scripts!r})
from adapter_kit import private_files, refusal
target, other = sys.argv[1:]
def exchange(event, arguments):
    if event == "open" and arguments[0] == target and os.path.lexists(other):
        os.rename(other, target)
sys.addaudithook(exchange)
try:
    print(private_files.read(target))
except refusal.Refused as refused:
    print(refused.reason)
"""


@requirement("A-10")
@pytest.mark.parametrize("alter", [mode(0o644), hard_linked, linked, fifo])
def test_file_exchanged_between_the_check_and_the_opening_is_refused(
    tmp_path: Path, alter: Callable[[Path], None]
) -> None:
    target = hook_fixture.private(tmp_path / "target-file", b"good")
    other = hook_fixture.private(tmp_path / "other", b"exchanged")
    alter(other)
    program = EXCHANGE.format(scripts=str(hook_fixture.SCRIPTS))
    command = [sys.executable, "-c", program, str(target), str(other)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=hook_fixture.RUN_S)
    assert done.stdout == b"private_regular_file_required\n"
    assert not other.exists()


@requirement("A-13", "A-14")
def test_created_and_replaced_files_are_private_and_whole(tmp_path: Path) -> None:
    place = private_folder(tmp_path)
    inside = kit.private_files.Folder(str(place))
    inside.create("file", b"first")
    assert inside.read("file") == b"first"
    inside.replace("file", b"second")
    assert (inside.read("file"), inside.names()) == (b"second", ["file"])
    inside.remove("file")
    assert (inside.has("file"), inside.modified_at("file"), inside.names()) == (False, None, [])


@requirement("A-16", "A-14", "A-13")
def test_failed_replace_leaves_the_original_and_no_temporary_file(tmp_path: Path) -> None:
    place = private_folder(tmp_path)
    inside = kit.private_files.Folder(str(place))
    taken = place / "taken"
    taken.mkdir()
    (taken / "original").write_bytes(b"kept")
    for write in (inside.replace, inside.create):
        with pytest.raises(OSError, match=r"taken|WinError"):
            write("taken", b"new")
        assert inside.names() == ["taken"]
    assert (taken / "original").read_bytes() == b"kept"


@requirement("A-16")
def test_subfolder_is_made_once_and_private(tmp_path: Path) -> None:
    place = private_folder(tmp_path)
    inside = kit.private_files.Folder(str(place))
    assert inside.subfolder("rejected") is None
    inside.make_subfolder("rejected").create("file", b"x")
    assert hook_fixture.is_private(place / "rejected")
    again = inside.make_subfolder("rejected")
    assert again.read("file") == b"x"


@requirement("A-12", "A-34")
def test_lock_is_held_by_one_at_a_time_and_carries_no_time_until_marked(tmp_path: Path) -> None:
    inside = kit.private_files.Folder(str(private_folder(tmp_path)))
    with (
        kit.private_files.FileLock(inside, ".save") as first,
        kit.private_files.FileLock(inside, ".save") as second,
    ):
        assert first.take()
        assert not second.take()
        assert not second.take(0.01)
        assert inside.modified_at(".save") == 0
        second.mark()
        assert inside.modified_at(".save") != 0
    with kit.private_files.FileLock(inside, ".save") as third:
        assert third.take(1)


@requirement("A-12", "A-101")
@is_root
def test_files_of_another_user_are_never_used_by_a_run(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    for path, reason in (
        (operator.config, "private_regular_file_required"),
        (operator.outbox, "private_state_directory_required"),
    ):
        os.chown(path, OTHER_USER, -1)
        assert operator.hook().reason == reason
        os.chown(path, 0, -1)
    given_away(operator.save("call-one"))
    assert operator.flush().reason == "invalid_pending_file"
    for name in (".save", ".lock"):
        given_away(hook_fixture.private(operator.outbox / name, b""))
    assert operator.hook("call-two").reason == "invalid_lock"
    assert operator.flush().reason == "invalid_lock"
    given_away(operator.authorization)
    (operator.outbox / ".save").unlink()
    (operator.outbox / ".lock").unlink()
    assert operator.hook("call-three").reason == "private_regular_file_required"
