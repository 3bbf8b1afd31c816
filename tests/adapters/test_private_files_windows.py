"""Private files as only Windows has them: access control, sharing, reparse points, handles (A-10 to A-15)."""

import _winapi
import contextlib
import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from ctypes import wintypes
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.adapters import hook_fixture, kit
from tests.requirements import requirement

assert sys.platform == "win32"

from tests.adapters import kit_windows, windows_modes  # noqa: E402  # Windows only

private_files_windows = kit_windows.private_files_windows
security_windows = kit_windows.security_windows
system_windows = kit_windows.system_windows
USER = windows_modes.USER
OTHER = "S-1-5-21-1-2-3-1001"
MINE = f"(A;;FA;;;{USER})"
NOT_PRIVATE = "private_regular_file_required"


def refusal_of(call: Callable[[], object]) -> str:
    with pytest.raises(kit.refusal.Refused) as refused:
        call()
    return str(refused.value.reason)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def inside(place: Path) -> Iterator[private_files_windows.Folder]:
    opened = private_files_windows.Folder(str(place))
    yield opened
    opened.close()


@requirement("A-10", "A-15", "A-17", "A-101")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"O:{USER}D:P{MINE}", True, id="the user alone"),
        pytest.param(f"O:{USER}D:P(A;;FA;;;SY)(A;;FA;;;BA){MINE}", True, id="as documented"),
        pytest.param(f"O:{USER}D:(A;OICIID;FA;;;SY)(A;OICIIO;FA;;;{USER})", True, id="inherited"),
        pytest.param(f"O:{USER}D:(D;;FA;;;WD)(D;;FR;;;{OTHER}){MINE}", True, id="denied to others"),
        pytest.param(f"O:{USER}D:P", True, id="no one admitted"),
        pytest.param(f"O:{USER}D:P{MINE}(A;;FR;;;WD)", False, id="everyone reads"),
        pytest.param(f"O:{USER}D:P{MINE}(A;;0x1;;;BU)", False, id="users read content"),
        pytest.param(f"O:{USER}D:P{MINE}(A;;FR;;;AU)", False, id="the authenticated read"),
        pytest.param(f"O:{USER}D:P{MINE}(A;;FR;;;{OTHER})", False, id="one other reads"),
        pytest.param(f"O:{USER}D:P{MINE}(A;OICIIO;FA;;;CO)", False, id="creators in it"),
        pytest.param(f"O:{USER}D:P(A;;FA;;;S-1-3-4)", False, id="owner rights"),
        pytest.param(f"O:{USER}D:P(D;;FA;;;WD)(A;;FR;;;WD)", False, id="denied, then admitted"),
        pytest.param(f"O:SYD:P{MINE}", False, id="owned by SYSTEM"),
        pytest.param(f"O:BAD:P{MINE}", False, id="owned by Administrators"),
        pytest.param(f"O:{OTHER}D:P{MINE}", False, id="owned by another"),
        pytest.param(f"D:P{MINE}", False, id="no owner"),
        pytest.param(f"O:{USER}", False, id="no list"),
    ],
)
def test_owner_and_every_entry_decide_whether_a_descriptor_is_private(text: str, expected: bool) -> None:
    with security_windows.Written(text) as security:
        assert security.is_private() is expected


@requirement("A-10", "A-101")
def test_descriptor_whose_list_is_null_admits_everyone_and_is_not_private() -> None:
    with security_windows.Written(f"O:{USER}D:P{MINE}") as security:
        assert security.is_private()
        # SECURITY_DESCRIPTOR_RELATIVE: the offset of the list is its last field, after 16 bytes.
        wintypes.DWORD.from_address((security.pointer.value or 0) + 16).value = 0
        assert not security.is_private()


@requirement("A-10", "A-101")
@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, 9, 10, 11, 0x11, 0xFF])
def test_entry_of_a_kind_that_is_not_understood_refuses(kind: int) -> None:
    with security_windows.Written(f"O:{USER}D:P(A;;FA;;;SY){MINE}") as security:
        (first, _) = security_windows._entries(security._dacl())
        ctypes.c_ubyte.from_address(first[2] - security_windows._SID_OFFSET).value = kind
        assert not security.is_private()


@requirement("A-15")
def test_inherited_entry_is_seen() -> None:
    with security_windows.Written(f"O:{USER}D:AI(A;ID;FA;;;{USER})") as inherited:
        assert inherited.is_inherited()
    with security_windows.private(is_folder=True) as own:
        assert own.is_private()
        assert not own.is_inherited()


