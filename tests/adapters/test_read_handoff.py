"""The handoff reader as its operator runs it: a real process and a scripted Server (A-40 to A-42, A-104)."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.adapters import answers, checks, one_answer_peer
from tests.core import handoff_histories as made
from tests.requirements import requirement
from webcodex.core import handoff_facts

SCRIPT = checks.SCRIPTS / "read_handoff.py"
SECRET = "Bearer planted-secret-0123456789abcdef"
INTERPRETERS = ([sys.executable], [sys.executable, "-I"], [sys.executable, "-I", "-S"])
RUN_S = one_answer_peer.RUN_S
LIMIT = 131_072


@pytest.fixture
def peer() -> Iterator[one_answer_peer.Peer]:
    with one_answer_peer.serving() as scripted:
        yield scripted


@dataclass(frozen=True)
class Place:
    """A project with its operator's private files beside it."""

    root: Path
    config: Path
    authorization: Path
    state_dir: Path
    configuration: dict[str, str]

    def configure(self, **changed: str) -> None:
        _private(self.config, json.dumps(self.configuration | changed).encode())


def _private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


@pytest.fixture
def place(tmp_path: Path, peer: one_answer_peer.Peer) -> Place:
    root, private = tmp_path.resolve() / "project", tmp_path.resolve() / "private"
    root.mkdir()
    private.mkdir(mode=0o700)
    (private / "outbox").mkdir(mode=0o700)
    _private(private / "authorization", f"{SECRET}\n".encode())
    made_here = Place(
        root=root,
        config=private / "observation.json",
        authorization=private / "authorization",
        state_dir=private / "outbox",
        configuration={
            "server_url": peer.origin,
            "authorization_file": str(private / "authorization"),
            "project": made.PROJECT,
            "project_root": str(root),
            "workflow_session_id": made.SESSION_ID,
            "local_session_id": "local-fixture",
            "state_dir": str(private / "outbox"),
        },
    )
    made_here.configure()
    return made_here


def read(
    place: Place,
    *arguments: str,
    cwd: Path | None = None,
    interpreter: list[str] = INTERPRETERS[1],
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*interpreter, str(SCRIPT), *(arguments or ("--config", str(place.config)))],
        cwd=cwd or place.root,
        env=os.environ | (environment or {}),
        capture_output=True,
        timeout=RUN_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def assert_refused(run: subprocess.CompletedProcess[bytes], reason: str) -> None:
    assert (run.returncode, run.stdout) == (1, b"")
    assert run.stderr.count(b"\n") == 1
    assert json.loads(run.stderr) == {"status": "unavailable", "reason": reason}


@requirement("A-01", "A-03", "A-41", "A-42", "H-50")
@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_reader_prints_the_whole_handoff_and_writes_nothing(
    place: Place, peer: one_answer_peer.Peer, interpreter: list[str]
) -> None:
    whole = answers.answer()
    peer.answer = one_answer_peer.sized(answers.body(whole))
    before = sorted(place.root.parent.rglob("*"))
    run = read(place, interpreter=interpreter)
    assert (run.returncode, run.stderr) == (0, b"")
    shown = json.loads(run.stdout)
    assert list(shown) == sorted(shown)
    note = shown.pop("recovery_note")
    for word in ("Saved context only", "rules", "files", "Git status", "Jobs", "unknown operations"):
        assert word in note
    assert shown == {
        "status": "read",
        "project": made.PROJECT,
        "session_id": made.SESSION_ID,
        "handoff_brief": whole["output"]["handoff_brief"],
        "goal_context": whole["output"]["goal_context"],
        "acceptance": whole["output"]["acceptance"],
    }
    assert sorted(place.root.parent.rglob("*")) == before


@requirement("A-40", "A-19")
def test_reader_sends_one_request_for_exactly_the_configured_session(
    place: Place, peer: one_answer_peer.Peer
) -> None:
    peer.answer = one_answer_peer.sized(answers.body(answers.answer()))
    assert read(place).returncode == 0
    (request,) = peer.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /api/tools/call HTTP/1.1\r\n")
    assert f"Authorization: {SECRET}".encode() in head.split(b"\r\n")
    assert json.loads(body) == {
        "tool": "get_session_handoff_state",
        "params": {"project": made.PROJECT, "session_id": made.SESSION_ID},
    }


@requirement("A-41", "H-36")
def test_parts_that_the_server_did_not_send_are_absent(place: Place, peer: one_answer_peer.Peer) -> None:
    facts = made.facts(validation=handoff_facts.Missing.VALIDATION, workspace=made.missing.WORKSPACE)
    peer.answer = one_answer_peer.sized(answers.body(answers.answer(facts, goals=())))
    shown = json.loads(read(place).stdout)
    assert set(shown) == {"status", "project", "session_id", "handoff_brief", "recovery_note"}


