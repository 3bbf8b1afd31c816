"""Stdin is drained to its end, or to the bound, before anything: no write of the host breaks (A-04, A-71)."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters import hook_fixture, other_run, peer
from tests.requirements import requirement

LARGE = 8 * 1_024 * 1_024


def large(operator: hook_fixture.Operator, **changes: object) -> bytes:
    """A payload of 8 MiB whose identity comes first."""
    text = json.dumps(operator.payload(**changes))
    return text.removesuffix("}").encode() + b', "more": "' + b"x" * (LARGE - len(text) - 13) + b'"}'


def small(operator: hook_fixture.Operator, **changes: object) -> bytes:
    return json.dumps(operator.payload(**changes)).encode() + b" " * (LARGE // 80)


def written(process: subprocess.Popen[bytes], stdin: bytes) -> hook_fixture.Result:
    """How the run ended; the whole write succeeded before anything was read back."""
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    return hook_fixture.ended(process)


def nothing(_: hook_fixture.Operator) -> None:
    """The set-up stays as it is."""


@requirement("A-71", "A-04", "A-72")
@pytest.mark.parametrize(
    ("alter", "changes"),
    [
        (nothing, {}),
        (nothing, {"session_id": "another"}),
        (nothing, {"cwd": "/"}),
        (nothing, {"hook_event_name": "PreToolUse"}),
        (lambda operator: operator.config.unlink(), {}),
        (lambda operator: operator.config.chmod(0o644), {}),
        (lambda operator: operator.outbox.chmod(0o755), {}),
    ],
)
def test_eight_mebibytes_are_taken_whatever_is_wrong(
    tmp_path: Path, alter: Callable[[hook_fixture.Operator], object], changes: dict[str, object]
) -> None:
    operator = hook_fixture.Operator(tmp_path)
    alter(operator)
    assert written(operator.start(), large(operator, **changes)).reason == "input_too_large"
    assert operator.files() == set()


@requirement("A-71", "A-04")
@pytest.mark.parametrize(
    ("alter", "changes", "reason"),
    [
        (nothing, {"session_id": "another"}, "local_session_mismatch"),
        (nothing, {"cwd": "/"}, "project_root_mismatch"),
        (lambda operator: operator.config.chmod(0o644), {}, "private_regular_file_required"),
        (lambda operator: operator.outbox.chmod(0o755), {}, "private_state_directory_required"),
    ],
)
def test_payload_larger_than_a_pipe_is_taken_before_it_is_refused(
    tmp_path: Path, alter: Callable[[hook_fixture.Operator], object], changes: dict[str, object], reason: str
) -> None:
    operator = hook_fixture.Operator(tmp_path)
    alter(operator)
    stdin = small(operator, **changes)
    assert len(stdin) > 65_536
    assert written(operator.start(), stdin).reason == reason


@requirement("A-71", "A-04")
def test_eight_mebibytes_are_taken_with_both_locks_held_and_with_bad_arguments(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    with other_run.holding(operator.outbox / ".save"), other_run.holding(operator.outbox / ".lock"):
        assert written(operator.start(), large(operator)).reason == "input_too_large"
        assert written(operator.start(), small(operator)).reason == "adapter_busy_event_not_saved"
    assert written(operator.start("--no-such-flag"), large(operator)).reason == "invalid_arguments"


def peak_kib(process: subprocess.Popen[bytes]) -> int:
    """The most memory the process has held so far."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


@requirement("A-04", "A-06")
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system does not tell a process's peak"
)
def test_memory_stays_bounded_while_stdin_is_drained(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    process = operator.start()
    assert process.stdin is not None
    process.stdin.write(large(operator))
    process.stdin.flush()
    before = peak_kib(process)
    for _ in range(3):
        process.stdin.write(b"x" * LARGE)
        process.stdin.flush()
    assert peak_kib(process) - before < 1_024
    process.stdin.close()
    assert hook_fixture.ended(process).reason == "input_too_large"


@requirement("A-04")
def test_stdin_that_does_not_block_is_read_to_its_end(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                theirs.setblocking(False)
                process = operator.start(stdin=theirs.fileno())
            ours.sendall(json.dumps(operator.payload()).encode())
            ours.shutdown(socket.SHUT_WR)
            assert hook_fixture.ended(process).is_silent_success


@requirement("A-04", "A-05")
def test_closed_stdin_is_a_missing_document(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    shell = 'exec "$0" -I -S "$1" --config "$2" <&-'
    command = ["sh", "-c", shell, sys.executable, str(hook_fixture.HOOK), str(operator.config)]
    done = subprocess.run(command, capture_output=True, timeout=hook_fixture.RUN_S, check=False)
    assert hook_fixture.Result(done.returncode, done.stdout, done.stderr).reason == "invalid_hook_payload"
