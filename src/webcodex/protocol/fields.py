"""Reads untrusted JSON text into checked values; must never raise anything but `Malformed`."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from webcodex.protocol import bounds

MAX_DEPTH: Final = 64
"""Nested objects and arrays in one frame; deeper text is refused before anything walks it."""

MAX_INTEGER: Final = 2**63 - 1

Value = TypeVar("Value")
JsonObject = Mapping[str, Any]


class Malformed(ValueError):
    """Text that is no frame of this protocol; the message names the field, never its value."""


def _refuse_constant(_name: str) -> object:
    raise Malformed("a number is not finite")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Malformed("a number is not finite")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("an object repeats a key")
    return members


def decode(text: str) -> dict[str, Any]:
    """Returns the JSON object in `text`, once it is bounded, finite and free of repeated keys.

    Raises:
        Malformed: the text is anything else, or is longer than 8 MiB.

    """
    try:
        _check_size(text)
        decoded = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_distinct
        )
    except Malformed:
        raise
    except (ValueError, RecursionError) as error:
        raise Malformed("the frame is not JSON text") from error
    if not isinstance(decoded, dict):
        raise Malformed("the frame is not an object")
    _check_depth(decoded)
    if "\\ud" in text or "\\uD" in text:
        _check_scalar_text(decoded)
    return decoded


def encode(fields: JsonObject) -> str:
    """Returns compact JSON text of `fields`, with non-ASCII characters kept.

    Raises:
        Malformed: the text would be longer than 8 MiB, not finite or not valid UTF-8.

    """
    try:
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        _check_size(text)
    except Malformed:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise Malformed("the frame cannot be written as JSON text") from error
    return text


def encoded_bytes(value: object) -> int:
    """Returns how many UTF-8 bytes `value` takes on the wire, as `encode` writes it."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def _check_size(text: str) -> None:
    if len(text.encode()) > bounds.MAX_FRAME_BYTES:
        raise Malformed("the frame is longer than 8 MiB")


def _check_depth(root: object) -> None:
    level: list[object] = [root]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise Malformed("the frame is nested too deeply")
        below: list[object] = []
        for container in level:
            children = container.values() if isinstance(container, dict) else container
            assert not isinstance(children, str)
            below.extend(child for child in children if isinstance(child, dict | list))  # type: ignore[attr-defined]
        level = below


def _check_scalar_text(root: object) -> None:
    try:
        json.dumps(root, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Malformed("a text holds half a character") from error


class Fields:
    """The members of one JSON object, read by name; each reader raises `Malformed` naming the field."""

    __slots__ = ("_members", "_where")

    def __init__(self, members: object, where: str) -> None:
        if not isinstance(members, dict):
            raise Malformed(f"{where} is not an object")
        self._members: dict[str, Any] = members
        self._where = where

    def _wrong(self, name: str) -> Malformed:
        return Malformed(f"{self._where}.{name} is missing or not allowed")

    def text(self, name: str, *, most: int, least: int = 1) -> str:
        """Returns a string of `least` to `most` characters."""
        value = self._members.get(name)
        if not isinstance(value, str) or not least <= len(value) <= most:
            raise self._wrong(name)
        return value

    def matching(self, name: str, pattern: re.Pattern[str]) -> str:
        """Returns a string that the whole `pattern` matches."""
        value = self._members.get(name)
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            raise self._wrong(name)
        return value

    def text_or_none(self, name: str, *, most: int) -> str | None:
        """Returns a string of at most `most` characters; None when it is null or absent."""
        return None if self._members.get(name) is None else self.text(name, most=most, least=0)

    def word(self, name: str, words: frozenset[str]) -> str:
        """Returns one of the allowed `words`."""
        value = self._members.get(name)
        if not isinstance(value, str) or value not in words:
            raise self._wrong(name)
        return value

    def integer(self, name: str, *, least: int = 0, most: int = MAX_INTEGER) -> int:
        """Returns an integer, never a boolean (I-05), from `least` to `most`."""
        value = self._members.get(name)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(name)
        return value

    def integer_or_none(self, name: str) -> int | None:
        """Returns a non-negative integer; None when it is null or absent."""
        return None if self._members.get(name) is None else self.integer(name)

    def integer_or(self, name: str, default: int, *, least: int, most: int) -> int:
        """Returns an integer from `least` to `most`; `default` when it is null or absent."""
        return default if self._members.get(name) is None else self.integer(name, least=least, most=most)

    def boolean(self, name: str) -> bool:
        """Returns a JSON boolean."""
        value = self._members.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name)
        return value

    def boolean_or_none(self, name: str) -> bool | None:
        """Returns a JSON boolean; None when it is null or absent."""
        return None if self._members.get(name) is None else self.boolean(name)

    def object(self, name: str, *, most_bytes: int = bounds.MAX_FRAME_BYTES) -> JsonObject:
        """Returns an object of at most `most_bytes` on the wire; an absent one is refused."""
        value = self._members.get(name)
        if not isinstance(value, dict) or (
            most_bytes < bounds.MAX_FRAME_BYTES and encoded_bytes(value) > most_bytes
        ):
            raise self._wrong(name)
        return value

    def object_or_none(self, name: str, *, most_bytes: int = bounds.MAX_FRAME_BYTES) -> JsonObject | None:
        """Returns an object; None when it is null or absent."""
        return None if self._members.get(name) is None else self.object(name, most_bytes=most_bytes)

    def flags(self, name: str, *, most: int) -> Mapping[str, bool]:
        """Returns an object of at most `most` booleans."""
        value = self.object(name)
        if len(value) > most or not all(isinstance(flag, bool) for flag in value.values()):
            raise self._wrong(name)
        return value

    def nested(self, name: str) -> "Fields":
        """Returns the members of the object under `name`."""
        return Fields(self._members.get(name), f"{self._where}.{name}")

    def each(self, name: str, read: Callable[["Fields"], Value], *, most: int) -> tuple[Value, ...]:
        """Returns what `read` makes of each object in an array of at most `most`."""
        value = self._members.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name)
        return tuple(read(Fields(item, f"{self._where}.{name}[{index}]")) for index, item in enumerate(value))

    def each_or_none(
        self, name: str, read: Callable[["Fields"], Value], *, most: int
    ) -> tuple[Value, ...] | None:
        """Reads as `each`; None when the array is null or absent."""
        return None if self._members.get(name) is None else self.each(name, read, most=most)

    def whole(self) -> JsonObject:
        """Returns the object as it arrived."""
        return self._members
