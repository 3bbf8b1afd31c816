"""The one command line that an operator pastes into the host's own hook configuration (A-64)."""

import os
import sys

from adapter_kit import paths, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:-+@=,")
_ESCAPED = frozenset('"$`\\')
_WINDOWS_SPECIAL = frozenset('"$`%!')


def text(script: str, arguments: list[str], verb: "Sequence[str]" = ()) -> bytes:
    """``PYTHON -I -S SCRIPT …``, every path absolute, and a newline; the same bytes on every run.

    Raises:
        Refused: ``invalid_arguments`` if a path cannot be written so that a host's shell reads it back.
    """
    return line(script, arguments, verb).encode("utf-8", sys.getfilesystemencodeerrors()) + b"\n"


def line(script: str, arguments: list[str], verb: "Sequence[str]") -> str:
    """The same command line as text; the words of ``verb`` stand at its end as they are.

    Raises:
        Refused: ``invalid_arguments`` as above.
    """
    words = [paths.argument(_absolute(sys.executable)), "-I", "-S", paths.argument(_absolute(script))]
    flags = [argument if argument.startswith("-") else _absolute(argument) for argument in arguments]
    return " ".join(_quoted(word) for word in (*words, *flags, *verb))


def _absolute(path: str) -> str:
    if not path:
        raise refusal.Refused("invalid_arguments")
    absolute = os.path.abspath(path)  # noqa: PTH100  # pathlib costs more than the whole run
    return absolute.replace("\\", "/") if sys.platform == "win32" else absolute


def _quoted(word: str) -> str:
    """The word as sh reads it, and as PowerShell and cmd do for what a Windows path may hold."""
    if all(char in _PLAIN or char > "\x7f" for char in word):
        return word
    if not word.isprintable():
        raise refusal.Refused("invalid_arguments")
    if sys.platform == "win32":
        if _WINDOWS_SPECIAL & set(word):
            raise refusal.Refused("invalid_arguments")
        return f'"{word}"'
    else:  # noqa: RET505  # so that each platform's checker sees its own half
        return '"' + "".join("\\" + char if char in _ESCAPED else char for char in word) + '"'
