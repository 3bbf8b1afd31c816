"""Finds the lines of one file that match a pattern, each line for itself (R-52); must never read a file.

A line ends before its line feed, or before a carriage return and line feed; a line feed at the end of the
file begins no further line. A pattern never matches across lines. Most bytes are only looked at by `find`.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

MAX_LINE_BYTES: Final = 512
_PIECE_BYTES: Final = 1024 * 1024
_CONTINUATION: Final = range(0x80, 0xC0)
_TOKEN: Final = re.compile(
    r"(?P<unclear>\(\?|\\[a-zA-Z0-9]*[0-9xuUN])"
    r"|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<optional>[*?]|\{\d*(?:,\d*)?\})"
    r"|(?P<open>\()|(?P<close>\))|(?P<choice>\|)"
    r"|(?P<other>[.^$+{}\[\]]|\\[a-zA-Z])"
    r"|\\?(?P<text>.)",
    re.DOTALL,
)
"""What a regular expression is made of, as far as it matters which text every match must hold."""


class InvalidPattern(ValueError):
    """No line can match the pattern, or it is no regular expression."""


class Hit(NamedTuple):
    """One matching line: its number from 1, its bytes in the file, and where in them the match begins."""

    number: int
    start: int
    end: int
    match: int


Finder = Callable[[bytes], Iterator[Hit]]


def literal(pattern: str, *, case_sensitive: bool) -> Finder:
    """Returns what finds the lines that hold exactly this text.

    Where case does not count, an ASCII pattern matches ASCII letters only.

    Raises:
        InvalidPattern: the text holds a line end.

    """
    if "\n" in pattern or "\r" in pattern:
        raise InvalidPattern("a line holds no line end")
    needle = pattern.encode()
    if case_sensitive:
        return lambda content: _with_text(content, content, needle) if needle in content else iter(())
    if pattern.isascii():
        needle = needle.lower()
        return lambda content: _with_text(content, content.lower(), needle)
    return regex(re.escape(pattern), case_sensitive=False)


def regex(pattern: str, *, case_sensitive: bool) -> Finder:
    """Returns what finds the lines that a Python regular expression matches somewhere.

    Raises:
        InvalidPattern: it does not compile, or holds a line feed.

    """
    if "\n" in pattern:
        raise InvalidPattern("a line holds no line feed")
    flags = re.NOFLAG if case_sensitive else re.IGNORECASE
    try:
        expression = re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidPattern("not a regular expression") from error
    needed = _needed_text(pattern).encode()
    if case_sensitive:
        return lambda content: _with_match(content, expression) if needed in content else iter(())
    folded = needed.lower()

    def find(content: bytes) -> Iterator[Hit]:
        # Outside ASCII a letter may match one that lower() does not make equal to it.
        if content.isascii() and folded not in content.lower():
            return iter(())
        return _with_match(content, expression)

    return find


def shown(content: bytes, hit: Hit) -> str:
    """Returns at most 512 bytes of the hit's line, cut on code points, that hold where the match begins."""
    start, end = hit.start, hit.end
    if end - start > MAX_LINE_BYTES:
        start = max(start, min(hit.match - MAX_LINE_BYTES // 4, end - MAX_LINE_BYTES))
        while start > hit.start and content[start] in _CONTINUATION:
            start += 1
    return content[start : min(end, start + MAX_LINE_BYTES)].decode(errors="ignore")


def before(content: bytes, hit: Hit, count: int) -> list[str]:
    """Returns the `count` lines before the hit, or fewer at the file's beginning, each cut to 512 bytes."""
    lines: list[str] = []
    end = hit.start - 1
    while end >= 0 and len(lines) < count:
        start = content.rfind(b"\n", 0, end) + 1
        lines.append(_cut(content, start, end))
        end = start - 1
    return lines[::-1]


def after(content: bytes, hit: Hit, count: int) -> list[str]:
    """Returns the `count` lines after the hit, or fewer at the file's end, each cut to 512 bytes."""
    lines: list[str] = []
    start = _next_line(content, hit.end)
    while start < len(content) and len(lines) < count:
        end = _line_end(content, start)
        lines.append(_cut(content, start, end))
        start = end + 1
    return lines


def _cut(content: bytes, start: int, end: int) -> str:
    if content[end - 1 : end] == b"\r" and end > start:
        end -= 1
    return content[start : min(end, start + MAX_LINE_BYTES)].decode(errors="ignore")


def _line_end(content: bytes, start: int) -> int:
    end = content.find(b"\n", start)
    return len(content) if end < 0 else end


def _next_line(content: bytes, end: int) -> int:
    return _line_end(content, end) + 1


def _with_text(content: bytes, searched: bytes, needle: bytes) -> Iterator[Hit]:
    """Yields the lines of `content` where `searched`, of the same length, holds the needle."""
    number, counted, position = 1, 0, 0
    while (match := searched.find(needle, position)) >= 0:
        number += content.count(b"\n", counted, match)
        start = content.rfind(b"\n", 0, match) + 1
        position = counted = _line_end(content, match)
        yield Hit(number=number, start=start, end=_without_return(content, start, position), match=match)


def _with_match(content: bytes, expression: re.Pattern[str]) -> Iterator[Hit]:
    search, number = expression.search, 0
    for start, piece in _pieces(content):
        is_ascii, position = piece.isascii(), start
        lines = piece.decode().split("\n")
        if lines[-1] == "":
            lines.pop()
        for ended in lines:
            number += 1
            line = ended.removesuffix("\r")
            found = search(line)
            if found is not None:
                match = position + len(line[: found.start()].encode())
                yield Hit(number=number, start=position, end=position + len(line.encode()), match=match)
            position += (len(ended) if is_ascii else len(ended.encode())) + 1


def _pieces(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields whole lines, some 1 MiB of them at a time, so that few strings exist at once."""
    start = 0
    while start < len(content):
        end = _next_line(content, min(start + _PIECE_BYTES, len(content)))
        yield start, content[start:end]
        start = end


def _without_return(content: bytes, start: int, end: int) -> int:
    return end - 1 if end > start and content[end - 1 : end] == b"\r" else end


def _needed_text(expression: str) -> str:
    """Returns a text that every match holds, as long as a plain look finds it; "" where it finds none."""
    runs, depth = [""], 0
    for token in _TOKEN.finditer(expression):
        kind = token.lastgroup
        if kind == "unclear" or (kind == "choice" and depth == 0):
            return ""
        if kind == "text" and depth == 0:
            runs[-1] += token["text"]
            continue
        if kind == "optional":
            runs[-1] = runs[-1][:-1]
        depth += (kind == "open") - (kind == "close")
        runs.append("")
    return max(runs, key=len)
