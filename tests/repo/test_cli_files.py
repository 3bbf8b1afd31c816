"""The files that ``up`` writes: ids that fit, an operator's edits kept, locks and secrets."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcodex.cli import children, installation, project_path, project_registry, refusal, runner_file
from webcodex.protocol import bounds
from webcodex.runner import settings

OPERATORS = """
# mine
[acp]
max_concurrent_runs = 2
"""


def made(folder: Path) -> Path:
    """A Runner configuration as the first start writes it."""
    path = folder / "runner.toml"
    runner_file.create(
        path, url="http://127.0.0.1:1", token="wc_agent_x", client_id="local", roots=["/home/a"]
    )
    return path


@pytest.mark.parametrize(
    ("name", "taken", "fitting"),
    [
        ("demo", [], "demo"),
        ("my project (2)", [], "my-project-2"),
        ("Ünïcode", [], "Unicode"),
        ("日本", [], "project"),
        ("..", [], "project"),
        (".dotfiles", [], "dotfiles"),
        ("demo", ["demo", "Demo-2"], "demo-3"),
        ("Demo", ["demo"], "Demo-2"),
    ],
)
def test_project_id_is_the_name_made_to_fit(name: str, taken: list[str], fitting: str) -> None:
    assert project_registry.fit(name, taken) == fitting


@given(st.text(max_size=300), st.lists(st.text(max_size=8), max_size=4))
def test_every_name_becomes_an_id_that_is_allowed_and_new(name: str, taken: list[str]) -> None:
    found = project_registry.fit(name, [*taken, "project"])
    assert bounds.PROJECT_ID.fullmatch(found)
    assert not found.startswith(".")
    assert found.casefold() not in {each.casefold() for each in taken}


def test_same_directory_keeps_its_id_and_a_bad_file_its_name(tmp_path: Path) -> None:
    registry = tmp_path / "projects.d"
    first = project_registry.add(registry, tmp_path / "demo")
    (registry / "other.toml").write_text("not toml", encoding="utf-8")
    assert project_registry.add(registry, tmp_path / "demo") == first
    assert project_registry.add(registry, tmp_path / "x" / "demo").id == "demo-2"
    assert project_registry.add(registry, tmp_path / "other").id == "other-2"
    assert (registry / "other.toml").read_text(encoding="utf-8") == "not toml"
    assert stat.S_IMODE(first.file.stat().st_mode) == 0o600


def test_disabled_project_is_not_enabled_by_starting_it(tmp_path: Path) -> None:
    entry = project_registry.add(tmp_path, Path("/demo"))
    text = entry.file.read_text(encoding="utf-8") + "disabled = true\n"
    entry.file.write_text(text, encoding="utf-8")
    with pytest.raises(refusal.Refused, match="registered and disabled"):
        project_registry.add(tmp_path, Path("/demo"))
    assert entry.file.read_text(encoding="utf-8") == text


def test_change_of_address_and_roots_keeps_what_the_operator_added(tmp_path: Path) -> None:
    path = made(tmp_path)
    path.write_text(path.read_text(encoding="utf-8") + OPERATORS, encoding="utf-8")
    runner_file.point_at(path, "http://127.0.0.1:2")
    runner_file.allow(path, '/srv/a "b"\\')
    found = settings.load(path, {})
    assert (found.link_url, found.token) == ("ws://127.0.0.1:2/api/agents/ws", "wc_agent_x")
    assert found.policy.allowed_roots == ("/home/a", '/srv/a "b"\\')
    assert found.acp.max_concurrent_runs == 2
    assert path.read_text(encoding="utf-8").endswith(OPERATORS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ('allowed_roots = ["/home/a"]', 'allowed_roots = [\n  "/home/a",\n]'),
        ("[policy]", "[host_context]\nrole = 1\n[elsewhere]"),
    ],
)
def test_line_of_another_form_is_left_alone_and_the_wanted_one_is_shown(
    written: str, instead: str, tmp_path: Path
) -> None:
    path = made(tmp_path)
    text = path.read_text(encoding="utf-8").replace(written, instead)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(refusal.Refused, match="Edit it to hold this line: allowed_roots = ") as caught:
        runner_file.allow(path, "/srv")
    assert "wc_agent_x" not in str(caught.value)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("text", ["", "server_url = 1", "= 1", 'policy = 1\nserver_url = "x"'])
def test_unusable_runner_configuration_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = made(tmp_path)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(refusal.Refused, match=r"runner\.toml"):
        runner_file.read(path)


def test_open_runner_configuration_is_refused_with_its_remedy(tmp_path: Path) -> None:
    path = made(tmp_path)
    path.chmod(0o644)
    with pytest.raises(refusal.Refused, match="chmod 600"):
        runner_file.read(path)


def test_relative_path_is_resolved_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    found = project_path.chosen("demo", tmp_path / "data")
    assert (found.root, found.notes) == (tmp_path / "demo", (f"demo is {tmp_path / 'demo'}.",))
    assert project_path.chosen(str(found.root), tmp_path / "data").notes == ()


def test_path_with_control_characters_is_refused_without_repeating_it(tmp_path: Path) -> None:
    (tmp_path / "a\nb").mkdir()
    with pytest.raises(refusal.Refused) as caught:
        project_path.chosen(str(tmp_path / "a\nb"), tmp_path / "data")
    assert "\nb" not in str(caught.value)


def test_data_directory_has_one_holder_who_is_named_to_others(tmp_path: Path) -> None:
    found = installation.Installation(directory=tmp_path)
    assert installation.is_held(found) is False
    with installation.held(found):
        assert installation.is_held(found) is True
        with pytest.raises(refusal.Refused, match=rf"process {os.getpid()}"), installation.held(found):
            pass
    assert installation.is_held(found) is False
    assert installation.running(found) is None


def test_what_ran_once_is_not_taken_for_running(tmp_path: Path) -> None:
    found = installation.Installation(directory=tmp_path)
    running = installation.Running(url="http://127.0.0.1:1", server_pid=1, runner_pid=1)
    with installation.held(found):
        installation.note_running(found, running)
        assert installation.running(found) == running
    assert installation.running(found) is None


def test_settings_of_another_version_are_refused_and_kept(tmp_path: Path) -> None:
    found = installation.Installation(directory=tmp_path)
    assert installation.remembered_addr(found) is None
    installation.remember_addr(found, "127.0.0.1:1")
    assert installation.url(found) == "http://127.0.0.1:1"
    for text in ('{"version": 2, "addr": "127.0.0.1:1"}', "[]", "{"):
        found.settings_file.write_text(text, encoding="utf-8")
        with pytest.raises(refusal.Refused, match=r"up\.json"):
            installation.remembered_addr(found)
        assert found.settings_file.read_text(encoding="utf-8") == text


def test_empty_directory_that_others_can_read_is_made_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    installation.prepare(installation.Installation(directory=tmp_path))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_long_log_is_set_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "server.log"
    log.write_text("12345", encoding="utf-8")
    monkeypatch.setattr(children, "MOST_LOG_BYTES", 4)
    os.close(children.opened_log(log))
    assert (log.read_bytes(), (tmp_path / "server.log.1").read_bytes()) == (b"", b"12345")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
