"""Reads one TOML table key by key; every refusal names the key and never the value (R-01)."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_AT_LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class BadConfiguration(Exception):
    """The configuration cannot be used; the message is one sentence that names the key."""

    def __init__(self, key: str, rule: str) -> None:
        super().__init__(f"{key} {rule}.")
        self.key = key


def parse(content: bytes, name: str) -> Mapping[str, Any]:
    """Returns the top table of a TOML text called `name`.

    Raises:
        BadConfiguration: it is no TOML.

    """
    try:
        return tomllib.loads(content.decode())
    except (UnicodeDecodeError, RecursionError) as error:
        raise BadConfiguration(name, "is not valid TOML") from error
    except tomllib.TOMLDecodeError as error:
        line = _AT_LINE.search(str(error))
        where = f" (line {line[1]})" if line else ""
        raise BadConfiguration(name, f"is not valid TOML{where}") from None


class Table:
    """The keys of one table; `finish` refuses every key that nobody asked for."""

    __slots__ = ("_path", "_rest")

    def __init__(self, members: Mapping[str, Any], path: str = "") -> None:
        self._path = path
        self._rest = dict(members)

    def key(self, name: str) -> str:
        """Returns the full name of a key, as messages show it."""
        shown = name if _PLAIN.fullmatch(name) else "(unprintable key)"
        return f"{self._path}.{shown}" if self._path else shown

    def refuse(self, name: str, rule: str) -> BadConfiguration:
        """Returns the refusal of one key."""
        return BadConfiguration(self.key(name), rule)

    def finish(self) -> None:
        """Raises `BadConfiguration` for a key or table that is not known here."""
        for name in self._rest:
            raise self.refuse(name, "is not a key of this configuration")

    def has(self, name: str) -> bool:
        """Says whether the key is set and not yet read."""
        return name in self._rest

    def skip(self, name: str) -> None:
        """Accepts an optional key that has no effect, whatever it holds."""
        self._rest.pop(name, None)

    def text(self, name: str, *, most: int, pattern: re.Pattern[str] | None = None) -> str:
        """Returns a required string of 1 to `most` characters without control characters."""
        if name not in self._rest:
            raise self.refuse(name, "is required")
        value = self._rest.pop(name)
        if not isinstance(value, str) or not 1 <= len(value) <= most or _CONTROL.search(value):
            raise self.refuse(name, f"must be a text of 1 to {most} printable characters")
        if pattern is not None and pattern.fullmatch(value) is None:
            raise self.refuse(name, f"must match {pattern.pattern}")
        return value

    def text_or_none(self, name: str, *, most: int) -> str | None:
        """Returns an optional string."""
        return self.text(name, most=most) if self.has(name) else None

    def absolute(self, name: str) -> str:
        """Returns a required absolute path."""
        value = self.text(name, most=4096)
        if not value.startswith("/"):
            raise self.refuse(name, "must be an absolute path")
        return value

    def integer(self, name: str, *, default: int, least: int, most: int) -> int:
        """Returns an optional integer from `least` to `most`."""
        value = self._rest.pop(name, default)
        if type(value) is not int or not least <= value <= most:
            raise self.refuse(name, f"must be an integer from {least} to {most}")
        return value

    def boolean(self, name: str, *, default: bool) -> bool:
        """Returns an optional boolean."""
        value = self._rest.pop(name, default)
        if not isinstance(value, bool):
            raise self.refuse(name, "must be true or false")
        return value

    def texts(self, name: str, *, most: int, longest: int) -> tuple[str, ...]:
        """Returns an optional array of at most `most` strings without NUL; empty when absent."""
        value = self._rest.pop(name, [])
        if not isinstance(value, list) or len(value) > most:
            raise self.refuse(name, f"must be an array of at most {most} texts")
        for item in value:
            if not isinstance(item, str) or len(item) > longest or "\0" in item:
                raise self.refuse(name, f"must hold texts of at most {longest} characters")
        return tuple(value)

    def members(self, name: str, *, most: int) -> Mapping[str, Any]:
        """Returns an optional table as it stands; empty when absent."""
        value = self._rest.pop(name, {})
        if not isinstance(value, dict) or len(value) > most:
            raise self.refuse(name, f"must be a table of at most {most} keys")
        return value

    def table(self, name: str) -> "Table":
        """Returns an optional table; empty when absent."""
        value = self._rest.pop(name, {})
        if not isinstance(value, dict):
            raise self.refuse(name, "must be a table")
        return Table(value, self.key(name))

    def tables(self, name: str, *, most: int) -> Iterator["Table"]:
        """Yields each table of an optional array of at most `most`."""
        value = self._rest.pop(name, [])
        if (
            not isinstance(value, list)
            or len(value) > most
            or not all(isinstance(one, dict) for one in value)
        ):
            raise self.refuse(name, f"must be an array of at most {most} tables")
        for index, members in enumerate(value):
            yield Table(members, f"{self.key(name)}[{index}]")
