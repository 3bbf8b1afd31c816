"""Runs Git so that it starts no program that a repository names (R-53).

Git reads neither system nor global configuration. Of the repository's own, every setting that could name a
program is looked up first, includes and worktree configuration too, and overridden for the one call. What
another process writes into the repository between that look-up and the call is not covered.
"""

import os
import re
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from webcodex.runner import bounded_process, deadline

_MAX_CONFIG_BYTES: Final = 1024 * 1024
_MAX_OVERRIDES: Final = 1000

_VERSION: Final = re.compile(rb"git version (\d+)\.(\d+)")
_VERSION_WITHIN_S: Final = 5.0
_OLDEST: Final = (2, 31)

_NAMES_A_PROGRAM: Final = re.compile(
    r".*(?:command|cmd|program|helper|driver|textconv|clean|smudge|process|fsmonitor|hookspath|hook|askpass"
    r"|editor|pager|proxy|uploadpack|receivepack|uploadarchive|vcs|external|difffilter)"
)
_PROMISES: Final = re.compile(r"(?:filter\..*\.required|remote\..*\.promisor)", re.DOTALL)

_ALWAYS: Final[Mapping[str, str]] = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.bare": "false",
    "core.sshCommand": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
_ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
}


class GitFailed(Exception):
    """Git could not say; nothing is known about the repository."""


class GitLate(Exception):
    """Git was ended at the deadline."""


def find_git() -> str | None:
    """Returns the absolute path of Git on the Runner's own search path; None where there is none to trust.

    Before 2.31 Git does not take overrides from its environment, so an older one counts as none.
    """
    found = shutil.which("git")
    if found is None or not Path(found).is_absolute():
        return None
    until = deadline.Deadline(at=monotonic() + _VERSION_WITHIN_S, given_up=threading.Event())
    try:
        said = bounded_process.run(
            [found, "--version"], cwd="/", environment=_ENVIRONMENT, until=until, most_bytes=1024
        )
    except OSError:
        return None
    version = _VERSION.match(said.output)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        return None
    return found


def directory_of(descriptor: int, path: str) -> str:
    """Returns a working directory that is the held one itself where the system can name it."""
    held = f"/proc/self/fd/{descriptor}"
    return held if os.path.lexists(held) else path


class Repository:
    """One repository with ``.git`` in `directory`, and what is overridden for every call on it."""

    def __init__(self, git: str, directory: str, until: deadline.Deadline) -> None:
        self._git = git
        self._directory = directory
        self._until = until
        self._overrides: Mapping[str, str] = _ALWAYS
        listed = self.run(["config", "--list", "--name-only", "-z"], most_bytes=_MAX_CONFIG_BYTES)
        if listed.ending is not bounded_process.Ending.EXITED or listed.exit_code != 0:
            raise GitFailed("the repository's settings cannot be listed")
        keys = listed.output.decode(errors="surrogateescape").split("\0")
        self._overrides = overrides(keys)
        self.is_partial = "extensions.partialclone" in keys
        """Whether some of its objects are only promised; nothing fetches them here."""

    def run(self, arguments: Sequence[str], *, most_bytes: int) -> bounded_process.Outcome:
        """Returns what one Git command says.

        Raises:
            GitFailed: Git cannot be started.
            GitLate: the deadline passed.

        """
        argv = [self._git, "--no-pager", "--git-dir=.git", "--work-tree=.", *arguments]
        try:
            outcome = bounded_process.run(
                argv,
                cwd=self._directory,
                environment={**_ENVIRONMENT, **_as_environment(self._overrides)},
                until=self._until,
                most_bytes=most_bytes,
            )
        except OSError as error:
            raise GitFailed("Git cannot be started") from error
        if outcome.ending is bounded_process.Ending.TIMED_OUT:
            raise GitLate
        return outcome


def overrides(keys: Iterable[str]) -> Mapping[str, str]:
    """Returns what each call sets, given the names of every setting the repository has.

    Raises:
        GitFailed: more than 1,000 settings would have to be overridden.

    """
    found: dict[str, str] = {}
    for key in keys:
        if _PROMISES.fullmatch(key):
            found[key] = "false"
        elif _NAMES_A_PROGRAM.fullmatch(key.rpartition(".")[2].lower()):
            found[key] = ""
    if len(found) > _MAX_OVERRIDES:
        raise GitFailed("the repository names too many programs")
    return {**found, **_ALWAYS}


def _as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    environment = {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (key, value) in enumerate(settings.items()):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    return environment
