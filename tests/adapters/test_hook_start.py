"""What a hot run of the hook loads, and what it must never load (A-01, A-81)."""

import json
import subprocess
import sys
from pathlib import Path

from tests.adapters import hook_fixture, peer
from tests.requirements import requirement

TRACED = Path(__file__).with_name("traced_imports.py")
KIT = {
    "adapter_kit",
    "adapter_kit.config",
    "adapter_kit.json_text",
    "adapter_kit.limits",
    "adapter_kit.observation_run",
    "adapter_kit.outbox",
    "adapter_kit.paths",
    "adapter_kit.private_files",
    "adapter_kit.private_files_posix",
    "adapter_kit.process",
    "adapter_kit.refusal",
    "adapter_kit.reports",
    "adapter_kit.server_client",
}
HASHES = {"_sha2", "_sha256"}
NATIVE = {"_json", "_socket", "fcntl", "gc"}
NEVER = {"asyncio", "ctypes", "http.client", "sqlite3", "ssl", "subprocess", "urllib", "urllib.request"}


def loaded(operator: hook_fixture.Operator, stdin: bytes, *verb: str) -> tuple[hook_fixture.Result, set[str]]:
    operator.trace.unlink(missing_ok=True)
    process = operator.start(*verb, before=(str(TRACED), str(operator.trace)))
    out, err = process.communicate(stdin, timeout=hook_fixture.RUN_S)
    return hook_fixture.Result(process.returncode, out, err), set(operator.effects())


def without_imports(*names: str) -> str:
    """A program that runs the hook as an interpreter would that lacks these modules."""
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in names)
    return (
        f"import sys; {blocked}; script = sys.argv[1]; sys.argv = sys.argv[1:]; "
        "exec(compile(open(script).read(), script, 'exec'), {'__name__': '__main__', '__file__': script})"
    )


@requirement("A-81", "A-01")
def test_hot_run_loads_the_kit_and_five_modules_of_the_interpreter(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        result, names = loaded(operator, json.dumps(operator.payload()).encode())
    assert result.is_silent_success
    assert names - HASHES == KIT | NATIVE
    assert len(names & HASHES) == 1


@requirement("A-81", "A-01", "A-02")
def test_no_verb_loads_what_an_adapter_must_not_have(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path, peer.dead_origin())
    stdin = json.dumps(operator.payload()).encode()
    runs = [
        ((), b"{"),
        ((), stdin),
        (("--flush",), b""),
        (("--flush", "--set-aside"), b""),
        (("--status",), b""),
        (("--print-registration",), b""),
    ]
    for verb, given in runs:
        _, names = loaded(operator, given, *verb)
        assert not names & NEVER, verb


@requirement("A-01", "A-05", "A-26")
def test_interpreter_without_the_fast_modules_does_the_same(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        program = without_imports("_json", "_sha2", "_sha256")
        command = [sys.executable, "-I", "-S", "-c", program, str(hook_fixture.HOOK)]
        for payload, reason in (
            (operator.payload("七\ud800"), "missing_tool_identity"),
            (operator.payload("七"), ""),
        ):
            done = subprocess.run(
                [*command, "--config", str(operator.config)],
                input=json.dumps(payload).encode(),
                capture_output=True,
                check=False,
            )
            result = hook_fixture.Result(done.returncode, done.stdout, done.stderr)
            assert result.reason == reason if reason else result.is_silent_success
    assert server.requests[0].event == operator.event("七")
