"""What ``discover`` lists and what ``associate`` writes, against honest and hostile Servers (A-52, A-53)."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters import hook_fixture, peer, recovery_fixture
from tests.adapters.recovery_fixture import PROJECTS, SESSIONS, Operator, Served
from tests.core import handoff_histories as made
from tests.requirements import requirement

NOTE = (
    "Match the user's stated work to one Session; ask only if it is ambiguous; never choose by recency; "
    "reading binds no writer."
)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[Operator, Served]]:
    with recovery_fixture.serving(tmp_path, is_bound=False) as pair:
        yield pair


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"session_id": f"wc_sess_{number}", "title": "七"} for number in range(count)]


@requirement("A-52", "A-50", "A-02", "A-108")
def test_discover_lists_every_session_of_the_exact_root_and_chooses_none(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    inner = {"id": "agent:r1:inner", "path": f"{operator.root}/inner"}
    served.projects = [*served.projects, inner, {"id": "agent:r1:none"}]
    served.sessions = [{"session_id": made.SESSION_ID, "overview": {"work": "blocked"}}, *numbered(50)]
    before = {path: path.read_bytes() for path in operator.private.rglob("*") if path.is_file()}
    result = operator.run("discover", "--project-root", str(operator.root))
    assert hook_fixture.SECRET.encode() not in result.out
    assert list(result.said) == ["project", "project_root", "sessions", "writes", "agent_note"]
    assert result.said == {
        "project": made.PROJECT,
        "project_root": str(operator.root),
        "sessions": served.sessions,
        "writes": False,
        "agent_note": NOTE,
    }
    assert {path: path.read_bytes() for path in operator.private.rglob("*") if path.is_file()} == before
    assert served.asked == [
        (PROJECTS, {"query": str(operator.root), "limit": 100}),
        (SESSIONS, {"project": made.PROJECT, "limit": 50}),
        (SESSIONS, {"project": made.PROJECT, "limit": 50, "cursor": "50"}),
    ]


@requirement("A-52", "A-103")
@pytest.mark.parametrize("count", [0, 51, 100, 999, 1_000, 1_001])
def test_a_thousand_sessions_are_listed_and_one_more_is_not(
    scene: tuple[Operator, Served], count: int
) -> None:
    operator, served = scene
    served.sessions = numbered(count)
    result = operator.discovered()
    if count > 1_000:
        assert result.reason == "session_inventory_incomplete"
    else:
        assert result.said["sessions"] == served.sessions


@requirement("A-52")
def test_directory_that_is_not_canonical_is_refused_before_anything_is_asked(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    link = operator.root.parent / "link"
    link.symlink_to(operator.root)
    for path in (
        link,
        operator.root / ".." / "project",
        operator.registry,
        operator.root / "gone",
        "project",
    ):
        assert operator.discovered(Path(path)).reason == "canonical_directory_required"
        assert operator.associated(Path(path)).reason == "canonical_directory_required"
    assert served.asked == []


@requirement("A-52", "A-61")
def test_inventory_that_is_ambiguous_cut_or_malformed_is_refused(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    row = served.projects[0]
    for rows in (
        [],
        [row, {**row, "id": "agent:r2:demo"}],
        [{**row, "id": "r1:demo"}],
        [{**row, "id": None}],
    ):
        served.projects = rows
        assert operator.discovered().reason == "project_identity_missing_or_ambiguous", rows
    served.projects = [{"id": f"agent:r1:{number}", "path": "/x"} for number in range(1_000)] + [row]
    assert operator.discovered().reason == "project_inventory_incomplete"
    served.projects = [row]
    page = {"projects": [row], "sessions": [{}], "next_cursor": None}
    cases: list[tuple[str, object, str]] = [
        (PROJECTS, {**page, "next_cursor": "same"}, "project_inventory_incomplete"),
        (PROJECTS, {**page, "projects": [], "next_cursor": "a"}, "project_inventory_incomplete"),
        (PROJECTS, {**page, "truncated": True}, "project_inventory_incomplete"),
        (SESSIONS, {**page, "next_cursor": "same"}, "session_inventory_incomplete"),
        (SESSIONS, {**page, "truncated": True}, "session_inventory_incomplete"),
        (PROJECTS, {**page, "projects": [row, 7]}, "invalid_discovery_response"),
        (PROJECTS, {**page, "projects": None}, "invalid_discovery_response"),
        (PROJECTS, {**page, "next_cursor": 7}, "invalid_discovery_response"),
        (SESSIONS, {**page, "sessions": ["wc_sess_a"]}, "invalid_discovery_response"),
        (SESSIONS, [], "invalid_discovery_response"),
        (SESSIONS, b"{", "invalid_discovery_response"),
        (SESSIONS, b" " * 131_073, "oversized_discovery_response"),
    ]
    for path, body, reason in cases:
        served.instead = {path: peer.status(200, body)}
        assert operator.discovered().reason == reason, (path, body)
    for status in (302, 400, 401, 403, 404, 500):
        served.instead = {PROJECTS: peer.status(status, page)}
        assert operator.discovered().reason == "read_unconfirmed", status


@requirement("A-53", "A-50", "A-14", "A-02")
def test_associate_writes_the_registry_alone_and_the_same_association_once(
    scene: tuple[Operator, Served],
) -> None:
    operator, _ = scene
    other = operator.root.parent / "checkout 七"
    other.mkdir()
    arguments = [
        "--project-root",
        str(operator.root),
        "--session",
        made.SESSION_ID,
        "--entry-root",
        str(other),
    ]
    arguments += ["--entry-root", str(operator.root)]
    said = operator.run("associate", *arguments).said
    assert said == {"status": "associated", "project": made.PROJECT, "session_id": made.SESSION_ID}
    stored = json.loads(operator.registry.read_bytes())
    binding = operator.binding(*sorted((other, operator.root)))
    assert stored == {**operator.stored, "bindings": [binding]}
    assert hook_fixture.is_private(operator.registry)
    assert {file.name for file in operator.private.iterdir()} == {
        "recovery.json",
        "authorization",
        operator.state.name,
    }
    assert [file.name for file in operator.state.iterdir()] == [".lock"]
    again = operator.associated(other, operator.root, other)
    assert again.said == {**said, "status": "already_associated"}
    assert json.loads(operator.registry.read_bytes()) == stored
    assert operator.asked(cwd=str(other)).shown("SessionStart")["status"] == "read"
    assert operator.associated(local="local-one").said["status"] == "associated"
    assert json.loads(operator.registry.read_bytes())["bindings"] == [
        binding,
        operator.binding(local_session_id="local-one"),
    ]


@requirement("A-53", "A-51", "A-16", "A-61")
def test_association_that_is_refused_leaves_the_registry_as_it_was(
    scene: tuple[Operator, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_fixture.limits, "RECOVERY_WAIT_SECONDS", 0.01)
    operator, _ = scene
    before = operator.registry.read_bytes()
    for session in ("wc_sess_other", "~s1"):
        assert operator.associated(session=session).reason == "session_not_in_exact_project"
    assert operator.associated(local="a" * 257).reason == "invalid_recovery_association"
    assert operator.associated(operator.root.parent).reason == "operator_files_must_be_outside_projects"
    entries = [operator.root / f"entry-{number}" for number in range(9)]
    for entry in entries:
        entry.mkdir()
    assert operator.associated(*entries).reason == "invalid_entry_root"
    with operator.busy():
        assert operator.associated().reason == "recovery_busy"
    assert operator.registry.read_bytes() == before
    assert operator.associated(*entries[:8]).said["status"] == "associated"


@requirement("A-53", "A-51")
def test_registry_takes_sixty_four_associations_and_no_more_bytes_than_it_can_read(
    scene: tuple[Operator, Served],
) -> None:
    operator, _ = scene
    operator.configure(
        bindings=[operator.binding(local_session_id=f"local-{number}") for number in range(63)]
    )
    assert operator.associated().said["status"] == "associated"
    full = operator.registry.read_bytes()
    assert operator.associated(local="one-more").reason == "association_capacity"
    assert operator.associated(local="local-7").said["status"] == "already_associated"
    assert operator.registry.read_bytes() == full
    long = {"path": "/" + "x" * 1_940, "identity": [1, 1]}
    operator.configure(bindings=[operator.binding(entry_roots=[long] * 8) for _ in range(8)])
    before = operator.registry.read_bytes()
    assert 125_000 < len(before) < 131_072
    assert operator.associated(*_folders(operator, 8)).reason == "recovery_state_capacity"
    assert operator.registry.read_bytes() == before


@requirement("A-53", "A-58", "A-103")
def test_of_two_operators_at_once_one_writes_and_the_other_is_told(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    together = threading.Barrier(2)

    def listed(exchange: peer.Exchange) -> None:
        together.wait(recovery_fixture.RUN_S)
        exchange.send(peer.response(200, {"sessions": served.sessions, "next_cursor": None}))

    served.instead[SESSIONS] = listed
    arguments = ["associate", "--project-root", str(operator.root), "--session", made.SESSION_ID]
    arguments += ["--entry-root", str(operator.root), "--local-session"]
    runs = [operator.start(*arguments, local) for local in ("local-a", "local-b")]
    results = []
    for run in runs:
        out, err = run.communicate(timeout=recovery_fixture.RUN_S)
        results.append(recovery_fixture.Result(run.returncode, out, err))
    (won,) = [number for number, result in enumerate(results) if result.code == 0]
    assert results[won].said["status"] == "associated"
    assert results[1 - won].reason == "registry_changed"
    (binding,) = json.loads(operator.registry.read_bytes())["bindings"]
    assert binding["local_session_id"] == ("local-a", "local-b")[won]
    del served.instead[SESSIONS]
    assert operator.associated(local=("local-b", "local-a")[won]).said["status"] == "associated"
    assert len(json.loads(operator.registry.read_bytes())["bindings"]) == 2


def _folders(operator: Operator, count: int) -> list[Path]:
    """Gives existing directories with long names."""
    folders = [operator.root / f"{number}{'y' * 200}" / ("z" * 200) for number in range(count)]
    for folder in folders:
        folder.mkdir(parents=True)
    return folders
