"""The form of CHANGELOG.md: Keep a Changelog, newest first, Unreleased on top."""

import re
from collections.abc import Iterator
from typing import Final

from tests.repo import tree

NAME: Final = "CHANGELOG.md"
KINDS: Final = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
RELEASE: Final = re.compile(r"\[(?P<version>\d+\.\d+\.\d+)\] - (?P<date>\d{4}-\d{2}-\d{2})")


def breaches(files: tree.Tree) -> Iterator[str]:
    """Yields what keeps the changelog from its form."""
    if NAME not in files.names:
        yield f"{NAME}: missing"
        return
    lines = files.text(NAME).splitlines()
    if lines[:1] != ["# Changelog"]:
        yield f"{NAME}:1: the first line is '# Changelog'"
    headings = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    if headings[:1] != ["[Unreleased]"]:
        yield f"{NAME}: the first section is '## [Unreleased]'"
    releases = [RELEASE.fullmatch(heading) for heading in headings[1:]]
    if None in releases:
        yield f"{NAME}: a release is headed '## [1.2.3] - 2026-01-31'"
    order = [tuple(map(int, found["version"].split("."))) for found in releases if found]
    if order != sorted(set(order), reverse=True):
        yield f"{NAME}: releases stand newest first, each once"
    yield from _entries(lines)


def _entries(lines: list[str]) -> Iterator[str]:
    seen: list[str] = []
    inside = False
    for number, line in enumerate(lines, start=1):
        if line.startswith("## "):
            seen, inside = [], True
        elif line.startswith("### "):
            seen.append(line.removeprefix("### "))
            if seen != [kind for kind in KINDS if kind in seen]:
                yield f"{NAME}:{number}: a section holds {', '.join(KINDS)}, each at most once, in this order"
        elif inside and line and not (seen and re.match(r"- \S|  \S", line)):
            yield f"{NAME}:{number}: an entry is a list item beneath one of {', '.join(KINDS)}"
