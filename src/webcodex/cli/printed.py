"""Turns an answer into lines that a person reads, and into the JSON that a program does."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

_INDENT: Final = "  "


def as_json(value: object) -> str:
    """Returns ``value`` as indented JSON; every character stays what it is."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns rows in columns under their heads."""
    lines = [tuple(heads), *(tuple(one_line(cell) for cell in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def moment(at: int) -> str:
    """Returns a time in Unix s as the terminal's own date and minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def outline(value: object) -> str:
    """Returns nested objects and lists as an indented outline; texts of several lines stay as they are."""
    return "\n".join(_lines(value, ""))


def _lines(value: object, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _member(f"{indent}{key}:", inner, indent)
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, dict | list) and inner:
                first, *rest = _lines(inner, f"{indent}{_INDENT}")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
            else:
                yield f"{indent}- {_word(inner)}"
    else:
        yield f"{indent}{_word(value)}"


def _member(head: str, value: object, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from _lines(value, f"{indent}{_INDENT}")
    elif isinstance(value, str) and "\n" in value:
        yield head
        for line in value.splitlines():
            yield f"{indent}{_INDENT}| {_printable(line)}"
    else:
        yield f"{head} {_word(value)}"


def _word(value: Any) -> str:
    words = {None: "-", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return words[value]
    if value in ([], {}):
        return "none"
    return one_line(str(value))


def one_line(text: str) -> str:
    """Returns ``text`` in one line that cannot move a terminal's cursor."""
    return _printable(" ".join(text.splitlines()))


def _printable(line: str) -> str:
    return "".join(
        char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in line
    )
