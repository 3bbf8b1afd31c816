"""The generated pages show their tables, and a stale one is named."""

from pathlib import Path

import pytest
from click import testing

from webcodex.cli import generate, state_pages, tool_page, tool_specs
from webcodex.core import sessions
from webcodex.tools import errors, registry

WANTED = {Path("docs/tools.md"): "tools\n", Path("docs/states/sessions.md"): "states\n"}


def test_check_writes_nothing_and_fails_until_the_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    shell = testing.CliRunner()
    first = shell.invoke(generate.main, ["--check"])
    assert (first.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert first.stdout.startswith("docs/tools.md is missing.\ndocs/states/goals.md is missing.\n")
    assert first.stdout.endswith("Write them anew with: make generate\n")
    assert shell.invoke(generate.main).exit_code == 0
    again = shell.invoke(generate.main, ["--check"])
    assert (again.exit_code, again.stdout) == (0, "")


def test_written_files_are_not_stale_and_each_change_is_named(tmp_path: Path) -> None:
    assert generate.stale(tmp_path, WANTED) == [
        "docs/tools.md is missing.",
        "docs/states/sessions.md is missing.",
    ]
    generate.write(tmp_path, WANTED)
    assert generate.stale(tmp_path, WANTED) == []
    (tmp_path / "docs/tools.md").write_text("other\n", encoding="utf-8")
    (tmp_path / "docs/states/gone.md").touch()
    assert generate.stale(tmp_path, WANTED) == [
        "docs/tools.md is stale.",
        "docs/states/gone.md shows a table that is gone.",
    ]
    generate.write(tmp_path, WANTED)
    assert generate.stale(tmp_path, WANTED) == []


def test_tool_page_shows_every_tool_param_and_error_word() -> None:
    page = tool_page.text()
    for tool in registry.TOOLS:
        section = page.partition(f"\n## {tool.name}\n")[2].partition("\n## ")[0]
        assert tool.summary in section
        for name, param in tool.params.model_fields.items():
            assert f"| `{name}` |" in section
            assert (param.description or "") in section
    for word, (sentence, _) in errors.WORDS.items():
        assert f"| `{word}` | {sentence} |" in page


def test_state_pages_draw_every_step_of_their_table() -> None:
    page = state_pages.texts()["sessions"]
    for before, exits in sessions.TRANSITIONS.items():
        for event, after in exits.items():
            assert f"    {before} --> {after}: {event}\n" in page
            assert f"| `{before}` | `{event}` | `{after}` |" in page
    assert "Final: `closed`." in page


def test_shell_knows_the_tools_of_the_table_without_loading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_specs, "FILE", tmp_path / "tools.json")
    without_file = tool_specs.known()
    (tmp_path / "tools.json").write_text(tool_specs.generated(), encoding="utf-8")
    assert tool_specs.known() == without_file
    assert list(without_file) == sorted(tool.name for tool in registry.TOOLS)
