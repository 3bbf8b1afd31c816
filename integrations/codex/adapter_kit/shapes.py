"""What a value of a Server's answer must look like: strict types, bounds and closed objects (I-04, I-05)."""

from adapter_kit import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Check = Callable[[object], bool]

_FIRST_PRINTABLE = 0x20
_DELETE = 0x7F
_LAST_CONTROL = 0x9F


def is_whole(value: object, low: int, high: "int | None" = None) -> bool:
    """Whether the value is an int within the bounds; a bool is none."""
    return type(value) is int and low <= value and (high is None or value <= high)


def is_text(value: object, chars: int, *, size_bytes: "int | None" = None) -> bool:
    """Whether the value is a string within both limits that has a UTF-8 form."""
    if not isinstance(value, str) or len(value) > chars:
        return False
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        return False
    return size_bytes is None or size <= size_bytes


def is_made_of(value: object, allowed: str, low: int, high: int) -> bool:
    """Whether the value is a string of ``low`` to ``high`` of the allowed characters."""
    return isinstance(value, str) and low <= len(value) <= high and not value.strip(allowed)


def has_control(text: str) -> bool:
    """Whether the text holds a control character."""
    return any(ord(char) < _FIRST_PRINTABLE or _DELETE <= ord(char) <= _LAST_CONTROL for char in text)


def is_closed(value: object, keys: "Iterable[str]") -> bool:
    """Whether the value is an object with exactly these keys."""
    return isinstance(value, dict) and value.keys() == set(keys)


def is_counted(value: object, limit: int, is_item: "Check", more: "Iterable[str]" = ()) -> bool:
    """Whether the value is a list form of at most ``limit`` items whose counts agree (40.1, H-21, H-36)."""
    if not isinstance(value, dict) or not is_closed(
        value, {"items", "total", "returned", "truncated", *more}
    ):
        return False
    items, total, returned = value["items"], value["total"], value["returned"]
    return (
        isinstance(items, list)
        and len(items) <= limit
        and all(is_item(item) for item in items)
        and is_whole(total, 0)
        and is_whole(returned, len(items), len(items))
        and len(items) <= total
        and value["truncated"] is (len(items) < total)
    )


def is_smaller_than(value: object, size_bytes: int) -> bool:
    """Whether the value's JSON text, measured as H-41 does, has fewer UTF-8 bytes."""
    try:
        return len(json_text.text(value).encode("utf-8")) < size_bytes
    except (ValueError, TypeError, RecursionError):  # a lone surrogate has no UTF-8 form
        return False