@requirement("A-05", "A-84")
@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "cp932", "LC_ALL": "C"}, {"PYTHONUTF8": "0", "LANG": "POSIX"}],
)
def test_no_locale_changes_what_is_read(
    place: Place, peer: one_answer_peer.Peer, environment: dict[str, str]
) -> None:
    facts = made.facts(session=made.session(title="漢字 😀 é", latest_instruction="ß\u202e"))
    whole = answers.answer(facts)
    peer.answer = one_answer_peer.sized(answers.body(whole))
    run = read(place, interpreter=INTERPRETERS[0], environment=environment)
    assert run.returncode == 0
    assert run.stdout.isascii()
    assert json.loads(run.stdout)["handoff_brief"] == whole["output"]["handoff_brief"]


@requirement("A-40", "A-55", "A-104")
def test_reader_runs_only_inside_the_configured_project(place: Place, peer: one_answer_peer.Peer) -> None:
    peer.answer = one_answer_peer.sized(answers.body(answers.answer()))
    (place.root / ".git").mkdir()
    inside = place.root / "src" / "deep"
    inside.mkdir(parents=True)
    nested, worktree = place.root / "nested", place.root / "worktree"
    (nested / ".git").mkdir(parents=True)
    (nested / "src").mkdir()
    worktree.mkdir()
    (worktree / ".git").write_text("gitdir: elsewhere", encoding="utf-8")
    dangling = place.root / "dangling"
    dangling.mkdir()
    (dangling / ".git").symlink_to("nowhere")
    sibling = place.root.with_name("project-b")
    sibling.mkdir()
    for outside in (nested, nested / "src", worktree, dangling, sibling, place.root.parent):
        assert_refused(read(place, cwd=outside), "outside_configured_project")
    assert peer.requests == []
    assert read(place, cwd=inside).returncode == 0
    link = place.root.parent / "link"
    link.symlink_to(inside)
    assert read(place, cwd=link).returncode == 0


@requirement("A-40", "A-19")
@pytest.mark.parametrize("content", [b"", b" \n", b"a\nb", b"a\x00b", "é".encode()])
def test_unusable_authorization_is_refused_before_any_connection(
    place: Place, peer: one_answer_peer.Peer, content: bytes
) -> None:
    _private(place.authorization, content)
    assert_refused(read(place), "invalid_authorization_file")
    assert peer.requests == []


@requirement("A-21", "A-40")
def test_configuration_faults_keep_their_own_reasons(place: Place, peer: one_answer_peer.Peer) -> None:
    assert_refused(read(place, "--config", str(place.root / "none")), "private_regular_file_required")
    place.configure(extra="x")
    assert_refused(read(place), "invalid_config")
    place.configure(server_url="http://example.com")
    assert_refused(read(place), "https_or_loopback_origin_required")
    place.configure(state_dir=str(place.root / "state"))
    assert_refused(read(place), "configuration_and_state_must_be_outside_project")
    place.configure(project_root=str(place.root) + "/.")
    assert_refused(read(place), "canonical_project_root_required")
    place.configure()
    place.config.chmod(0o644)
    assert_refused(read(place), "private_regular_file_required")
    assert peer.requests == []


@requirement("A-03")
def test_arguments_and_help_never_end_in_two(place: Place) -> None:
    for arguments in (("--config",), ("--config", ""), ("--config", "a", "b"), ("--session", "x"), ("x",)):
        assert_refused(read(place, *arguments), "invalid_arguments")
    assert_refused(
        subprocess.run(
            [*INTERPRETERS[2], str(SCRIPT)], capture_output=True, timeout=RUN_S, check=False, cwd=place.root
        ),
        "invalid_arguments",
    )
    for flag in ("--help", "-h"):
        run = read(place, flag)
        assert (run.returncode, run.stderr) == (0, b"")
        assert run.stdout.startswith(b"usage: read_handoff.py --config PATH")


@requirement("A-19", "A-98")
@pytest.mark.parametrize("framed", [one_answer_peer.chunked, one_answer_peer.until_closed])
def test_each_framing_of_the_answer_is_read(
    place: Place, peer: one_answer_peer.Peer, framed: Callable[[bytes], bytes]
) -> None:
    peer.answer = framed(answers.body(answers.answer()))
    assert read(place).returncode == 0


def _padded(size: int) -> bytes:
    whole = answers.answer() | {"padding": ""}
    return answers.body(whole | {"padding": "x" * (size - len(answers.body(whole)))})


BREACHES = [
    ("output.project", "agent:r1:other", "handoff_identity_mismatch"),
    ("output.handoff_brief.session.session_id", "wc_sess_other", "handoff_identity_mismatch"),
    ("output.handoff_brief.basis", None, "handoff_basis_missing"),
    ("output.handoff_brief.basis.complete", True, "handoff_basis_missing"),
    ("output.handoff_brief.external_observations", ..., "handoff_external_observations_missing"),
    ("output.handoff_brief.llm_summary", True, "handoff_contract_invalid"),
    ("output.handoff_brief.deterministic", False, "handoff_contract_invalid"),
    ("output.handoff_brief.note", "x" * 9000, "handoff_contract_invalid"),
    ("output.goal_context.goal", None, "handoff_goal_context_invalid"),
    ("output.acceptance", None, "handoff_acceptance_invalid"),
    ("output.acceptance.state", SECRET, "handoff_acceptance_invalid"),
    ("success", False, "handoff_read_failed"),
    ("output", SECRET, "handoff_read_failed"),
]


