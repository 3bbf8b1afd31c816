"""Draws the transition tables of core: one page for each module that has one."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from webcodex import core

Table = Mapping[Enum, Mapping[Enum, Enum]]


def texts() -> dict[str, str]:
    """Returns the page of each table, by a name for its file."""
    return {name: _page(name, tables) for name, tables in _found()}


def _found() -> Iterator[tuple[str, list[tuple[str, Table]]]]:
    for module_info in sorted(pkgutil.iter_modules(core.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{core.__name__}.{module_info.name}")
        tables = [
            (name, value)
            for name, value in inspect.getmembers(module, _is_table)
            if name == "TRANSITIONS" or name.endswith("_TRANSITIONS")
        ]
        if tables:
            yield module_info.name, tables


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(state, Enum) for state in value)


def _page(module: str, tables: list[tuple[str, Table]]) -> str:
    title = module.replace("_", " ").capitalize()
    parts = [
        f"# {title}: states",
        "",
        f"Generated from `webcodex.core.{module}` by `make generate`; edit the table there.",
        "A step that is not in the table is refused.",
    ]
    for name, table in tables:
        parts += ["", f"## {_heading(table)}", "", *_diagram(table), "", *_rows(table)]
        del name
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
