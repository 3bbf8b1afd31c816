"""The command line an operator pastes into the host's hook configuration (A-64, A-86)."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters import hook_fixture, peer
from tests.requirements import requirement

TOKEN = re.compile(r'"(?P<quoted>[^"]*)"|(?P<plain>[^\s"]+)')


def printed(
    operator: hook_fixture.Operator, script: Path = hook_fixture.HOOK, interpreter: str = sys.executable
) -> str:
    command = [interpreter, "-I", "-S", str(script), "--config", str(operator.config), "--print-registration"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=hook_fixture.RUN_S)
    assert done.stderr == b""
    return done.stdout.decode()


def as_windows_shells_split(line: str) -> list[str]:
    """The words of a line of plain and double-quoted words, as PowerShell and cmd pass them to a program."""
    words = [
        found["quoted"] if found["quoted"] is not None else found["plain"] for found in TOKEN.finditer(line)
    ]
    assert TOKEN.sub("", line).strip() == ""
    return words


@requirement("A-64", "A-74", "A-86", "A-22")
def test_registration_is_one_plain_line_that_never_changes(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    text = printed(operator)
    python, script, config = (
        Path(path).as_posix() for path in (sys.executable, hook_fixture.HOOK, operator.config)
    )
    assert text == f"{python} -I -S {script} --config {config}\n"
    assert os.path.isabs(sys.executable)  # noqa: PTH117  # the text, not a path object
    assert printed(operator) == text
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@requirement("A-64", "A-86", "A-74")
@pytest.mark.parametrize(
    "name", ["two words", "o'brien", "七つ 星", "a$HOME`id`\\b", 'q"uote', "a;b&c|d(e)<f>", "tab\there"]
)
def test_registered_command_line_is_read_back_by_sh_and_records(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    shutil.copytree(hook_fixture.SCRIPTS, place / "codex", ignore=shutil.ignore_patterns("__pycache__"))
    script = place / "codex" / hook_fixture.HOOK.name
    with peer.Peer() as server:
        operator = hook_fixture.Operator(place, server.origin)
        if not name.isprintable():
            command = [sys.executable, str(script), "--config", str(operator.config), "--print-registration"]
            done = subprocess.run(command, capture_output=True, check=False)
            assert json.loads(done.stderr)["reason"] == "invalid_arguments"
            return
        line = printed(operator, script)
        assert (line.count("\n"), line.endswith("\n"), line[0]) == (1, True, sys.executable[0])
        stdin = json.dumps(operator.payload()).encode()
        assert operator.status()["last_hook_at"] is None
        done = subprocess.run(["sh", "-c", line], input=stdin, capture_output=True, check=False)
        assert hook_fixture.Result(done.returncode, done.stdout, done.stderr).is_silent_success
        assert operator.status()["last_hook_at"] is not None
    if not set(name) & set('$`\\"'):
        words = [sys.executable, "-I", "-S", str(script), "--config", str(operator.config)]
        assert as_windows_shells_split(line) == words


@requirement("A-64")
def test_only_an_interpreter_with_a_special_path_is_quoted(tmp_path: Path) -> None:
    place = tmp_path / "my python"
    place.mkdir()
    interpreter = place / "python"
    interpreter.symlink_to(sys.executable)
    operator = hook_fixture.Operator(tmp_path)
    assert printed(operator, interpreter=str(interpreter)).startswith(f'"{interpreter}" -I -S ')


@requirement("A-64", "A-22")
def test_registration_of_a_broken_configuration_is_refused(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    operator.config.chmod(0o644)
    assert operator.run(b"", "--print-registration").reason == "private_regular_file_required"


@requirement("A-02", "A-64")
def test_no_adapter_names_a_file_of_a_host() -> None:
    names = re.compile(r"hooks\.json|trusted_hash|config\.toml|CODEX_HOME")
    for file in hook_fixture.SCRIPTS.rglob("*.py"):
        assert not names.search(file.read_text(encoding="utf-8")), file
