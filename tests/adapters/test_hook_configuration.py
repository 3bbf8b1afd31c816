"""Which configurations the hook accepts, in the order of A-21, and which directories it calls the project."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters import hook_fixture, kit, peer
from tests.requirements import requirement

LATER_FAULTS = {"project_root": "relative", "state_dir": "relative", "server_url": "ftp://x"}


def flush_reason(operator: hook_fixture.Operator) -> str:
    return operator.flush().reason


def change(**fields: object) -> Callable[[hook_fixture.Operator], object]:
    return lambda operator: operator.configure(**fields)


def rewrite(content: bytes) -> Callable[[hook_fixture.Operator], object]:
    return lambda operator: hook_fixture.private(operator.config, content)


def drop_key(operator: hook_fixture.Operator) -> None:
    del operator.stored["state_dir"]
    operator.configure()


@requirement("A-21")
@pytest.mark.parametrize(
    "alter",
    [
        rewrite(b"not json"),
        rewrite(b"[]"),
        rewrite(b"\xef\xbb\xbf{}"),
        drop_key,
        change(extra="x"),
        change(local_session_id=""),
        change(local_session_id=5),
        change(local_session_id="a\0b"),
        change(local_session_id="\ud800"),
        change(workflow_session_id="wc_sess_"),
        change(workflow_session_id="wc_sess_" + "x" * 129),
        change(workflow_session_id="wc_sess_a b"),
        change(workflow_session_id="~s1"),
        change(project="my-project"),
        change(project="~p1", **LATER_FAULTS),
    ],
)
def test_configuration_of_another_shape_is_refused(
    tmp_path: Path, alter: Callable[[hook_fixture.Operator], object]
) -> None:
    operator = hook_fixture.Operator(tmp_path)
    alter(operator)
    assert flush_reason(operator) == "invalid_config"


@requirement("A-21", "S-01")
def test_longest_session_id_is_accepted(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path, workflow_session_id="wc_sess_" + "-_Az09xy" * 16)
    assert operator.flush().code == 0


@requirement("A-21", "A-97", "A-96")
def test_project_root_must_be_an_existing_directory_in_its_resolved_form(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(operator.root)
    file.touch()
    root = str(operator.root)
    for other in (
        "relative",
        str(link),
        root + "/",
        f"{root}/../project",
        root + "\0",
        str(file),
        "/nowhere/at/all",
    ):
        operator.configure(project_root=other)
        expected = "invalid_config" if "\0" in other else "canonical_project_root_required"
        assert flush_reason(operator) == expected, other


@requirement("A-21", "A-97")
def test_operator_files_may_not_lie_in_the_project_however_they_are_reached(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    inside = operator.root / "private"
    inside.mkdir(mode=0o700)
    into, out = tmp_path / "into", operator.root / "out"
    into.symlink_to(inside)
    out.symlink_to(operator.private)
    for other in (inside, into, out, operator.root, f"{tmp_path}/x/../project/private", "relative"):
        operator.configure(state_dir=str(other), authorization_file=str(operator.authorization))
        assert flush_reason(operator) == "configuration_and_state_must_be_outside_project", other
        operator.configure(state_dir=str(operator.outbox), authorization_file=f"{other}/authorization")
        assert flush_reason(operator) == "configuration_and_state_must_be_outside_project", other


@requirement("A-21")
def test_configuration_inside_the_project_or_named_by_a_relative_path_is_refused(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    stored = operator.config.read_bytes()
    operator.config = hook_fixture.private(operator.root / "config.json", stored)
    assert flush_reason(operator) == "configuration_and_state_must_be_outside_project"
    relative = os.path.relpath(hook_fixture.private(operator.private / "config.json", stored))
    operator.config = Path(relative)
    assert flush_reason(operator) == "configuration_and_state_must_be_outside_project"


@requirement("A-97")
def test_operator_files_behind_a_linked_directory_outside_the_project_are_used(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        link = tmp_path / "link"
        link.symlink_to(operator.private)
        operator.configure(state_dir=str(link / "outbox"), authorization_file=str(link / "authorization"))
        operator.config = link / "config.json"
        assert operator.hook().is_silent_success


@requirement("A-18", "A-21")
@pytest.mark.parametrize(
    "url",
    [
        "http://webcodex.example.com",
        "http://127.0.0.1.example.com",
        "http://127.0.0.2:80",
        "http://LOCALHOST",
        "http://::1",
        "https://",
        "https://user@webcodex.example.com",
        "https://webcodex.example.com?x",
        "https://webcodex.example.com#x",
        "https://webcodex.example.com/path",
        "https://webcodex.example.com//",
        "https://webcodex.example.com:",
        "https://webcodex.example.com:0",
        "https://webcodex.example.com:65536",
        "https://webcodex.example.com:٣",
        "https://web codex.example.com",
        "https://wëbcodex.example.com",
        "https://[::1",
        "https://[example]:1",
        "https://[::1]x",
        "//127.0.0.1",
        "127.0.0.1",
        "ftp://127.0.0.1",
    ],
)
def test_origin_that_is_neither_https_nor_this_machine_is_refused(url: str) -> None:
    with pytest.raises(kit.refusal.Refused) as refused:
        kit.server_client.parse_origin(url)
    assert refused.value.reason == "https_or_loopback_origin_required"


@requirement("A-18", "A-19")
@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://127.0.0.1", "127.0.0.1:80"),
        ("http://localhost:8080/", "localhost:8080"),
        ("http://[::1]:65535", "[::1]:65535"),
        ("https://webcodex.example.com", "webcodex.example.com:443"),
        ("https://WebCodex.example.com:8443/", "WebCodex.example.com:8443"),
        ("https://[2001:db8::1]", "[2001:db8::1]:443"),
    ],
)
def test_allowed_origin_names_its_host_and_port(url: str, authority: str) -> None:
    assert kit.server_client.parse_origin(url).authority == authority


@requirement("A-18", "A-21")
def test_origin_is_judged_last(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path, "http://webcodex.example.com")
    assert flush_reason(operator) == "https_or_loopback_origin_required"
    operator.configure(state_dir=str(operator.root))
    assert flush_reason(operator) == "configuration_and_state_must_be_outside_project"
    operator.configure(project_root="relative")
    assert flush_reason(operator) == "canonical_project_root_required"


@requirement("A-10", "A-19")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "invalid_authorization_file"),
        (b" \r\n\t", "invalid_authorization_file"),
        (b"Bearer a\r\nX: b", "invalid_authorization_file"),
        (b"Bearer a\nb", "invalid_authorization_file"),
        (b"Bearer a\0b", "invalid_authorization_file"),
        ("Bearer ä".encode(), "invalid_authorization_file"),
        (b"x" * 131_073, "input_too_large"),
    ],
)
def test_unusable_authorization_keeps_the_report_and_opens_no_connection(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        hook_fixture.private(operator.authorization, content)
        result = operator.hook()
        assert (result.reason, result.counts) == (reason, {"pending": 1})
        assert server.connections == 0
        hook_fixture.private(operator.authorization, b"\n Basic abc \r\n")
        assert json.loads(operator.flush().out)["acknowledged"] == 1
    assert b"\r\nAuthorization: Basic abc\r\n" in server.requests[0].head


@requirement("A-96", "A-97", "A-23")
def test_only_the_exact_root_is_the_project(tmp_path: Path) -> None:
    """Main checkout, worktrees, subdirectory, nested repository, links and spellings of the directory."""
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        root = operator.root
        for folder in (root / "sub", root / "nested" / ".git", tmp_path / "worktree", tmp_path / "PROJECT"):
            folder.mkdir(parents=True)
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(root)]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
        subprocess.run(
            [*git, "worktree", "add", "-q", str(tmp_path / "linked")], check=True, capture_output=True
        )
        (tmp_path / "link").symlink_to(root)
        (tmp_path / "elsewhere").symlink_to(tmp_path / "worktree")
        same = (
            str(root),
            f"{root}/",
            f"{root}/.",
            f"{root}/sub/..",
            f"{tmp_path}//project",
            str(tmp_path / "link"),
        )
        other = ("sub", "nested", "../linked", "../PROJECT", "../elsewhere", "..", "missing")
        for number, cwd in enumerate(same):
            assert operator.hook(number, cwd=cwd).reason == "missing_tool_identity", cwd
            assert operator.hook(f"call-{number}", cwd=cwd).is_silent_success, cwd
        for cwd in other:
            assert operator.hook(cwd=str(root / cwd)).reason == "project_root_mismatch", cwd
    assert len(server.store.rows) == len(same)


@requirement("A-97", "A-96")
def test_moved_project_or_exchanged_link_matches_no_longer(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(operator.root)
    assert operator.hook(cwd=str(link)).counts == {"pending": 1}
    link.unlink()
    link.symlink_to(tmp_path)
    assert operator.hook("later", cwd=str(link)).reason == "project_root_mismatch"
    operator.root.rename(tmp_path / "moved")
    assert operator.hook("later").reason == "canonical_project_root_required"
    operator.root.symlink_to(tmp_path / "moved")
    assert operator.hook("later").reason == "canonical_project_root_required"
    assert list(operator.pending()) == [operator.file_name("call-one")]


@requirement("A-97")
def test_project_whose_name_has_two_normal_forms_matches_only_its_own(tmp_path: Path) -> None:
    place = tmp_path / "a b 七"
    place.mkdir()
    with peer.Peer() as server:
        operator = hook_fixture.Operator(place, server.origin)
        composed, decomposed = operator.root / "\u00e9", operator.root / "e\u0301"
        composed.mkdir()
        decomposed.mkdir(exist_ok=True)
        operator.configure(project_root=str(composed))
        assert operator.hook(cwd=str(composed)).is_silent_success
        if not composed.samefile(decomposed):
            assert operator.hook(cwd=str(decomposed)).reason == "project_root_mismatch"
