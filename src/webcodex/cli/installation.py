"""The files of one data directory: where each lies, and that all are private from their first byte."""

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webcodex.cli import program, refusal
from webcodex.runner import private_files

DATA_VARIABLE: Final = "WEBCODEX_DATA"
START: Final = "up --project /path/to/repository"
DEFAULT_ADDR: Final = "127.0.0.1:8080"
USERNAME: Final = "owner"
CLIENT_ID: Final = "local"
_VERSION: Final = 1
_MOST_BYTES: Final = 64 * 1024
_OTHERS: Final = 0o077
_LOCK_TRIES: Final = 10
_LOCK_PAUSE_S: Final = 0.02
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """One data directory by its canonical path; the Server's database lies in it too."""

    directory: Path

    @property
    def lock_file(self) -> Path:
        """The file that a running ``up`` holds locked; it holds that process's id."""
        return self.directory / "up.lock"

    @property
    def settings_file(self) -> Path:
        """What ``up`` remembers: its own version and the address."""
        return self.directory / "up.json"

    @property
    def running_file(self) -> Path:
        """What is running, for as long as it runs."""
        return self.directory / "running.json"

    @property
    def bootstrap_file(self) -> Path:
        """The credential that may do everything (C-01)."""
        return self.directory / "credentials" / "bootstrap"

    @property
    def pat_file(self) -> Path:
        """The PAT for ordinary coding (C-14)."""
        return self.directory / "credentials" / "pat"

    @property
    def runner_file(self) -> Path:
        """The Runner's configuration, with its token."""
        return self.directory / "runner" / "runner.toml"

    @property
    def adapters_dir(self) -> Path:
        """The operator's folder for the local adapters, outside every project."""
        return self.directory / "adapters"

    @property
    def authorization_file(self) -> Path:
        """The adapters' full Authorization value (A-19)."""
        return self.adapters_dir / "authorization"

    @property
    def outbox_dir(self) -> Path:
        """The observation hook's state directory (A-11)."""
        return self.adapters_dir / "observation-outbox"

    @property
    def recovery_registry(self) -> Path:
        """Which conversations may recover which Sessions (A-51)."""
        return self.adapters_dir / "recovery.json"

    @property
    def logs_dir(self) -> Path:
        """What the Server and the Runner wrote."""
        return self.directory / "logs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """What a running ``up`` says of itself."""

    url: str
    server_pid: int
    runner_pid: int


def locate(given: str | None) -> Installation:
    """Returns the installation at ``given``, else at WEBCODEX_DATA, else at this user's usual place."""
    path = given or os.environ.get(DATA_VARIABLE)
    if not path:
        import platformdirs

        path = platformdirs.user_data_dir("webcodex", appauthor=False)
    return Installation(directory=Path(path).expanduser().resolve())


def existing(given: str | None) -> Installation:
    """Returns the installation that ``up`` made there.

    Raises:
        Refused: there is none yet.

    """
    found = locate(given)
    if not found.settings_file.exists():
        raise refusal.Refused(
            f"There is no installation in {found.directory} yet.\nStart one with: {program.command(START)}"
        )
    return found


def prepare(installation: Installation) -> None:
    """Leaves the directory and its folders made, each open to this user alone.

    Raises:
        Refused: the directory belongs to somebody else, is open to others, or cannot be made.

    """
    directory = installation.directory
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_private(directory)
        for folder in (
            installation.bootstrap_file.parent,
            installation.runner_file.parent,
            installation.adapters_dir,
            installation.outbox_dir,
            installation.logs_dir,
        ):
            folder.mkdir(mode=0o700, exist_ok=True)
            _make_private(folder)
    except OSError as error:
        raise refusal.Refused(
            f"The data directory {directory} cannot be used: {error.strerror}.\nChoose another with --data."
        ) from None


