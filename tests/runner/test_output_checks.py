"""Checking the files that a piece of work names as its outputs."""

import os
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner.edit_place import sha256
from tests.runner.place import Place, registered, soon
from webcodex.runner import deadline, failures, output_checks


def checked(place: Place, folder: Path, *paths: str, until: deadline.Deadline | None = None) -> Any:
    body = {"paths": list(paths)}
    return output_checks.check_outputs(registered(folder), place.own(), body, until or soon())["items"]


@requirement("S-46")
def test_each_path_is_verified_missing_or_unavailable_in_order(place: Place) -> None:
    folder = place.add_project("demo")
    (folder / "a.txt").write_bytes(b"A\xff")
    (folder / "empty").touch()
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("a.txt")
    (folder / "out").symlink_to("../../secret")
    (place.root / "secret").write_text("SECRET")
    os.mkfifo(folder / "fifo")
    with (folder / "long").open("wb") as long:
        long.truncate(output_checks.MAX_FILE_BYTES + 1)
    unavailable = ("sub", "out", "fifo", "long", ".env", "../secret", "/etc/passwd")
    items = checked(place, folder, "a.txt", "absent", "empty", "link", "sub/absent", *unavailable)
    assert items == [
        {"path": "a.txt", "status": "verified", "size": 2, "sha256": sha256(b"A\xff")},
        {"path": "absent", "status": "missing", "size": None, "sha256": None},
        {"path": "empty", "status": "verified", "size": 0, "sha256": sha256(b"")},
        {"path": "link", "status": "verified", "size": 2, "sha256": sha256(b"A\xff")},
        {"path": "sub/absent", "status": "missing", "size": None, "sha256": None},
        *({"path": path, "status": "unavailable", "size": None, "sha256": None} for path in unavailable),
    ]


@requirement("S-46")
def test_what_is_not_read_in_time_is_unavailable(place: Place) -> None:
    folder = place.add_project("demo")
    (folder / "a.txt").write_bytes(b"A")
    over = threading.Event()
    over.set()
    for until in (
        deadline.Deadline(at=monotonic(), given_up=threading.Event()),
        deadline.Deadline(at=monotonic() + 20, given_up=over),
    ):
        [item] = checked(place, folder, "a.txt", until=until)
        assert item == {"path": "a.txt", "status": "unavailable", "size": None, "sha256": None}
    assert output_checks.WITHIN_S == 20


class Meddler(threading.Event):
    """Writes to a file whenever somebody looks whether there is time left to read it."""

    def __init__(self, path: Path, chunk: bytes, offset: int) -> None:
        super().__init__()
        self._path, self._chunk, self._offset, self._time_s = path, chunk, offset, 1

    def is_set(self) -> bool:
        with self._path.open("r+b") as file:
            file.seek(self._offset)
            file.write(self._chunk)
        self._time_s += 1  # the clock of a file system may not tell two writes apart
        os.utime(self._path, (self._time_s, self._time_s))
        return False


@requirement("S-46")
@pytest.mark.parametrize("offset", [0, 3 * 1024 * 1024])
def test_what_is_written_while_it_is_read_is_not_verified(place: Place, offset: int) -> None:
    folder = place.add_project("demo")
    (folder / "a.txt").write_bytes(b"A" * 3 * 1024 * 1024)
    meddled = deadline.Deadline(at=monotonic() + 20, given_up=Meddler(folder / "a.txt", b"B", offset))
    [item] = checked(place, folder, "a.txt", until=meddled)
    assert item == {"path": "a.txt", "status": "unavailable", "size": None, "sha256": None}
    [item] = checked(place, folder, "a.txt")
    assert (item["status"], item["sha256"]) == ("verified", sha256((folder / "a.txt").read_bytes()))


@requirement("S-46")
def test_outputs_of_a_replaced_root_are_unavailable(place: Place) -> None:
    folder = place.add_project("demo")
    (folder / "a.txt").write_bytes(b"A")
    project = registered(folder)
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"A")
    answer = output_checks.check_outputs(project, place.own(), {"paths": ["a.txt"]}, soon())
    assert [item["status"] for item in answer["items"]] == ["unavailable"]


@requirement("S-46")
@pytest.mark.parametrize(
    "body",
    [{}, *({"paths": paths} for paths in ([], "a", [1], [""], ["a"] * 17, ["ü" * 257]))],
)
def test_a_request_out_of_bounds_is_refused(place: Place, body: dict[str, Any]) -> None:
    folder = place.add_project("demo")
    with pytest.raises(failures.RequestFailed) as caught:
        output_checks.check_outputs(registered(folder), place.own(), body, soon())
    assert caught.value.failure.code == "invalid_arguments"
    assert output_checks.parse({"paths": ["ü" * 256] * 16}) == ("ü" * 256,) * 16
