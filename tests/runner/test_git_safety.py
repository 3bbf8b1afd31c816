"""A hostile repository: whatever program it names, asking for its status starts none of them."""

import os
from collections.abc import Callable

import pytest

from tests.requirements import requirement
from tests.runner.place import Place
from tests.runner.test_git_status import git, status
from webcodex.runner import git_safety


class Trap:
    """A program that leaves a canary when it is started, and a repository to name it in."""

    def __init__(self, place: Place) -> None:
        self.canary = place.root / "canary"
        self.program = place.root / "trap"
        self.program.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.canary}\n')
        self.program.chmod(0o755)
        self.place = place
        self.folder = place.add_project("hostile")
        git(self.folder, "init", "-q", "-b", "main")
        (self.folder / "a.txt").write_text("one\n")
        (self.folder / "b.bin").write_text("two\n")
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-q", "-m", "first")
        (self.folder / "a.txt").write_text("changed\n")
        self.touch()

    def touch(self) -> None:
        """Makes Git look into the files again: their times say that they changed."""
        for name in ("a.txt", "b.bin"):
            os.utime(self.folder / name, (1_700_000_000, 1_700_000_000))

    def config(self, key: str, value: str) -> None:
        git(self.folder, "config", key, value)

    def sprung(self) -> bool:
        was = self.canary.exists()
        self.canary.unlink(missing_ok=True)
        return was


def fsmonitor(trap: Trap) -> None:
    trap.config("core.fsmonitor", str(trap.program))


def attributes(trap: Trap, line: str = "* filter=evil diff=evil\n") -> None:
    (trap.folder / ".gitattributes").write_text(line)


def clean_filter(trap: Trap) -> None:
    attributes(trap)
    trap.config("filter.evil.clean", str(trap.program))
    trap.config("filter.evil.required", "true")


def process_filter(trap: Trap) -> None:
    attributes(trap)
    trap.config("filter.evil.process", str(trap.program))


def filter_with_a_strange_name(trap: Trap) -> None:
    attributes(trap, "* filter=e=v.IL\n")
    trap.config("filter.e=v.IL.clean", str(trap.program))


def included_filter(trap: Trap) -> None:
    attributes(trap)
    (trap.place.root / "more").write_text(f'[filter "evil"]\n\tclean = {trap.program}\n')
    trap.config("include.path", str(trap.place.root / "more"))


def conditionally_included_filter(trap: Trap) -> None:
    attributes(trap)
    (trap.place.root / "more").write_text(f'[filter "evil"]\n\tclean = {trap.program}\n')
    trap.config("includeIf.onbranch:main.path", str(trap.place.root / "more"))


def worktree_filter(trap: Trap) -> None:
    attributes(trap)
    trap.config("extensions.worktreeConfig", "true")
    git(trap.folder, "config", "--worktree", "filter.evil.clean", str(trap.program))


