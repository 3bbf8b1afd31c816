"""What the observation hook takes from a payload, and what it refuses (A-03 to A-05, A-22 to A-26)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adapters import hook_fixture, kit, peer
from tests.requirements import requirement

LIMIT = 131_072
ENCODINGS = (
    {"PYTHONIOENCODING": "cp932"},
    {"LC_ALL": "C", "LANG": "C"},
    {"PYTHONUTF8": "0", "LC_ALL": "C.UTF-8"},
)


def without(payload: dict[str, object], key: str) -> bytes:
    return json.dumps({name: value for name, value in payload.items() if name != key}).encode()


@requirement("A-25", "A-26")
def test_published_vectors_are_reproduced() -> None:
    config = kit.config.Config(
        server_url="http://127.0.0.1:12345",
        authorization_file="/a",
        project="agent:fixture:project",
        project_root="/tmp/x/project",
        workflow_session_id="wc_sess_fixture",
        local_session_id="local-fixture",
        state_dir="/s",
    )
    payload: dict[str, object] = {
        "session_id": "local-fixture",
        "cwd": "/tmp/x/project",
        "tool_use_id": "call-one",
        "tool_name": "Bash",
    }
    event = kit.reports.reported(payload, config)
    bound_to = kit.reports.association(config)
    assert event["adapter_id"] == "9a5a23deda42b9d92b066409636f2b68d4773daf54984ca915b44f25b8e6c32f"
    assert event["event_id"] == "2ec81071d3501c2817b48e7fcb748d66a545b170e30f9cf318860b252bd08ef7"
    assert bound_to == "81ae10fc4d06342b9c832b40e7d10ca0ab953f5de6177f966ca193a0f4cd8819"
    assert (
        kit.reports.file_name(bound_to, str(event["event_id"]))
        == "18742ba9fb86a3a43f3441dd05878552b5a79f62c798cda9b5f88a39691d1159.json"
    )
    assert (
        kit.reports.stored(bound_to, event)
        == (
            f'{{"association": "{bound_to}", "event": {{"adapter_id": "{event["adapter_id"]}", '
            f'"event_id": "{event["event_id"]}", "exit_code": null, "observed_tool": "Bash", '
            '"project": "agent:fixture:project", "session_id": "wc_sess_fixture"}}'
        ).encode()
    )


@requirement("A-22", "A-24", "A-26", "A-70")
def test_report_is_kept_with_an_unknown_outcome_and_nothing_of_the_call(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    result = operator.hook(
        "call-七", tool_response="Exit code: 1\nfailed", exit_code=1, tool_name="apply_patch"
    )
    assert result.reason == "recording_unconfirmed_check_pending_state"
    kept = operator.content("call-七", observed_tool="apply_patch")
    assert operator.pending() == {operator.file_name("call-七"): json.dumps(kept, sort_keys=True).encode()}
    assert kept["event"]["exit_code"] is None


@requirement("A-19", "A-24", "O-01")
def test_acknowledged_report_is_sent_once_in_full_and_leaves_nothing(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        assert operator.hook().is_silent_success
    (request,) = server.requests
    assert json.loads(request.body) == {
        "tool": "record_external_observation",
        "params": operator.event("call-one"),
    }
    assert request.head.split(b"\r\n") == [
        b"POST /api/tools/call HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}".encode(),
        f"Content-Length: {len(request.body)}".encode(),
        b"Content-Type: application/json",
        f"Authorization: {hook_fixture.SECRET}".encode(),
        b"Connection: close",
    ]
    assert operator.files() == set()


@requirement("A-01", "A-03")
@pytest.mark.parametrize("flags", [(), ("-I",), ("-I", "-S")])
def test_hook_runs_the_same_however_the_interpreter_is_started(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        result = operator.run(json.dumps(operator.payload()).encode(), flags=flags)
    assert result.is_silent_success
    assert len(server.store.rows) == 1


@requirement("A-23", "A-72")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hook_event_name": 1}, "invalid_hook_payload"),
        ({"session_id": "another"}, "local_session_mismatch"),
        ({"session_id": None}, "local_session_mismatch"),
        ({"cwd": "project"}, "project_root_mismatch"),
        ({"cwd": "/"}, "project_root_mismatch"),
        ({"cwd": 7}, "project_root_mismatch"),
        ({"cwd": "/\0"}, "project_root_mismatch"),
        ({"cwd": "/\udcff"}, "project_root_mismatch"),
        ({"tool_use_id": ""}, "missing_tool_identity"),
        ({"tool_use_id": "x" * 257}, "missing_tool_identity"),
        ({"tool_use_id": "a\0b"}, "missing_tool_identity"),
        ({"tool_use_id": "\ud800"}, "missing_tool_identity"),
        ({"tool_use_id": 5}, "missing_tool_identity"),
        ({"tool_name": ""}, "invalid_tool_name"),
        ({"tool_name": "x" * 65}, "invalid_tool_name"),
        ({"tool_name": "two words"}, "invalid_tool_name"),
        ({"tool_name": "名"}, "invalid_tool_name"),
        ({"tool_name": None}, "invalid_tool_name"),
        ({"session_id": "another", "cwd": 7, "tool_use_id": "", "tool_name": ""}, "local_session_mismatch"),
        ({"cwd": 7, "tool_use_id": "", "tool_name": ""}, "project_root_mismatch"),
        ({"tool_use_id": "", "tool_name": ""}, "missing_tool_identity"),
    ],
)
def test_payload_is_refused_for_the_first_check_it_fails(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        result = operator.hook(**change)
    assert (result.reason, result.counts) == (reason, {})
    assert (server.connections, operator.files()) == (0, set())
    assert not (operator.outbox / ".save").exists()


@requirement("A-23", "A-04")
@pytest.mark.parametrize("key", ["hook_event_name", "session_id", "cwd", "tool_use_id", "tool_name"])
def test_payload_without_an_identity_field_is_refused(tmp_path: Path, key: str) -> None:
    operator = hook_fixture.Operator(tmp_path)
    reasons = {
        "hook_event_name": "invalid_hook_payload",
        "session_id": "local_session_mismatch",
        "cwd": "project_root_mismatch",
        "tool_use_id": "missing_tool_identity",
        "tool_name": "invalid_tool_name",
    }
    assert operator.run(without(operator.payload(), key)).reason == reasons[key]
    assert operator.files() == set()


@requirement("A-23")
def test_longest_identity_and_every_tool_character_are_taken(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        assert operator.hook("名" * 256, tool_name="mcp__web.codex:echo-1").is_silent_success
    assert server.events == [operator.event("名" * 256)["event_id"]]


@requirement("A-23", "A-34", "A-80")
@pytest.mark.parametrize("name", ["PreToolUse", "SessionStart", "posttooluse", ""])
def test_another_event_is_ignored_before_the_configuration_is_read(tmp_path: Path, name: str) -> None:
    operator = hook_fixture.Operator(tmp_path)
    operator.config.chmod(0o644)
    assert operator.hook(hook_event_name=name).is_silent_success


@requirement("A-05", "A-23", "A-85")
@pytest.mark.parametrize(
    "stdin",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"a":',
        b'{"a":1} x',
        b"\xff",
        b'{"a":"\x01"}',
        b'{"a":NaN}',
        b"[" * 100_000,
    ],
)
def test_input_that_is_no_json_object_is_refused(tmp_path: Path, stdin: bytes) -> None:
    operator = hook_fixture.Operator(tmp_path)
    assert operator.run(stdin).reason == "invalid_hook_payload"


@requirement("A-05", "A-84")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp932"])
def test_document_that_is_not_plain_utf8_is_refused(tmp_path: Path, encoding: str) -> None:
    operator = hook_fixture.Operator(tmp_path)
    text = json.dumps(operator.payload("呼び出し"), ensure_ascii=False)
    assert operator.run(text.encode(encoding)).reason == "invalid_hook_payload"
    assert operator.files() == set()


@requirement("A-83", "A-23")
@pytest.mark.parametrize(("size", "is_taken"), [(LIMIT - 1, True), (LIMIT, True), (LIMIT + 1, False)])
def test_payload_up_to_the_limit_is_taken_and_one_byte_more_is_not(
    tmp_path: Path, size: int, *, is_taken: bool
) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        head = json.dumps(operator.payload(tool_response="")).encode()
        at = head.index(b'"tool_response": "') + len(b'"tool_response": "')
        filler = ("\u4e00".encode() * size)[: size - len(head)]
        filler = filler.decode(errors="ignore").encode().ljust(size - len(head), b".")
        stdin = head[:at] + filler + head[at:]
        assert len(stdin) == size
        result = operator.run(stdin)
    if is_taken:
        assert result.is_silent_success
    else:
        assert (result.reason, operator.files()) == ("input_too_large", set())
    assert len(server.requests) == is_taken


@requirement("A-83", "A-04")
def test_payload_written_byte_by_byte_is_taken_whole(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        process = operator.start()
        assert process.stdin is not None
        for byte in json.dumps(operator.payload("七"), ensure_ascii=False).encode():
            process.stdin.write(bytes([byte]))
            process.stdin.flush()
        out, err = process.communicate(timeout=hook_fixture.RUN_S)
    assert hook_fixture.Result(process.returncode, out, err).is_silent_success
    assert server.events == [operator.event("七")["event_id"]]


@requirement("A-84", "A-05", "A-99")
@pytest.mark.parametrize("env", ENCODINGS, ids=lambda env: next(iter(env)))
def test_locale_of_the_host_changes_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    place = tmp_path / "プロジェクト😀"
    place.mkdir()
    with peer.Peer() as server:
        operator = hook_fixture.Operator(place, server.origin)
        stdin = json.dumps(operator.payload("呼び出し😀"), ensure_ascii=False).encode()
        assert operator.run(stdin, env=env).is_silent_success
        assert operator.run(stdin.replace(b"Bash", "名".encode()), env=env).reason == "invalid_tool_name"
    assert server.events == [operator.event("呼び出し😀")["event_id"]]


@requirement("A-85", "A-03", "A-108")
def test_cut_and_garbled_payloads_never_act_and_never_leave_a_traceback(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    whole = json.dumps(operator.payload(tool_input="planted-input"), ensure_ascii=False).encode()

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(
        at=st.integers(0, len(whole) - 1),
        junk=st.sampled_from([b"", b"\xff\xfe", b"\x80", "�".encode(), b"\0", b'"', b"\\"]),
    )
    def garble(at: int, junk: bytes) -> None:
        result = operator.run(whole[:at] + junk)
        assert result.reason == "invalid_hook_payload"
        assert b"planted" not in result.err
        assert operator.files() == set()

    garble()


@requirement("A-66", "A-75", "A-90")
def test_another_conversation_is_not_reported_and_says_so(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("earlier")
        result = operator.hook(session_id="resumed-conversation")
        assert (result.reason, result.counts) == ("local_session_mismatch", {"pending": 1})
        assert (server.connections, list(operator.pending())) == (0, [operator.file_name("earlier")])
        operator.configure(local_session_id="resumed-conversation")
        left = operator.hook("next", session_id="resumed-conversation")
        assert (left.reason, left.counts) == (
            "pending_association_mismatch",
            {"acknowledged": 1, "skipped": 1},
        )
        operator.configure(local_session_id=hook_fixture.LOCAL)
        assert json.loads(operator.flush().out) == {"status": "recorded", "acknowledged": 1}


@requirement("A-67", "A-91")
def test_subagent_call_is_reported_under_the_root_conversation(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        assert operator.hook("root").is_silent_success
        assert operator.hook("sub", agent_id="worker", agent_type="Explore").is_silent_success
    root, sub = (request.event for request in server.requests)
    assert root["adapter_id"] == sub["adapter_id"]
    assert (root["event_id"], sub["event_id"]) == tuple(
        operator.event(call)["event_id"] for call in ("root", "sub")
    )


@requirement("A-02", "A-99")
def test_environment_gives_neither_identity_nor_code(tmp_path: Path) -> None:
    (tmp_path / "posix.py").write_text("raise SystemExit(7)")
    (tmp_path / "adapter_kit.py").write_text("raise SystemExit(7)")
    env: dict[str, Any] = dict.fromkeys(("CODEX_SESSION_ID", "CODEX_HOME", "WEBCODEX_SESSION_ID"), "planted")
    env |= {
        "PYTHONPATH": str(tmp_path),
        "PYTHONSTARTUP": str(tmp_path / "posix.py"),
        "WEBCODEX_TOKEN": "planted",
    }
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        assert operator.run(json.dumps(operator.payload()).encode(), env=env).is_silent_success
    assert server.requests[0].event == operator.event("call-one")
    assert b"planted-authorization" in server.requests[0].head
    assert b"planted\r\n" not in server.requests[0].head
