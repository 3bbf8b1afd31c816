"""What the Server writes to stderr: one line each, and no text of an exception (M-02)."""

import logging

from tests.requirements import requirement
from webcodex.server import logs


def line(message: str, *arguments: object, error: BaseException | None = None) -> str:
    info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("webcodex", logging.ERROR, __file__, 1, message, arguments, info)
    return logs.Formatter("level=%(levelname)s %(message)s").format(record)


def fault() -> ValueError:
    try:
        int("PLANTED")
    except ValueError as error:
        return error
    raise AssertionError


@requirement("M-02", "C-09")
def test_an_exception_is_shown_as_its_class_and_place() -> None:
    shown = line("action=request_failed path=%s", "/mcp", error=fault())
    place = f"fault:{fault.__code__.co_firstlineno + 2}"
    assert shown == f"level=ERROR action=request_failed path=/mcp error=ValueError at={place}"
    assert line("action=x", error=ValueError("PLANTED")) == "level=ERROR action=x error=ValueError at=unknown"


@requirement("M-02")
def test_a_line_stays_one_line() -> None:
    assert line("a\nb\r\n%s", "c\x1ed") == "level=ERROR a b c d"
