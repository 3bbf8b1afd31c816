"""What a run of the recovery entry loads, and what it must never load (A-01)."""

import json
import subprocess
import sys
from pathlib import Path

from tests.adapters import recovery_fixture, test_hook_start
from tests.requirements import requirement

KIT = {
    "acceptance_check",
    "bindings",
    "brief_check",
    "config",
    "discovery",
    "external_reports_check",
    "goal_context_check",
    "handoff_read",
    "hook_input",
    "json_text",
    "limits",
    "paths",
    "private_files",
    "private_files_posix",
    "process",
    "recovery_hook",
    "recovery_run",
    "recovery_text",
    "refusal",
    "reports",
    "selection",
    "server_client",
    "shapes",
    "snapshots",
}


@requirement("A-01", "A-02", "A-81")
def test_hook_loads_the_kit_and_five_modules_of_the_interpreter(tmp_path: Path) -> None:
    log = tmp_path / "trace"
    before = (str(test_hook_start.TRACED), str(log))
    with recovery_fixture.serving(tmp_path) as (operator, _):
        process = operator.start("hook", before=before)
        out, err = process.communicate(json.dumps(operator.payload()).encode(), recovery_fixture.RUN_S)
        assert recovery_fixture.Result(process.returncode, out, err).shown("SessionStart")["status"] == "read"
        names = set(log.read_text(encoding="utf-8").split())
        kit = {f"adapter_kit.{name}" for name in KIT} | {"adapter_kit"}
        assert names - test_hook_start.HASHES == kit | test_hook_start.NATIVE
        for verb in (
            ("status",),
            ("registration",),
            ("discover", "--project-root", str(operator.root)),
            ("hook", "--wrong"),
        ):
            log.unlink()
            operator.start(*verb, before=before, stdin=subprocess.DEVNULL).communicate(
                timeout=recovery_fixture.RUN_S
            )
            assert not set(log.read_text(encoding="utf-8").split()) & test_hook_start.NEVER, verb


@requirement("A-01", "A-05")
def test_interpreter_without_the_fast_modules_says_the_same(tmp_path: Path) -> None:
    program = test_hook_start.without_imports("_json", "_sha2", "_sha256")
    with recovery_fixture.serving(tmp_path) as (operator, _):
        stdin = json.dumps(operator.payload()).encode()
        command = [sys.executable, "-I", "-S", "-c", program, str(recovery_fixture.ENTRY)]
        done = subprocess.run(
            [*command, "--registry", str(operator.registry), "hook"],
            input=stdin,
            capture_output=True,
            check=True,
        )
        assert done.stdout == operator.asked_with(stdin).out


@requirement("A-03", "A-61")
def test_entry_without_its_kit_fails_visibly_with_one(tmp_path: Path) -> None:
    alone = tmp_path / recovery_fixture.ENTRY.name
    alone.write_bytes(recovery_fixture.ENTRY.read_bytes())
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(alone), "--registry", "r", "hook"],
        input=b"{}",
        capture_output=True,
        check=False,
    )
    assert recovery_fixture.Result(done.returncode, done.stdout, done.stderr).reason == "read_unconfirmed"