def _make_private(directory: Path) -> None:
    status = directory.stat()
    if status.st_uid != os.geteuid():
        raise refusal.Refused(f"{directory} belongs to another user. Choose another place with --data DIR.")
    if stat.S_IMODE(status.st_mode) == stat.S_IRWXU:
        return
    if status.st_mode & _OTHERS and any(directory.iterdir()):
        raise refusal.Refused(
            f"{directory} holds files and is open to other users.\n"
            f"Make it private with: chmod 700 {directory}\nOr choose another place with --data DIR."
        )
    directory.chmod(0o700)


@contextmanager
def held(installation: Installation) -> Iterator[None]:
    """Holds the data directory until the block ends; the lock ends with this process at the latest.

    Raises:
        Refused: another ``up`` holds it.

    """
    descriptor = os.open(installation.lock_file, _LOCK, 0o600)
    try:
        if not _lock_soon(descriptor):
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            raise refusal.Refused(
                f"WebCodex is already running on {installation.directory} (process {holder}).\n"
                f"Add a project to it with: {program.command('project add /path/to/repository')}\n"
                "Or start a second one beside it with: --data OTHER_DIR --addr 127.0.0.1:0"
            )
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def is_held(installation: Installation) -> bool:
    """Says whether an ``up`` runs on this data directory now."""
    try:
        descriptor = os.open(installation.lock_file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _lock_soon(descriptor: int) -> bool:
    """Tries a few times: whoever only asks whether the lock is held holds it for a moment."""
    for _ in range(_LOCK_TRIES):
        if _try_lock(descriptor):
            return True
        time.sleep(_LOCK_PAUSE_S)
    return False


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def running(installation: Installation) -> Running | None:
    """Returns what runs on this data directory, or none while nothing does or it is still starting."""
    if not is_held(installation):
        return None
    try:
        stored = _read_object(installation.running_file)
        return Running(**stored)
    except (FileNotFoundError, TypeError):
        return None


def note_running(installation: Installation, found: Running) -> None:
    """Leaves what runs on disk; whoever reads it checks the lock first."""
    written = {"url": found.url, "server_pid": found.server_pid, "runner_pid": found.runner_pid}
    _write_object(installation.running_file, written)


def remembered_addr(installation: Installation) -> str | None:
    """Returns the address of the last start, or none before the first."""
    try:
        stored = _read_object(installation.settings_file)
    except FileNotFoundError:
        return None
    addr = stored.get("addr")
    if stored.get("version") != _VERSION or not isinstance(addr, str):
        raise refusal.Refused(
            f"{installation.settings_file} was written by another version of WebCodex.\n"
            "Use that version, or start afresh with --data DIR."
        )
    return addr


def remember_addr(installation: Installation, addr: str) -> None:
    """Leaves the address on disk for the next start."""
    _write_object(installation.settings_file, {"version": _VERSION, "addr": addr})


def url(installation: Installation) -> str:
    """Returns the origin of the Server as ``up`` last started it."""
    return f"http://{remembered_addr(installation) or DEFAULT_ADDR}"


def read_secret(path: Path) -> str:
    """Returns the one line of a private file.

    Raises:
        Refused: the file is not there, not private or not one line of ASCII.

    """
    try:
        content, _ = private_files.read(path, most_bytes=4096)
        text = content.decode("ascii").strip()
    except FileNotFoundError:
        raise refusal.Refused(f"There is no {path}. Start WebCodex once: {program.command(START)}") from None
    except private_files.NotPrivate as error:
        raise refusal.Refused(f"{path} {error}. Make it so with: chmod 600 {path}") from None
    except (OSError, UnicodeDecodeError):
        raise refusal.Refused(f"{path} cannot be read as a line of ASCII.") from None
    return text


def write_secret(path: Path, secret: str) -> None:
    """Leaves a private file that holds one line."""
    private_files.write(path, f"{secret}\n".encode("ascii"))


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content, _ = private_files.read(path, most_bytes=_MOST_BYTES)
        stored = json.loads(content)
    except (private_files.NotPrivate, ValueError):
        stored = None
    if not isinstance(stored, dict):
        raise refusal.Refused(f"{path} is damaged or not private. Move it away and start again.")
    return stored


def _write_object(path: Path, written: dict[str, object]) -> None:
    private_files.write(path, json.dumps(written).encode())
