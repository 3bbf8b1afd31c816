"""The adapters' own JSON is that of the standard library, and refuses what is not JSON (A-05)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters import kit
from tests.requirements import requirement

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@requirement("A-05", "A-26")
@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_written_text_is_that_of_the_standard_library(value: Any) -> None:
    assert kit.json_text.encode(value) == json.dumps(value, sort_keys=True).encode()
    assert kit.json_text.line(value) == json.dumps(value, separators=(",", ":")).encode() + b"\n"


@requirement("A-05", "A-84")
@settings(max_examples=40, deadline=None)
@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_read_value_is_that_of_the_standard_library(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    try:
        data = f" \t\r\n{text}\n".encode()
    except UnicodeEncodeError:
        data = json.dumps(value, indent=indent).encode()
    assert kit.json_text.decode(data) == value


@requirement("A-05", "A-85")
@settings(deadline=None)
@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn\\u \x00\ufeff', max_size=12))
def test_text_is_read_exactly_when_the_standard_library_reads_it(text: str) -> None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        expected = json.loads(text, parse_constant=refuse)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            kit.json_text.decode(text.encode())
    else:
        assert kit.json_text.decode(text.encode()) == expected


@requirement("A-05")
@pytest.mark.parametrize(
    "data",
    [b"1e999", b"-1e999", b"NaN", b"Infinity", b"-Infinity", b"[" * 200_000, b"\xed\xa0\x80", b'"\xc0\x80"'],
)
def test_what_json_cannot_mean_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        kit.json_text.decode(data)


@requirement("A-05")
@pytest.mark.parametrize("value", [float("inf"), float("nan"), {1, 2}, b"x"])
def test_value_without_a_json_form_is_not_written(value: object) -> None:
    with pytest.raises(TypeError):
        kit.json_text.encode(value)