def filter_by_private_attributes(trap: Trap) -> None:
    (trap.folder / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    trap.config("filter.evil.clean", str(trap.program))


def hooks(trap: Trap) -> None:
    for folder in (trap.folder / ".git" / "hooks", trap.place.root / "hooks"):
        folder.mkdir(exist_ok=True)
        for name in ("post-index-change", "pre-auto-gc", "fsmonitor-watchman", "reference-transaction"):
            (folder / name).symlink_to(trap.program)


def hooks_elsewhere(trap: Trap) -> None:
    hooks(trap)
    trap.config("core.hooksPath", str(trap.place.root / "hooks"))


def submodule(trap: Trap) -> None:
    git(trap.place.root, "init", "-q", "-b", "main", "inner")
    inner = trap.place.root / "inner"
    (inner / "c.txt").write_text("c\n")
    git(inner, "add", ".")
    git(inner, "commit", "-q", "-m", "inner")
    git(trap.folder, "submodule", "--quiet", "add", str(inner), "inner")
    git(trap.folder / "inner", "config", "core.fsmonitor", str(trap.program))


def external_diff(trap: Trap) -> None:
    trap.config("diff.external", str(trap.program))


def textconv(trap: Trap) -> None:
    attributes(trap)
    trap.config("diff.evil.textconv", str(trap.program))


def diff_command(trap: Trap) -> None:
    attributes(trap)
    trap.config("diff.evil.command", str(trap.program))


def alias(trap: Trap) -> None:
    trap.config("alias.st", f"!{trap.program}")


def lazy_fetch(trap: Trap) -> None:
    """Makes the committed files promised and absent: to compare them, Git would fetch them."""
    trap.config("core.repositoryFormatVersion", "1")
    trap.config("extensions.partialClone", "evil")
    trap.config("remote.evil.promisor", "true")
    trap.config("remote.evil.url", f"ext::{trap.program}")
    trap.config("protocol.allow", "always")
    trap.config("protocol.ext.allow", "always")
    blob = git(trap.folder, "rev-parse", "HEAD:a.txt")
    (trap.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    git(trap.folder, "rm", "-q", "--cached", "a.txt")
    (trap.folder / "renamed.txt").write_text("one\nand more\n")
    git(trap.folder, "add", "renamed.txt")


PLAIN_STATUS = ("status",)
TRAPS: dict[Callable[[Trap], None], tuple[str, ...]] = {
    fsmonitor: PLAIN_STATUS,
    clean_filter: PLAIN_STATUS,
    process_filter: PLAIN_STATUS,
    filter_with_a_strange_name: PLAIN_STATUS,
    included_filter: PLAIN_STATUS,
    conditionally_included_filter: PLAIN_STATUS,
    worktree_filter: PLAIN_STATUS,
    filter_by_private_attributes: PLAIN_STATUS,
    hooks: PLAIN_STATUS,
    hooks_elsewhere: PLAIN_STATUS,
    submodule: PLAIN_STATUS,
    external_diff: ("diff",),
    textconv: ("diff",),
    diff_command: ("diff",),
    alias: ("st",),
    lazy_fetch: PLAIN_STATUS,
}


@requirement("R-53")
@pytest.mark.parametrize("arm", TRAPS, ids=lambda arm: arm.__name__)
def test_a_program_that_plain_git_would_start_is_not_started(
    arm: Callable[[Trap], None], place: Place
) -> None:
    trap = Trap(place)
    arm(trap)
    trap.canary.unlink(missing_ok=True)
    found = status(trap.folder)
    assert not trap.sprung()
    assert (found["available"], found["dirty"]) == (True, True)
    trap.touch()
    git(trap.folder, *TRAPS[arm], check=False)
    assert trap.sprung(), "the trap does not work, so it proves nothing"


@requirement("R-53")
def test_settings_of_the_machine_and_the_user_are_not_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = Trap(place)
    settings = place.root / "gitconfig"
    settings.write_text(f"[core]\n\tfsmonitor = {trap.program}\n")
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, str(settings))
    monkeypatch.setenv("HOME", str(place.root))
    (place.root / ".gitconfig").write_text(settings.read_text())
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap.program))
    monkeypatch.setenv("GIT_DIR", str(place.root / "elsewhere"))
    assert status(trap.folder)["dirty"] is True
    assert not trap.sprung()


@requirement("R-53")
def test_asking_changes_nothing_in_the_repository(place: Place) -> None:
    trap = Trap(place)
    private = trap.folder / ".git"
    before = {path: path.stat().st_mtime_ns for path in private.rglob("*")}
    status(trap.folder)
    assert {path: path.stat().st_mtime_ns for path in private.rglob("*")} == before


@requirement("R-53")
def test_whatever_names_a_program_is_overridden_and_the_rest_is_left() -> None:
    overridden = git_safety.overrides(
        [
            "filter.a.clean",
            "filter.b.c=d.process",
            "filter.a.required",
            "diff.x.textconv",
            "core.sshcommand",
            "credential.https://example.org.helper",
            "remote.origin.uploadpack",
            "remote.origin.promisor",
            "core.autocrlf",
            "branch.main.merge",
            "remote.origin.fetch",
            "core.filemode",
        ]
    )
    always = git_safety.overrides([])
    assert {key: value for key, value in overridden.items() if key not in always} == {
        "filter.a.clean": "",
        "filter.b.c=d.process": "",
        "filter.a.required": "false",
        "diff.x.textconv": "",
        "core.sshcommand": "",
        "credential.https://example.org.helper": "",
        "remote.origin.uploadpack": "",
        "remote.origin.promisor": "false",
    }
    assert always["core.fsmonitor"] == "false"
    with pytest.raises(git_safety.GitFailed):
        git_safety.overrides(f"filter.f{number}.clean" for number in range(1001))


@requirement("R-53")
@pytest.mark.parametrize(
    ("said", "trusted"),
    [
        ("git version 2.31.0", True),
        ("git version 2.50.1 (Apple Git-155)", True),
        ("git version 3.0", True),
        ("git version 2.30.9", False),
        ("git version 1.99.1", False),
        ("something else", False),
        ("", False),
    ],
)
def test_a_git_that_takes_no_overrides_counts_as_none(
    said: str, trusted: bool, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = place.root / "git"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(place.root))
    assert git_safety.find_git() == (str(program) if trusted else None)


@requirement("R-53")
def test_a_relative_search_path_finds_no_git(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    program = place.root / "git"
    program.write_text("#!/bin/sh\necho git version 2.50.1\n")
    program.chmod(0o755)
    monkeypatch.chdir(place.root)
    monkeypatch.setenv("PATH", ".")
    assert git_safety.find_git() is None