@requirement("A-40", "A-104", "A-108", "H-36")
@pytest.mark.parametrize(("where", "value", "reason"), BREACHES)
def test_hostile_answer_is_refused_with_its_word_and_not_shown(
    place: Place, peer: one_answer_peer.Peer, where: str, value: object, reason: str
) -> None:
    whole = answers.broken(answers.answer(), where, value)
    peer.answer = one_answer_peer.sized(answers.body(whole | {"planted": SECRET}))
    assert_refused(read(place), reason)


@requirement("A-06", "A-40", "A-98", "A-104", "A-107", "A-108")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (one_answer_peer.sized(_padded(LIMIT + 1)), "oversized_handoff_response"),
        (one_answer_peer.until_closed(_padded(LIMIT + 1)), "oversized_handoff_response"),
        (one_answer_peer.sized(b"x" * (LIMIT + 1), "500 Oops"), "oversized_handoff_response"),
        (one_answer_peer.sized(SECRET.encode()), "handoff_read_unconfirmed"),
        (one_answer_peer.sized(b'["handoff"]'), "handoff_read_unconfirmed"),
        (one_answer_peer.sized(b"[" * LIMIT), "handoff_read_unconfirmed"),
        (one_answer_peer.sized(answers.body(answers.answer()), "500 Oops"), "handoff_read_unconfirmed"),
        (
            one_answer_peer.sized(answers.body(answers.answer()), "307 Moved", "Location: /x\r\n"),
            "handoff_read_unconfirmed",
        ),
        (
            one_answer_peer.sized(b'{"status":400,"error":"Unknown tool"}', "400 Bad"),
            "handoff_read_unconfirmed",
        ),
        (
            one_answer_peer.sized(b'{"success":false,"output":{"error_kind":"unknown_project"}}', "400 Bad"),
            "handoff_read_failed",
        ),
        (one_answer_peer.sized(b'{"error":"Unauthorized"}', "401 No"), "handoff_read_unconfirmed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "handoff_read_unconfirmed"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000 + b"\r\n\r\n{}", "handoff_read_unconfirmed"),
        (b"SSH-2.0-x\r\n\r\n", "handoff_read_unconfirmed"),
        (b"", "handoff_read_unconfirmed"),
    ],
)
def test_answer_that_is_no_handoff_is_refused_with_its_word(
    place: Place, peer: one_answer_peer.Peer, answer: bytes, reason: str
) -> None:
    peer.answer = answer
    assert_refused(read(place), reason)
    assert len(peer.requests) == 1


@requirement("A-06", "A-40")
def test_answer_at_the_limit_is_read(place: Place, peer: one_answer_peer.Peer) -> None:
    peer.answer = one_answer_peer.sized(_padded(LIMIT))
    assert read(place).returncode == 0


@requirement("A-40")
def test_server_that_is_away_is_unconfirmed(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    place.configure(server_url=f"http://127.0.0.1:{port}")
    assert_refused(read(place), "handoff_read_unconfirmed")


HURRIED = """
import sys
sys.path.insert(0, sys.argv[1])
from adapter_kit import handoff_read, handoff_run
assert handoff_read.SECONDS == 6.0
handoff_read.SECONDS = 0.5
handoff_run.run(sys.argv[2:])
"""


@requirement("A-20", "A-40", "A-82")
def test_server_that_never_answers_ends_at_the_deadline(place: Place, peer: one_answer_peer.Peer) -> None:
    peer.is_silent = True
    command = [sys.executable, "-I", "-S", "-c", HURRIED, str(SCRIPT.parent), "--config", str(place.config)]
    assert_refused(
        subprocess.run(command, cwd=place.root, capture_output=True, timeout=RUN_S, check=False),
        "handoff_read_unconfirmed",
    )
    assert len(peer.requests) == 1


@requirement("A-03")
def test_signal_ends_the_run_visibly_with_one(place: Place, peer: one_answer_peer.Peer) -> None:
    peer.is_silent = True
    with subprocess.Popen(
        [*INTERPRETERS[1], str(SCRIPT), "--config", str(place.config)],
        cwd=place.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as started:
        assert peer.asked.wait(RUN_S)
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=RUN_S)
    assert (started.returncode, out) == (1, b"")
    assert json.loads(err) == {"status": "unavailable", "reason": "handoff_read_unconfirmed"}


@requirement("A-02", "A-99")
def test_environment_gives_no_identity(place: Place, peer: one_answer_peer.Peer) -> None:
    peer.answer = one_answer_peer.sized(answers.body(answers.answer()))
    hostile = {
        "CODEX_SESSION_ID": "other",
        "WEBCODEX_SESSION_ID": "wc_sess_other",
        "PYTHONPATH": str(place.root),
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    (place.root / "json.py").write_text("raise SystemExit(2)\n", encoding="utf-8")
    assert read(place, environment=hostile).returncode == 0
