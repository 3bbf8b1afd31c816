"""Strict JSON in and ASCII JSON out, without importing ``re`` (A-05, A-26).

The ordinary ``json`` package costs more than the rest of a hook run, so its C parts are used directly where
they exist.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Order = Callable[[Iterable[str]], list[str]]

_BLANK = " \t\n\r"
_INFINITE = (float("inf"), float("-inf"))


def _finite(text: str) -> float:
    value = float(text)
    if value in _INFINITE:
        raise ValueError("a number beyond the range of a float")
    return value


def _not_json(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


class _Grammar:
    """What the scanner accepts: RFC 8259 and nothing else."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = staticmethod(_finite)
    parse_int = int
    parse_constant = staticmethod(_not_json)


_scan: "Callable[[str, int], tuple[object, int]]"
_quoted: "Callable[[str], str]"
try:
    import _json

    _scan = _json.make_scanner(_Grammar)  # type: ignore[arg-type]  # it reads the attributes of any object
    _quoted = _json.encode_basestring_ascii
except ImportError:  # an interpreter without the accelerator
    import json

    _scan = json.JSONDecoder(parse_float=_finite, parse_constant=_not_json).raw_decode
    _quoted = json.dumps


def decode(data: bytes) -> object:
    """The value of one strict UTF-8 JSON document without BOM, blanks around it allowed.

    Raises:
        ValueError: for anything else, trailing text, NaN, infinity and too deep nesting included.
    """
    text = data.decode("utf-8")
    start = len(text) - len(text.lstrip(_BLANK))
    try:
        value, end = _scan(text, start)
    except (StopIteration, SystemError):
        # Before Python 3.12 the accelerator looks for its error type in an imported ``json.decoder`` and
        # fails with SystemError where there is none.
        raise ValueError("not a JSON document") from None
    except RecursionError:
        raise ValueError("a JSON document nested too deeply") from None
    if text[end:].strip(_BLANK):
        raise ValueError("text after the JSON document")
    return value


def encode(value: object) -> bytes:
    """ASCII-escaped JSON with sorted keys and the separators ``", "`` and ``": "`` (A-26).

    Raises:
        TypeError: if a value or a key has no JSON form.
    """
    return _rendered(value, ", ", ": ", sorted).encode("ascii")


def line(value: object) -> bytes:
    """ASCII-escaped JSON without blanks, keys in the order given, and a newline: what a run prints (A-34).

    Raises:
        TypeError: if a value or a key has no JSON form.
    """
    return _rendered(value, ",", ":", list).encode("ascii") + b"\n"


def _rendered(value: object, item_gap: str, key_gap: str, order: "Order") -> str:
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, dict):
        fields = (
            _quoted(key) + key_gap + _rendered(value[key], item_gap, key_gap, order) for key in order(value)
        )
        return "{" + item_gap.join(fields) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + item_gap.join(_rendered(item, item_gap, key_gap, order) for item in value) + "]"
    if isinstance(value, float) and value - value == 0:
        return float.__repr__(value)
    raise TypeError("a value without a JSON form")
