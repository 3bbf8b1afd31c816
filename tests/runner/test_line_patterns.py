"""Patterns find the same lines as looking at each line alone, whatever short cut they take."""

import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.runner import line_patterns

TOKENS = r"""
a b ab c é k K \s \w \b \. \\ \1 \n \x61 . * + ? {2} {,1} { } [ab] [^a] []a] ( (?: (?i) (?=a) ) | ^ $
"""
PIECES = st.sampled_from(TOKENS.split())
TEXTS = st.text(st.sampled_from("aabbcé\u017fk .\u212a\n\n\r\\{}"), max_size=24)


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def told(find: line_patterns.Finder, content: bytes) -> list[tuple[int, str, list[str], list[str]]]:
    return [
        (
            hit.number,
            line_patterns.shown(content, hit),
            line_patterns.before(content, hit, 2),
            line_patterns.after(content, hit, 2),
        )
        for hit in find(content)
    ]


def expected(lines: list[str], matching: list[int]) -> list[tuple[int, str, list[str], list[str]]]:
    return [
        (index + 1, lines[index], lines[max(0, index - 2) : index], lines[index + 1 : index + 3])
        for index in matching
    ]


@requirement("R-52")
@settings(max_examples=400)
@given(pattern=st.lists(PIECES, min_size=1, max_size=6).map("".join), text=TEXTS, sensitive=st.booleans())
def test_an_expression_finds_the_lines_that_it_matches_alone(
    pattern: str, text: str, sensitive: bool
) -> None:
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        try:
            expression = re.compile(pattern, re.NOFLAG if sensitive else re.IGNORECASE)
        except re.error:
            with pytest.raises(line_patterns.InvalidPattern):
                line_patterns.regex(pattern, case_sensitive=sensitive)
            return
        find = line_patterns.regex(pattern, case_sensitive=sensitive)
    lines = lines_of(text)
    matching = [index for index, line in enumerate(lines) if expression.search(line)]
    assert told(find, text.encode()) == expected(lines, matching)


@requirement("R-52")
@settings(max_examples=200)
@given(needle=st.text("abé\u017fk.", min_size=1, max_size=2), text=TEXTS)
def test_a_text_is_found_in_every_line_that_holds_it(needle: str, text: str) -> None:
    lines = lines_of(text)
    exactly = [index for index, line in enumerate(lines) if needle in line]
    assert told(line_patterns.literal(needle, case_sensitive=True), text.encode()) == expected(lines, exactly)
    folded = text.replace("a", "A").replace("b", "B").replace("k", "K")
    found = told(line_patterns.literal(needle, case_sensitive=False), folded.encode())
    if needle.isascii():
        assert found == expected(lines_of(folded), exactly)
    assert {index + 1 for index in exactly} <= {number for number, *_ in found}


@requirement("R-52")
def test_whole_lines_are_looked_at_piece_by_piece() -> None:
    content = b"".join(b"%d %s\n" % (number, b"x" * 997) for number in range(3000)) + b"the last one"
    find = line_patterns.regex(r"^(?:0|1500|2999) |last", case_sensitive=True)
    hits = list(find(content))
    assert [hit.number for hit in hits] == [1, 1501, 3000, 3001]
    assert [content[hit.match : hit.match + 5] for hit in hits] == [b"0 xxx", b"1500 ", b"2999 ", b"last "]


@requirement("R-52")
@pytest.mark.parametrize(
    "pattern", ["(", "[", "a{2,1}", "*", "\\", "(?P<1>a)", "a\nb", "(?<=a*)b", "(" * 5000]
)
def test_what_is_no_expression_of_one_line_is_refused(pattern: str) -> None:
    with pytest.raises(line_patterns.InvalidPattern):
        line_patterns.regex(pattern, case_sensitive=True)


@requirement("R-52")
@pytest.mark.parametrize("pattern", ["a\nb", "a\r", "\n"])
def test_a_text_of_several_lines_is_refused(pattern: str) -> None:
    with pytest.raises(line_patterns.InvalidPattern):
        line_patterns.literal(pattern, case_sensitive=True)


@requirement("R-52")
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("needle" + "é" * 300, "needle" + "é" * 253),
        ("é" * 300 + "needle", "é" * 253 + "needle"),
        ("x" * 1000 + "needle" + "y" * 1000, "x" * 128 + "needle" + "y" * 378),
        ("é" * 500 + "needle" + "y" * 1000, "é" * 64 + "needle" + "y" * 378),
        ("x" + "é" * 500 + "needle" + "y" * 1000, "é" * 64 + "needle" + "y" * 378),
        ("xy" + "日" * 300 + "needle" + "y" * 1000, "日" * 42 + "needle" + "y" * 380),
        ("needle", "needle"),
    ],
)
def test_a_long_line_is_cut_on_code_points_around_the_match(line: str, shown: str) -> None:
    content = f"before\n{line}\r\nafter".encode()
    [hit] = line_patterns.literal("needle", case_sensitive=True)(content)
    assert line_patterns.shown(content, hit) == shown
    assert len(shown.encode()) <= 512
