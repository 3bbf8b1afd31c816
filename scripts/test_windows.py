#!/usr/bin/env python3
"""Runs the tests of the adapters on Windows: on this machine if it is one, else under Wine.

Wine is not Windows: what it cannot show is skipped, each test with its reason. Further arguments go to
pytest. The exit code is that of the tests, or 1 if they could not be run.
"""

import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import test_windows_python as windows

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "adapters"
RUN_S = 1_200
INSIDE = "--packages"
PREFIX = "webcodex-windows-"
CHUNK = 4_096


def main(arguments: list[str]) -> int:
    """Returns how the tests ended."""
    try:
        if arguments[:1] == [INSIDE]:
            run_here(arguments[1], arguments[2], arguments[3:])
        if sys.platform == "win32":
            return on_windows(arguments)
        return under_wine(windows.ready(), arguments)
    except windows.NotReady as reason:
        sys.stderr.write(f"{reason}\n")
        return 1


def run_here(packages: str, temporary: str, arguments: list[str]) -> None:
    """Runs the tests in this very interpreter and ends it as they ended.

    What runs them lies in ``packages``. Their own files in ``temporary`` are left to the caller: they can
    be removed only once this process, with all that the tests have open in it, is gone.
    """
    os.chdir(ROOT)
    sys.path[:0] = [packages, str(ROOT)]
    words = ["-o", "pythonpath=. src", "-p", "no:cacheprovider", "--no-header", "-rs", "--tb=short"]
    place = os.path.join(temporary, "tests")  # noqa: PTH118  # as pytest takes it
    sys.argv = ["pytest", *words, f"--basetemp={place}", *(arguments or [str(TESTS)])]
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)


def on_windows(arguments: list[str]) -> int:
    """Runs the tests on this Windows machine."""
    packages = windows.cache() / "windows" / "packages"
    windows.install_packages(packages)
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as temporary:
        words = [sys.executable, "-X", "utf8", __file__, INSIDE, str(packages), temporary, *arguments]
        return subprocess.run(words, check=False, timeout=RUN_S).returncode


def under_wine(place: windows.Place, arguments: list[str]) -> int:
    """Runs the tests in one program under Wine and passes on what they print."""
    words = ["wine", str(place.python), "-X", "utf8", seen(Path(__file__)), INSIDE, seen(place.packages)]
    with tempfile.TemporaryDirectory(prefix=PREFIX) as temporary:
        variables = place.environment | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [*words, seen(Path(temporary)), *arguments],
            env=variables,
            # Wine 8 gives a program no files as its standard streams, only pipes.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        limit = threading.Timer(RUN_S, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        try:
            passed_on(process)
        finally:
            limit.cancel()
            # Whatever a test may have left in this prefix, and nothing of any other.
            subprocess.run(["wineserver", "--kill"], env=place.environment, check=False, timeout=60)
    if process.returncode != 0:
        return 1
    print("These tests ran under Wine. That is no proof for Windows: docs/windows.md says what is missing.")
    return 0


def passed_on(process: "subprocess.Popen[bytes]") -> None:
    """What the process prints has been printed, and it has ended."""
    assert process.stdout is not None
    with process.stdout as said:
        while part := os.read(said.fileno(), CHUNK):
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    process.wait()


def seen(path: Path) -> str:
    """The path as a program under Wine sees it."""
    return "Z:" + str(path).replace("/", "\\")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
