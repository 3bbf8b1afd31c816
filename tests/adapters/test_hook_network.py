"""The hook on the wire: one deadline whatever the peer does, and one peer only (A-18 to A-20)."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.adapters import hook_fixture, peer
from tests.requirements import requirement

LATE = "pending_delivery_deadline"
UNCONFIRMED = "recording_unconfirmed_check_pending_state"
STALLED = Path(__file__).with_name("stalled_lookup.py")
# A host may start a hook with the timer's signal blocked and ignored.
DEAFENED = """
import os, signal, sys
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
os.execv(sys.executable, [sys.executable, "-I", "-S", *sys.argv[1:]])
"""
UNCLOSED: dict[str, tuple[str, ...]] = {"open": ()}
if sys.platform != "win32":
    UNCLOSED["deaf"] = ("-c", DEAFENED)


def started(operator: hook_fixture.Operator, *before: str) -> subprocess.Popen[bytes]:
    """A run that has its payload."""
    process = operator.start(before=before)
    assert process.stdin is not None
    process.stdin.write(json.dumps(operator.payload()).encode())
    process.stdin.close()
    return process


@requirement("A-20", "A-81", "A-82", "A-31", "A-95", "A-04", "A-71")
def test_no_run_outlives_its_one_deadline(tmp_path: Path) -> None:
    """In parallel: silent, dripping, unreachable peers, a stalled lookup, a writer that never closes."""
    with ExitStack() as stack:
        silent = stack.enter_context(peer.Peer(default=peer.silent))
        dripping = stack.enter_context(peer.Peer(default=peer.dripping))
        origins = {
            "silent": silent.origin,
            "dripping": dripping.origin,
            "unreachable": stack.enter_context(peer.black_hole()),
            "handshake": silent.origin.replace("http", "https"),
            "lookup": "https://webcodex.example.com",
            "open": peer.dead_origin(),
            "deaf": peer.dead_origin(),
        }
        if "deaf" not in UNCLOSED:
            del origins["deaf"]
        operators = {}
        for name, origin in origins.items():
            (tmp_path / name).mkdir()
            operators[name] = hook_fixture.Operator(tmp_path / name, origin)
        operators["silent"].save("other")
        runs = {
            name: started(operator, *([str(STALLED)] if name == "lookup" else []))
            for name, operator in operators.items()
            if name not in UNCLOSED
        }
        unclosed = {name: operators[name].start(before=UNCLOSED[name]) for name in UNCLOSED}
        for name, process in unclosed.items():
            assert process.stdin is not None
            process.stdin.write(json.dumps(operators[name].payload()).encode())
            process.stdin.flush()
        for name, run in runs.items():
            result = hook_fixture.ended(run)
            left = {"pending": 2} if name == "silent" else {"pending": 1}
            assert (result.reason, result.counts) == (LATE, left), name
        for name, process in unclosed.items():
            assert hook_fixture.ended(process).reason == "invalid_hook_payload", name
            assert process.stdin is not None
            process.stdin.close()
            assert operators[name].files() == set()
        assert (len(silent.requests), len(dripping.requests)) == (1, 1)


@requirement("A-81", "A-82", "A-95", "A-03")
def test_dead_server_leaves_the_report_pending_at_once(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path, peer.dead_origin())
    operator.save("other")
    result = operator.hook()
    assert (result.reason, result.counts) == (UNCONFIRMED, {"pending": 2})


@requirement("A-19", "A-98")
@pytest.mark.parametrize("answer", [peer.chunked, peer.close_delimited, peer.interim])
def test_every_framing_of_an_acknowledgement_is_read(tmp_path: Path, answer: peer.Answer) -> None:
    with peer.Peer(answer) as server:
        assert hook_fixture.Operator(tmp_path, server.origin).hook().is_silent_success


@requirement("A-19", "A-79", "A-98")
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirect_is_a_failure_and_its_target_hears_nothing(tmp_path: Path, code: int) -> None:
    with peer.Peer() as target:
        redirect = peer.status(code, b"", f"Location: {target.origin}/api/tools/call")
        with peer.Peer(default=redirect) as server:
            result = hook_fixture.Operator(tmp_path, server.origin).hook()
        assert (result.reason, result.counts, target.connections) == (UNCONFIRMED, {"pending": 1}, 0)


@requirement("A-18", "A-98")
def test_proxy_settings_and_netrc_are_not_used(tmp_path: Path) -> None:
    with peer.Peer() as server, peer.Peer() as proxy:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        hook_fixture.private(tmp_path / ".netrc", b"machine 127.0.0.1 login planted password planted")
        names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY")
        env = dict.fromkeys(names, proxy.origin) | {"HOME": str(tmp_path), "NO_PROXY": ""}
        assert operator.run(json.dumps(operator.payload()).encode(), env=env).is_silent_success
        assert (len(server.requests), proxy.connections) == (1, 0)
    assert f"Authorization: {hook_fixture.SECRET}\r\n".encode() in server.requests[0].head


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@requirement("A-18", "A-19", "A-98")
def test_localhost_is_this_machine_without_a_lookup(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, f"http://localhost:{server.port}")
        process = started(operator, str(STALLED))
        assert hook_fixture.ended(process).is_silent_success
    assert f"\r\nHost: localhost:{server.port}\r\n".encode() in server.requests[0].head


@requirement("A-18", "A-19")
@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
def test_localhost_is_tried_over_ipv6_when_ipv4_refuses(tmp_path: Path) -> None:
    with peer.Peer(host="::1") as server:
        for name, host in (("name", "localhost"), ("address", "[::1]")):
            (tmp_path / name).mkdir()
            operator = hook_fixture.Operator(tmp_path / name, f"http://{host}:{server.port}")
            assert operator.hook().is_silent_success
    assert f"\r\nHost: [::1]:{server.port}\r\n".encode() in server.requests[1].head


@requirement("A-03", "A-36", "A-72")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1"])
def test_signal_while_the_server_is_asked_ends_the_run_visibly(tmp_path: Path, name: str) -> None:
    gate = peer.Gate(peer.Store())
    with peer.Peer(gate) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        process = started(operator)
        assert gate.reached.wait(peer.WAIT_S)
        process.send_signal(getattr(signal, name))
        result = hook_fixture.ended(process)
        gate.opened.set()
        assert (result.reason, result.counts) == (UNCONFIRMED, {"pending": 1})
        assert operator.hook().is_silent_success


@requirement("A-03", "A-72")
def test_signal_while_stdin_is_read_ends_the_run_visibly(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    process = operator.start()
    assert process.stdin is not None
    process.stdin.write(b" " * 1_024 * 1_024)  # taken only by a run that is reading
    process.stdin.flush()
    process.send_signal(signal.SIGTERM)
    assert hook_fixture.ended(process).reason == UNCONFIRMED
    process.stdin.close()


@requirement("A-03", "A-01")
def test_script_without_its_kit_ends_visibly_and_without_a_traceback(tmp_path: Path) -> None:
    alone = tmp_path / "external_observation_hook.py"
    alone.write_bytes(hook_fixture.HOOK.read_bytes())
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(alone)], capture_output=True, check=False, input=b"{}"
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert json.loads(done.stderr)["reason"] == UNCONFIRMED


@requirement("A-03")
@pytest.mark.parametrize(("closing", "code"), [("2>&-", 1), (">&- 2>&-", 1)])
def test_closed_output_never_ends_up_in_a_private_file(tmp_path: Path, closing: str, code: int) -> None:
    operator = hook_fixture.Operator(tmp_path, peer.dead_origin())
    command = ["sh", "-c", f'exec "$0" -I -S "$1" --config "$2" {closing}', sys.executable]
    command += [str(hook_fixture.HOOK), str(operator.config)]
    done = subprocess.run(command, input=json.dumps(operator.payload()).encode(), check=False)
    assert done.returncode == code
    contents = {entry.name: entry.read_bytes() for entry in operator.outbox.iterdir()}
    assert contents == {".save": b"", ".lock": b"", **operator.pending()}
    json.loads(operator.pending()[operator.file_name("call-one")])


@requirement("A-03", "A-22", "A-72")
@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--config",),
        ("--config", ""),
        ("--config", "--flush"),
        ("--flush",),
        ("--set-aside",),
        ("--config", "CONFIG", "--set-aside"),
        ("--config", "CONFIG", "--flush", "--status"),
        ("--config", "CONFIG", "--flush", "--flush"),
        ("--config", "CONFIG", "--config", "CONFIG"),
        ("--config", "CONFIG", "extra"),
        ("--config", "CONFIG", "--Flush"),
    ],
)
def test_other_arguments_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    operator = hook_fixture.Operator(tmp_path)
    given = [str(operator.config) if argument == "CONFIG" else argument for argument in arguments]
    command = [sys.executable, "-I", "-S", str(hook_fixture.HOOK), *given]
    done = subprocess.run(command, capture_output=True, input=b"{}", check=False)
    assert hook_fixture.Result(done.returncode, done.stdout, done.stderr).reason == "invalid_arguments"


@requirement("A-03")
def test_help_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, str(hook_fixture.HOOK), "--help"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    for flag in (b"--config", b"--flush", b"--set-aside", b"--status", b"--print-registration"):
        assert flag in done.stdout


@requirement("A-21", "A-10", "A-11", "A-12", "A-16", "A-101", "A-34")
@pytest.mark.parametrize(
    ("alter", "reason"),
    [
        (lambda operator: operator.config.chmod(0o400), "private_regular_file_required"),
        (lambda operator: operator.config.unlink(), "private_regular_file_required"),
        (lambda operator: hook_fixture.private(operator.config, b" " * 131_073), "input_too_large"),
        (lambda operator: operator.outbox.chmod(0o500), "private_state_directory_required"),
        (
            lambda operator: operator.outbox.rename(operator.private / "gone"),
            "private_state_directory_required",
        ),
        (lambda operator: (operator.outbox / ".lock").mkdir(), "invalid_lock"),
        (lambda operator: (operator.outbox / ".lock").symlink_to("/nowhere"), "invalid_lock"),
        (lambda operator: (operator.outbox / ".lock").touch(mode=0o640), "invalid_lock"),
    ],
)
def test_every_verb_refuses_what_is_not_private(
    tmp_path: Path, alter: Callable[[hook_fixture.Operator], object], reason: str
) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        alter(operator)
        assert operator.hook().reason == reason
        assert operator.flush().reason == reason
        assert server.connections == 0
    if reason != "invalid_lock":
        assert operator.run(b"", "--status").reason == reason


@requirement("A-12", "A-16", "A-30")
def test_bad_save_lock_saves_nothing(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    (operator.outbox / ".save").write_bytes(b"")
    (operator.outbox / ".save").chmod(0o644)
    result = operator.hook()
    assert (result.reason, result.counts, operator.files()) == ("invalid_lock", {}, set())
