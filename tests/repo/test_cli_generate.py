"""The generated pages show their tables, and a stale one is named."""

import json
from pathlib import Path

from click import testing

from webcodex.cli import generate, state_pages, tool_page, tool_specs
from webcodex.core import sessions
from webcodex.tools import errors, registry

WANTED = {Path("docs/tools.md"): "tools\n", Path("docs/states/sessions.md"): "states\n"}


def test_generated_files_of_this_repository_are_up_to_date() -> None:
    result = testing.CliRunner().invoke(generate.main, ["--check"])
    assert (result.exit_code, result.stdout) == (0, "")


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


def test_shell_knows_the_tools_of_the_table_without_loading_it() -> None:
    assert list(tool_specs.known().values()) == tool_specs.of_table()
    assert [spec["name"] for spec in json.loads(tool_specs.generated())] == sorted(
        tool.name for tool in registry.TOOLS
    )
