"""The examples of the documentation: finds the fenced blocks that promise to work, and runs them.

Every ``console`` and ``python`` block of README.md and docs/*.md is such a promise; CONTRIBUTING.md says how
they are read. Whatever is not to be run is written as another kind of block.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.repo import tree

DEADLINE_S: Final = 60
FENCE: Final = re.compile(r"(?P<indent> *)```(?P<language>[\w-]*)\s*")
PAGE: Final = re.compile(r"README\.md|docs/[^/]+\.md")
ANYTHING: Final = "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a page; ``line`` is that of its opening fence."""

    page: str
    line: int
    language: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a console block and the output shown beneath it, empty when none is shown."""

    text: str
    shown: str


def pages(files: tree.Tree) -> dict[str, list[Block]]:
    """Returns the blocks to run of each page that has any, in reading order."""
    named = {name: list(blocks(name, files.text(name))) for name in files.names if PAGE.fullmatch(name)}
    return {name: found for name, found in named.items() if found}


def blocks(page: str, text: str) -> Iterator[Block]:
    """Yields the console and python blocks of one page."""
    opened: tuple[int, str, str] | None = None
    inside: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.fullmatch(line)
        if fence is None:
            inside.append(line)
        elif opened is None:
            opened, inside = (number, fence["language"], fence["indent"]), []
        else:
            first, language, indent = opened
            opened = None
            if language in {"console", "python"}:
                content = "".join(f"{kept.removeprefix(indent)}\n" for kept in inside)
                yield Block(page=page, line=first, language=language, text=content)


def commands(block: Block) -> list[Command]:
    """Returns the commands of a console block, each with the output shown for it.

    Raises:
        ValueError: when the block does not begin with a command.
    """
    found: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(text=line.removeprefix("$ "), shown=""))
        elif not found:
            raise ValueError(f"{block.page}:{block.line}: a console block begins with '$ ' and a command")
        elif line.startswith("> ") and not found[-1].shown:
            found[-1] = Command(text=f"{found[-1].text}\n{line.removeprefix('> ')}", shown="")
        else:
            found[-1] = Command(text=found[-1].text, shown=f"{found[-1].shown}{line}\n")
    return found


def run(block: Block, environment: Mapping[str, str], folder: Path) -> None:
    """Runs one block in ``folder``; afterwards everything in it has succeeded and printed what it shows.

    Raises:
        AssertionError: when a command fails, takes longer than DEADLINE_S, or prints something else.
    """
    place = f"{block.page}:{block.line}"
    if block.language == "python":
        _finished(place, [sys.executable, "-W", "error", "-c", block.text], environment, folder)
        return
    for command in commands(block):
        printed = _finished(f"{place}: {command.text}", ["sh", "-ec", command.text], environment, folder)
        assert not command.shown or matches(command.shown, printed), (
            f"{place}: {command.text}\nshown:\n{command.shown}\nprinted:\n{printed}"
        )


def matches(shown: str, printed: str) -> bool:
    """Says whether the output is the one shown, where ``...`` stands for any text."""
    pattern = ".*".join(re.escape(part) for part in shown.rstrip().split(ANYTHING))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


def _finished(place: str, argv: list[str], environment: Mapping[str, str], folder: Path) -> str:
    with subprocess.Popen(
        argv,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        try:
            printed, complained = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"{place}: not finished after {DEADLINE_S} s") from None
    assert process.returncode == 0, f"{place}: exit code {process.returncode}\n{printed}\n{complained}"
    return printed
