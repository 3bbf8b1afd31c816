"""What the command line makes of schemas and answers."""

import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click import testing

from webcodex.cli import options, printed, program, tool_options

RANGE: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
SCHEMA: dict[str, Any] = {
    "properties": {
        "project": {"type": "string", "description": "Which one."},
        "items": {"type": "array", "items": RANGE, "maxItems": 8},
        "entries": {"type": "array", "items": {"type": "string"}},
        "count": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None},
        "mode": {"enum": ["a", "b"], "type": "string", "default": "a"},
        "numbered": {"type": "boolean", "default": False},
        "guards": RANGE,
        "data": {"type": "object"},
    },
    "required": ["project", "items"],
}


def parsed(*words: str) -> Any:
    """The params that the words give."""
    found: list[Any] = []

    def callback(**given: Any) -> None:
        found.append(tool_options.params_of(SCHEMA, given))

    command = click.Command("tool", params=tool_options.of_schema(SCHEMA), callback=callback)
    result = testing.CliRunner().invoke(command, words, catch_exceptions=False)
    return found[0] if found else result.stderr


def test_options_become_params_of_the_right_types() -> None:
    words = ("--project", "p", "--item", "a.py", "--item", '{"path":"b","limit":3}', "--entry", "x")
    more = ("--count", "3", "--mode", "b", "--numbered", "--guards", '{"limit":1}', "--arg-data", "{}")
    assert parsed(*words, *more) == {
        "project": "p",
        "items": [{"path": "a.py"}, {"path": "b", "limit": 3}],
        "entries": ["x"],
        "count": 3,
        "mode": "b",
        "numbered": True,
        "guards": {"limit": 1},
        "data": {},
    }


def test_what_is_not_given_is_absent_and_what_is_refused_is_present() -> None:
    assert parsed("--no-numbered") == {"numbered": False}
    assert tool_options.missing(SCHEMA, {"items": []}) == ["--project"]
    assert tool_options.missing(SCHEMA, {}) == ["--project", "--item"]


@pytest.mark.parametrize("words", [("--count", "x"), ("--mode", "c"), ("--arg-data", "{"), ("--other", "x")])
def test_value_of_the_wrong_kind_is_refused_before_any_call(words: tuple[str, ...]) -> None:
    assert "Error: " in parsed(*words)


def test_outline_keeps_texts_and_shows_what_is_absent() -> None:
    value = {"a": None, "b": True, "c": [], "d": {"e": "1\n2"}, "f": [{"g": 1, "h": [2]}, 3], "i": "x\x1b[1m"}
    assert printed.outline(value).splitlines() == [
        "a: -",
        "b: yes",
        "c: none",
        "d:",
        "  e:",
        "    | 1",
        "    | 2",
        "f:",
        "  - g: 1",
        "    h:",
        "      - 2",
        "  - 3",
        "i: x\N{REPLACEMENT CHARACTER}[1m",
    ]


def test_advice_names_the_program_and_the_data_directory_that_was_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @click.command()
    @options.data
    def advise(data: str | None) -> None:
        del data
        click.echo(program.command("project list"))

    def advised(*words: str) -> str:
        return testing.CliRunner().invoke(advise, words).stdout

    own = Path(sys.executable).with_name("webcodex")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert advised() == f"{own} project list\n"
    assert advised("--data", "/a b") == f"{own} project list --data '/a b'\n"
    (tmp_path / "webcodex").symlink_to(own)
    assert advised() == "webcodex project list\n"
    monkeypatch.setenv("PATH", f"{own.parent}")
    assert advised() == "webcodex project list\n"


def test_table_is_in_columns() -> None:
    assert printed.table(("ID", "NAME"), [("1", "a\nb"), ("22", "")]) == "ID  NAME\n1   a b\n22"
