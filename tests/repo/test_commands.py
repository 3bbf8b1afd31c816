"""The commands of the Makefile and the script that makes the environment, on machines of several kinds."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.repo import tree

PYTHONS = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
PYTHON = """#!/bin/sh
echo "python $*" >>"$LOG"
case "$*" in
*version_info*) exit "$OLD" ;;
*--version) echo "Python 3.9.2" ;;
*ensurepip*) [ -e "$COMPLETE" ] ;;
"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""
APT = '#!/bin/sh\necho "apt-get $*" >>"$LOG"\ntouch "$COMPLETE"\n'

COMPILES = "python -m compileall -q src integrations"


class Machine:
    """A folder with this repository's script, and programs that only write down how they were called."""

    def __init__(self, folder: Path, *, user: int = 0, too_old: bool = False, complete: bool = True) -> None:
        self.folder = folder / "checkout"
        self.log = folder / "log"
        self.log.touch()
        (self.folder / "scripts").mkdir(parents=True)
        shutil.copy(tree.ROOT / "scripts" / "bootstrap.sh", self.folder / "scripts")
        (self.folder / "pyproject.toml").touch()
        programs = {"apt-get": APT, "id": f"#!/bin/sh\necho {user}\n", **dict.fromkeys(PYTHONS, PYTHON)}
        for name, text in programs.items():
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o755)
        if complete:
            (folder / "complete").touch()
        self.environment = {
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "LOG": str(self.log),
            "COMPLETE": str(folder / "complete"),
            "OLD": str(int(too_old)),
        }

    def bootstrap(self, want: str = "dev") -> subprocess.CompletedProcess[str]:
        """Runs the script to its end."""
        return finished(["scripts/bootstrap.sh", want], self.folder, self.environment)

    def calls(self) -> list[str]:
        """What was called since the last time, without the questions about versions."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        self.log.write_text("", encoding="utf-8")
        return [line for line in lines if " -c " not in line and "--version" not in line]


def finished(argv: list[str], folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """How a program ended that inherits nothing from a make around these tests."""
    kept = {
        key: value for key, value in os.environ.items() if key not in {"PROJECT", "MAKEFLAGS", "MAKELEVEL"}
    }
    return subprocess.run(
        argv,
        cwd=folder,
        env={**kept, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_start_without_a_project_says_what_to_do_and_exits_2() -> None:
    ended = finished(["make", "start"], tree.ROOT, {})
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("Say which repository: make start PROJECT=/path/to/repository\n")


def test_make_alone_lists_the_commands() -> None:
    ended = finished(["make"], tree.ROOT, {})
    assert ended.returncode == 0
    for command in ("start PROJECT=", "demo", "test", "test-hosts", "check", "format", "generate", "bench"):
        assert f"make {command}" in ended.stdout


def test_first_use_makes_the_environment_and_the_second_says_and_does_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    first = machine.bootstrap()
    assert (first.returncode, first.stdout) == (0, "")
    assert machine.calls() == [
        "python -m venv --clear .venv",
        "python -m pip install -qq -e .[dev]",
        COMPILES,
    ]
    second = machine.bootstrap()
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert machine.calls() == []
    assert machine.bootstrap("runtime").stderr == ""


def test_runtime_use_installs_no_tools_of_developers(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.bootstrap("runtime")
    assert machine.calls()[-2:] == ["python -m pip install -qq -e .", COMPILES]
    machine.bootstrap()
    assert machine.calls() == ["python -m pip install -qq -e .[dev]", COMPILES]


def test_changed_project_file_installs_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.bootstrap()
    machine.calls()
    stamp = (machine.folder / ".venv" / ".ready-dev").stat().st_mtime
    os.utime(machine.folder / "pyproject.toml", (stamp + 1, stamp + 1))
    machine.bootstrap()
    assert machine.calls() == ["python -m pip install -qq -e .[dev]", COMPILES]


def test_moved_checkout_gets_a_new_environment(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.bootstrap()
    machine.folder = machine.folder.rename(tmp_path / "moved")
    machine.calls()
    machine.bootstrap()
    assert machine.calls()[0] == "python -m venv --clear .venv"


def test_missing_venv_package_is_installed_by_root(tmp_path: Path) -> None:
    machine = Machine(tmp_path, complete=False)
    assert machine.bootstrap().returncode == 0
    assert machine.calls()[:2] == ["apt-get -qq update", "apt-get -qq install -y python3-venv"]


def test_missing_venv_package_is_named_to_everybody_else(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user=1000, complete=False)
    ended = machine.bootstrap()
    assert ended.returncode == 1
    assert ended.stderr == "python3 cannot create environments yet. Run: sudo apt-get install python3-venv\n"
    assert machine.calls() == []
    assert not (machine.folder / ".venv").exists()


def test_older_python_is_refused_with_a_sentence(tmp_path: Path) -> None:
    machine = Machine(tmp_path, too_old=True)
    ended = machine.bootstrap()
    assert ended.returncode == 1
    assert ended.stderr.startswith("WebCodex needs Python 3.11 or newer; found Python 3.9.2.")
    assert not (machine.folder / ".venv").exists()


@pytest.mark.parametrize(
    ("failing", "begun", "said"),
    [
        ("nothing", ["bootstrap", "test", "demo", "check", "test-hosts"], ""),
        ("bootstrap", ["bootstrap"], "FAILED: environment (exit code 3)\n"),
        ("test", ["bootstrap", "test"], "FAILED: test (exit code 3)\n"),
        ("demo", ["bootstrap", "test", "demo"], "FAILED: demo (exit code 3)\n"),
        ("check", ["bootstrap", "test", "demo", "check"], "FAILED: check (exit code 3)\n"),
        (
            "test-hosts",
            ["bootstrap", "test", "demo", "check", "test-hosts"],
            "FAILED: hosts (exit code 3)\n",
        ),
    ],
)
def test_ci_stops_at_the_first_step_that_fails_and_names_it(
    failing: str, begun: list[str], said: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    for name, step in (("scripts/bootstrap.sh", "bootstrap"), ("programs/make", "$1")):
        program = tmp_path / name
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\necho "{step}" >>"$LOG"\n[ "{step}" != "$FAILING" ] || exit 3\n', "utf-8"
        )
        program.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(tree.ROOT / ".ci" / "run", tmp_path / ".ci")
    path = f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}"
    ended = finished([".ci/run"], tmp_path, {"PATH": path, "LOG": str(log), "FAILING": failing})
    assert (ended.returncode, ended.stderr) == (1 if said else 0, said)
    assert log.read_text(encoding="utf-8").split() == begun


@pytest.mark.parametrize("script", ["scripts/bootstrap.sh", ".ci/run", "scripts/check"])
def test_script_can_be_started(script: str) -> None:
    assert os.access(tree.ROOT / script, os.X_OK)
