"""Strict JSON in, and ASCII or plain JSON out, without importing ``re`` (A-05, A-26, H-41).

The ordinary ``json`` package costs more than the rest of a hook run, so its C parts are used directly where
they exist.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Order = Callable[[Iterable[str]], list[str]]
    Quote = Callable[[str], str]

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


def _plain_by_package(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_scan: "Callable[[str, int], tuple[object, int]]"
_quoted: "Quote"
_plain: "Quote"
try:
    import _json

    _scan = _json.make_scanner(_Grammar)  # type: ignore[arg-type]  # it reads the attributes of any object
    _quoted = _json.encode_basestring_ascii
    _plain = _json.encode_basestring
except ImportError:  # an interpreter without the accelerator
    import json

    _scan = json.JSONDecoder(parse_float=_finite, parse_constant=_not_json).raw_decode
    _quoted = json.dumps
    _plain = _plain_by_package


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
    return _rendered(value, ", ", ": ", sorted, _quoted).encode("ascii")


def line(value: object) -> bytes:
    """ASCII-escaped JSON without blanks, keys in the order given, and a newline: what a run prints (A-34).

    Raises:
        TypeError: if a value or a key has no JSON form.
    """
    return _rendered(value, ",", ":", list, _quoted).encode("ascii") + b"\n"


def text(value: object) -> str:
    """JSON with sorted keys, the separators ``", "`` and ``": "``, and non-ASCII kept (A-60, H-41).

    Raises:
        TypeError: if a value or a key has no JSON form.
    """
    return _rendered(value, ", ", ": ", sorted, _plain)


def page(value: object) -> bytes:
    """JSON over several lines for a person: sorted keys, two blanks per level, non-ASCII kept (A-58).

    Raises:
        TypeError: if a value or a key has no JSON form.
        UnicodeEncodeError: if a string has no UTF-8 form.
    """
    return (_spread(value, "\n") + "\n").encode("utf-8")


def _spread(value: object, margin: str) -> str:
    deeper = margin + "  "
    if isinstance(value, dict) and value:
        fields = (f"{_plain(key)}: {_spread(value[key], deeper)}" for key in sorted(value))
        return "{" + deeper + ("," + deeper).join(fields) + margin + "}"
    if isinstance(value, (list, tuple)) and value:
        return "[" + deeper + ("," + deeper).join(_spread(item, deeper) for item in value) + margin + "]"
    return text(value)


def _rendered(value: object, item_gap: str, key_gap: str, order: "Order", quote: "Quote") -> str:
    if isinstance(value, str):
        return quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, dict):
        fields = (
            quote(key) + key_gap + _rendered(value[key], item_gap, key_gap, order, quote)
            for key in order(value)
        )
        return "{" + item_gap.join(fields) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + item_gap.join(_rendered(item, item_gap, key_gap, order, quote) for item in value) + "]"
    if isinstance(value, float) and value - value == 0:
        return float.__repr__(value)
    raise TypeError("a value without a JSON form")
