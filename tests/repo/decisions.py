"""The form of docs/decisions: numbered pages of context, choice and what was given up."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from tests.repo import tree

FOLDER: Final = "docs/decisions/"
NAME: Final = re.compile(r"(?P<number>\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md")
STATUS: Final = re.compile(r"Status: (?:accepted|superseded by (?P<successor>\d{4}))")
SECTIONS: Final = ["Context", "Choice", "What we gave up"]


def breaches(files: tree.Tree) -> Iterator[str]:
    """Yields what keeps the decision records from being a gapless series of well-formed pages."""
    names = [name for name in files.names if name.startswith(FOLDER) and name != f"{FOLDER}README.md"]
    numbers = []
    for name in names:
        named = NAME.fullmatch(PurePosixPath(name).name)
        if named is None:
            yield f"{name}: a record is named by four digits and a slug"
            continue
        numbers.append(named["number"])
        yield from _of_page(name, named["number"], files.text(name), names)
    if numbers != [f"{number:04}" for number in range(1, len(numbers) + 1)]:
        yield f"{FOLDER}: records are numbered from 0001 without gap or repetition, not {', '.join(numbers)}"


def _of_page(name: str, number: str, text: str, names: list[str]) -> Iterator[str]:
    lines = text.splitlines()
    if not lines or not re.fullmatch(rf"# {number} \S.*", lines[0]):
        yield f"{name}: the first line is '# {number} Title'"
    statuses = [found for line in lines if (found := STATUS.fullmatch(line))]
    if len(statuses) != 1:
        yield f"{name}: one line says 'Status: accepted' or 'Status: superseded by NNNN'"
    elif (successor := statuses[0]["successor"]) and not any(
        f"{FOLDER}{successor}-" in other for other in names
    ):
        yield f"{name}: its successor {successor} does not exist"
    if [line.removeprefix("## ") for line in lines if line.startswith("## ")] != SECTIONS:
        yield f"{name}: its sections are {', '.join(SECTIONS)}, in this order"
    elif any(not section.strip() for section in re.split(r"^## .*$", text, flags=re.MULTILINE)[1:]):
        yield f"{name}: a section is empty"
