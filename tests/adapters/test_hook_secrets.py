"""Planted secrets appear nowhere but in the one header they are for (A-06, A-108)."""

from pathlib import Path

from tests.adapters import hook_fixture, peer
from tests.requirements import requirement

PLANTED = b"planted"


@requirement("A-108", "A-06", "A-24", "A-70")
def test_no_output_and_no_file_holds_a_secret(tmp_path: Path) -> None:
    """Authorization, tool input, tool output and the Server's body, through every verb and every outcome."""
    body = {"success": False, "output": {"error_kind": "session_closed", "detail": "planted-body"}}
    script = [
        peer.altered(lambda result: result["output"].update(note="planted-body", project="planted-body")),
        peer.status(200, b"planted-body"),
        peer.status(500, b"planted-body", "X-Note: planted-header"),
        peer.raw(b"planted-body\r\n\r\n"),
        peer.status(200, b"planted-body" * 20_000),
    ]
    outputs = b""
    with peer.Peer(*script, default=peer.status(400, body)) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        for number in range(len(script) + 1):
            result = operator.hook(
                f"call-{number}",
                tool_input={"command": "planted-input"},
                tool_response="planted-output",
                transcript_path="/planted-path",
            )
            outputs += result.out + result.err
        outputs += operator.hook("x", session_id="planted-conversation").err
        outputs += operator.hook("x", tool_name="planted name").err
        outputs += operator.run(b'{"planted": ').err
        for verb in (("--flush",), ("--status",), ("--flush", "--set-aside"), ("--flush",), ("--status",)):
            result = operator.run(b"", *verb)
            outputs += result.out + result.err
        hook_fixture.private(operator.authorization, b"planted\nplanted")
        outputs += operator.hook("last").err
        assert all(hook_fixture.SECRET.encode() in request.head for request in server.requests)
        assert not any(PLANTED in request.body for request in server.requests)
    assert operator.rejected()
    assert PLANTED not in outputs
    assert b"http" not in outputs
    assert str(tmp_path).encode() not in outputs
    for file in operator.outbox.rglob("*"):
        assert file.is_dir() or PLANTED not in file.read_bytes(), file.name
