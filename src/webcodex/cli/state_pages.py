"""Draws the transition tables of core: one page for each module that has one."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

from webcodex import core

_TABLES: Final = "TRANSITIONS"
Table = Mapping[Enum, Mapping[Enum, Enum]]


def texts() -> dict[str, str]:
    """Returns the page of each module that has tables, by the module's name."""
    return {name: _page(name, tables) for name, tables in _found() if tables}


def _found() -> Iterator[tuple[str, list[Table]]]:
    for name in sorted(info.name for info in pkgutil.iter_modules(core.__path__)):
        module = importlib.import_module(f"{core.__name__}.{name}")
        yield name, [table for held, table in inspect.getmembers(module, _is_table) if held.endswith(_TABLES)]


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(state, Enum) for state in value)


def _page(module: str, tables: list[Table]) -> str:
    title = module.replace("_", " ").capitalize()
    parts = [
        f"# {title}: states",
        "",
        f"Generated from `webcodex.core.{module}` by `make generate`; edit the table there.",
        "A step that is not in the table is refused.",
    ]
    for table in tables:
        parts += ["", f"## {_heading(table)}", "", *_diagram(table), "", *_rows(table)]
    return "\n".join(parts) + "\n"


def _heading(table: Table) -> str:
    return type(next(iter(table))).__name__


def _steps(table: Table) -> Iterator[tuple[str, str, str]]:
    for state, exits in table.items():
        for event, following in exits.items():
            yield str(state.value), str(event.value), str(following.value)


def _diagram(table: Table) -> list[str]:
    first = str(next(iter(table)).value)
    ends = [str(state.value) for state, exits in table.items() if not exits]
    steps = [f"    {before} --> {after}: {event}" for before, event, after in _steps(table)]
    return [
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {first}",
        *steps,
        *(f"    {end} --> [*]" for end in ends),
        "```",
    ]


def _rows(table: Table) -> list[str]:
    rows = [f"| `{before}` | `{event}` | `{after}` |" for before, event, after in _steps(table)]
    ends = ", ".join(f"`{state.value}`" for state, exits in table.items() if not exits) or "none"
    return ["| State | Event | Next |", "|---|---|---|", *rows, "", f"Final: {ends}."]