@requirement("A-15", "A-14")
def test_made_file_admits_no_one_whom_its_folder_admits(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    windows_modes.write(shared, f"O:{USER}D:P(A;OICI;FA;;;{USER})(A;OICI;FR;;;WD)")
    private_files_windows.replace(str(shared / "file"), b"content")
    assert windows_modes.is_private(shared / "file")
    assert private_files_windows.read(str(shared / "file")) == b"content"
    assert refusal_of(lambda: private_files_windows.Folder(str(shared))) == "private_state_directory_required"


@requirement("A-15")
def test_made_things_keep_a_protected_list_of_three(
    place: Path, inside: private_files_windows.Folder
) -> None:
    inside.create("file", b"")
    inside.make_subfolder("rejected").close()
    private_files_windows.close_lock(inside.open_lock(".lock"))
    for name in ("file", "rejected", ".lock"):
        text = windows_modes.read(place / name)
        assert text.startswith(f"O:{USER}D:P"), text
        assert text.count("(A;") == 3


@requirement("A-15", "A-13", "A-16")
def test_place_that_does_not_keep_what_a_file_is_made_with_gets_no_file(
    place: Path, inside: private_files_windows.Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows_modes.write(place, f"O:{USER}D:P(A;OICI;FA;;;{USER})")
    make_file, make_folder = system_windows._kernel.CreateFileW, system_windows._kernel.CreateDirectoryW
    monkeypatch.setattr(
        system_windows._kernel,
        "CreateFileW",
        lambda path, access, shares, _, *rest: make_file(path, access, shares, None, *rest),
    )
    monkeypatch.setattr(system_windows._kernel, "CreateDirectoryW", lambda path, _: make_folder(path, None))
    for make in (
        lambda: inside.create("file", b"secret"),
        lambda: inside.replace("file", b"secret"),
        lambda: inside.make_subfolder("rejected"),
        lambda: inside.open_lock(".lock"),
    ):
        assert refusal_of(make) == "windows_private_path_required"
        assert inside.names() == []


@requirement("A-10", "A-15", "A-31")
def test_system_that_does_not_say_whose_a_file_is_refuses(
    place: Path, inside: private_files_windows.Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = hook_fixture.private(place / "file", b"content")
    monkeypatch.setattr(security_windows._advapi, "GetSecurityInfo", lambda *_: 5)
    for call in (
        lambda: private_files_windows.read(str(file)),
        lambda: private_files_windows.Folder(str(place)),
        lambda: inside.open_lock("file"),
        lambda: inside.create("new", b""),
    ):
        assert refusal_of(call) == "windows_security_unavailable"
    # In an outbox it is one bad file among others, and never stops them.
    assert refusal_of(lambda: inside.read("file")) == NOT_PRIVATE
    assert inside.names() == ["file"]


@requirement("A-10")
@pytest.mark.parametrize("exchanged", [b"other", None])
def test_file_exchanged_between_the_look_and_the_opening_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, exchanged: bytes | None
) -> None:
    file = hook_fixture.private(place / "file", b"content")
    other = hook_fixture.private(place / "other", b"other")
    real, calls = system_windows._kernel.CreateFileW, []

    def exchanging(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            file.rename(place / "aside")
            if exchanged is not None:
                other.rename(file)
        return real(*given)

    monkeypatch.setattr(system_windows._kernel, "CreateFileW", exchanging)
    assert refusal_of(lambda: private_files_windows.read(str(file))) == NOT_PRIVATE
    assert len(calls) == 2


@requirement("A-11", "A-12")
def test_open_folder_and_open_lock_cannot_be_exchanged(place: Path) -> None:
    folder = private_files_windows.Folder(str(place))
    lock = folder.open_lock(".lock")
    for exchange in (
        lambda: place.rename(place.with_name("other")),
        (place / ".lock").unlink,
        lambda: (place / ".lock").rename(place / "other"),
    ):
        with pytest.raises(PermissionError):
            exchange()
    private_files_windows.close_lock(lock)
    (place / ".lock").unlink()
    folder.close()
    place.rename(place.with_name("other"))


@requirement("A-12")
def test_handles_are_not_inherited_by_other_programs(inside: private_files_windows.Folder) -> None:
    lock = inside.open_lock(".lock")
    made = system_windows.created(inside._at("new"), system_windows.WRITE, system_windows.SHARE_NOTHING)
    for handle in (lock, made, inside._handle):
        assert not os.get_handle_inheritable(handle)
    system_windows.close(made)
    private_files_windows.close_lock(lock)


HOLDER = """
import sys
sys.path.insert(0, sys.argv[1])
from adapter_kit import private_files_windows
lock = private_files_windows.Folder(sys.argv[2]).open_lock(".lock")
print(private_files_windows.try_lock(lock), flush=True)
sys.stdin.read()
"""


@requirement("A-12", "A-105")
def test_lock_of_another_process_is_seen_at_once_and_ends_with_it(
    place: Path, inside: private_files_windows.Folder
) -> None:
    command = [sys.executable, "-I", "-S", "-c", HOLDER, str(hook_fixture.SCRIPTS), str(place)]
    lock = inside.open_lock(".lock")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"True"
        assert not private_files_windows.try_lock(lock)
        holder.kill()
        holder.wait(hook_fixture.RUN_S)
    assert private_files_windows.try_lock(lock)
    private_files_windows.close_lock(lock)


@requirement("A-13", "A-14", "A-16", "A-105")
def test_file_that_another_program_keeps_open_is_neither_replaced_nor_lost(
    place: Path, inside: private_files_windows.Folder
) -> None:
    hook_fixture.private(place / "file", b"original")
    with (place / "file").open("rb"):  # as most programs do, without leave to delete
        with pytest.raises(PermissionError):
            inside.replace("file", b"new")
        with pytest.raises(PermissionError):
            inside.remove("file")
        assert inside.names() == ["file"]
        assert inside.read("file") == b"original"
    inside.replace("file", b"new")
    assert (inside.names(), inside.read("file")) == (["file"], b"new")


@requirement("A-14", "A-16")
@pytest.mark.parametrize("effect", ["replace", "remove", "read"])
def test_file_that_another_program_opens_for_a_moment_is_waited_for(
    place: Path, inside: private_files_windows.Folder, effect: str
) -> None:
    file = hook_fixture.private(place / "file", b"original")
    taken = system_windows.opened(str(file), system_windows.READ, system_windows.SHARE_NOTHING)
    freed = threading.Timer(0.05, system_windows.close, (taken,))
    freed.start()
    if effect == "replace":
        inside.replace("file", b"new")
        assert inside.read("file") == b"new"
    elif effect == "remove":
        inside.remove("file")
        assert inside.names() == []
    else:
        assert inside.read("file") == b"original"
    freed.join()


@requirement("A-31")
def test_report_can_be_removed_while_another_run_reads_it(
    place: Path, inside: private_files_windows.Folder
) -> None:
    file = hook_fixture.private(place / "file", b"content")
    reading = system_windows.opened(str(file), system_windows.READ, system_windows.SHARE_ALL)
    inside.remove("file")
    assert system_windows.read(reading, 100) == b"content"
    system_windows.close(reading)
    assert not inside.has("file")


@requirement("A-13")
def test_created_file_never_takes_a_name_that_is_there(
    place: Path, inside: private_files_windows.Folder
) -> None:
    hook_fixture.private(place / "file", b"original")
    with pytest.raises(FileExistsError):
        inside.create("FILE", b"new")
    assert (inside.names(), inside.read("file")) == (["file"], b"original")


@requirement("A-10", "A-101")
@pytest.mark.parametrize(
    "path", ["NUL", r"\\.\NUL", r"\\.\C:", r"\\.\pipe\none", "C:", "?", "a\0b", "x" * 40_000, "\ud800"]
)
def test_what_is_no_file_is_refused(path: str) -> None:
    assert refusal_of(lambda: private_files_windows.read(path)) == NOT_PRIVATE
    assert refusal_of(lambda: private_files_windows.Folder(path)) == "private_state_directory_required"


@requirement("A-10", "A-11", "A-101")
def test_reparse_points_are_refused_wherever_they_lead(tmp_path: Path, place: Path) -> None:
    file = hook_fixture.private(place / "file", b"content")
    (place / "link").symlink_to(file)
    (tmp_path / "linked").symlink_to(place, target_is_directory=True)
    _winapi.CreateJunction(str(place), str(tmp_path / "junction"))
    _winapi.CreateJunction(str(place), str(place / "rejected"))
    assert refusal_of(lambda: private_files_windows.read(str(place / "link"))) == NOT_PRIVATE
    for name in ("linked", "junction"):
        open_it = partial(private_files_windows.Folder, str(tmp_path / name))
        assert refusal_of(open_it) == "private_state_directory_required"
    with contextlib.closing(private_files_windows.Folder(str(place))) as inside:
        assert refusal_of(lambda: inside.read("link")) == NOT_PRIVATE
        assert refusal_of(lambda: inside.open_lock("link")) == "invalid_lock"
        assert refusal_of(lambda: inside.make_subfolder("rejected")) == "private_state_directory_required"


@requirement("A-11", "A-97")
def test_folder_reached_through_a_junction_is_used_by_its_own_path(tmp_path: Path, place: Path) -> None:
    (place / "outbox").mkdir(mode=0o700)
    junction = tmp_path / "junction"
    _winapi.CreateJunction(str(place), str(junction))
    with contextlib.closing(private_files_windows.Folder(str(junction / "outbox"))) as inside:
        junction.rmdir()
        inside.create("file", b"content")
    assert (place / "outbox" / "file").read_bytes() == b"content"


@requirement("A-10", "A-101")
def test_entries_on_a_disk_that_admit_or_deny_others_are_judged(tmp_path: Path) -> None:
    file = hook_fixture.private(tmp_path / "file", b"content")
    windows_modes.write(file, f"O:{USER}D:P(D;;FW;;;WD){MINE}")
    assert private_files_windows.read(str(file)) == b"content"
    for entry in (f"(A;;FR;;;{OTHER})", "(A;;FR;;;BU)", "(A;;FR;;;WD)"):
        windows_modes.write(file, f"O:{USER}D:P{MINE}{entry}")
        assert refusal_of(lambda: private_files_windows.read(str(file))) == NOT_PRIVATE
    windows_modes.write(file, f"O:{USER}D:NO_ACCESS_CONTROL")
    assert refusal_of(lambda: private_files_windows.read(str(file))) == NOT_PRIVATE
