"""Ties each test to the requirements it proves, by the ids of docs/spec.

An id is defined where it opens a table row, or stands in bold at the start of a paragraph or list item, in
the file that owns its prefix. Every id is cited by a test, or listed below with the reason why not. Both
directions are enforced by reading the sources, so no test has to run.
``python -m tests.requirements --missing`` lists what is neither.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])


def requirement(*ids: str) -> Callable[[Test], Test]:
    """Marks a test as evidence for the given requirement ids, such as ``O-12``."""
    return pytest.mark.requirement(*ids)


# Reason -> ids that no test proves yet. ``T-01..T-64`` means every id of the prefix from one to the other.
DEFERRED: Final[dict[str, str]] = {
    "OAuth callers are not served; the form is reserved": "M-10",
    "Agents, AgentTasks and Runs are not served yet": "T-01..T-64",
    "The Runner drives no coding agent yet": "A-77 R-43 R-70..R-72 X-01..X-70",
    "The acceptance harness is not written yet": "B-01..B-71",
    "Memory, Skills and experience proposals are not served yet": "E-01..E-45",
}

# Id -> what its tests leave unproven.
PARTLY: Final[dict[str, str]] = {
    "G-14": "no AgentTask is stored, so no Goal can be one too many for one",
    "G-33": "no AgentTask is stored, so none can be linked",
    "G-35": "no Agent is stored, so no label can be set",
    "G-53": "no Run sends events yet, so only calls are activity",
    "S-42": "no Run is served yet, so no file change of one is counted",
    "A-15": "Wine 8 keeps nine bits of a file's access control: that NTFS keeps a protected list is unproven",
    "A-105": "Linux runs the list, Wine what docs/windows.md says; no Windows machine, no reparse point",
    "R-45": "the Runner has no Run admission to finish before its next hello",
    "R-47": "no Run sends events yet, so the journal holds the ends of Jobs only",
    "R-65": "no coding agent runs under a supervisor yet, and no test has run on macOS",
}

# Reason -> ids that state nothing a test could contradict.
NOT_TESTABLE: Final[dict[str, str]] = {
    "It says how the specification is read and cited": "I-01..I-06",
    "It bounds what may be claimed; the rules it names are proven by their own ids": "I-07..I-09",
}

SUMMARY: Final = "requirements"
"""The property of a test's report that holds the counts in one line."""

ROOT: Final = Path(__file__).resolve().parent.parent
INDEX: Final = "00-index.md"
PREFIX_ROW: Final = re.compile(r"\| `(?P<file>\d\d-[\w-]+\.md)` \|.*\| (?P<prefix>[A-Z]) \|")
DEFINITION: Final = re.compile(r"(?:(?:- )?\*\*|\| *)(?P<id>(?P<prefix>[A-Z])-\d+[a-z]?)\b(?P<text>.*)")
ID: Final = re.compile(r"(?P<prefix>[A-Z])-(?P<number>\d+)(?P<suffix>[a-z]?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One rule of the specification: where it stands, how it begins, and whether it still holds."""

    id: str
    file: str
    line: int
    opening: str
    withdrawn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Citations:
    """What the tests name: ids with the places that cite them, and what is wrong with the naming itself."""

    places: Mapping[str, tuple[str, ...]]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the requirements stand; ``problems`` is empty exactly when the manifest holds both ways."""

    proven: frozenset[str]
    partly: frozenset[str]
    deferred: frozenset[str]
    not_testable: frozenset[str]
    missing: tuple[Requirement, ...]
    problems: tuple[str, ...]

    def summary(self) -> str:
        """The counts in one line."""
        counts = [
            f"{len(self.proven)} proven",
            f"{len(self.partly)} partly proven",
            f"{len(self.deferred)} deferred",
            f"{len(self.not_testable)} not testable",
        ]
        if self.missing:
            counts.append(f"{len(self.missing)} MISSING")
        return "requirements: " + ", ".join(counts)


def defined(folder: Path = ROOT / "docs" / "spec") -> Iterator[Requirement]:
    """Yields every definition in the specification in reading order, duplicates included."""
    index = (folder / INDEX).read_text(encoding="utf-8")
    prefixes = {row["file"]: row["prefix"] for row in PREFIX_ROW.finditer(index)} | {INDEX: "I"}
    for path in sorted(folder.glob("*.md")):
        fenced = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if line.startswith("```"):
                fenced = not fenced
            found = DEFINITION.match(line)
            if fenced or found is None or found["prefix"] != prefixes[path.name]:
                continue
            text = found["text"].replace("**", "").strip(" |.")
            yield Requirement(
                id=found["id"],
                file=path.name,
                line=number,
                opening=text[:80],
                withdrawn=text.startswith("withdrawn"),
            )


def cited(folder: Path = ROOT / "tests") -> Citations:
    """Returns the ids that the tests in ``folder`` cite; one that is skipped or may fail counts as none."""
    places: dict[str, list[str]] = {}
    problems: list[str] = []
    for path in sorted(folder.rglob("test_*.py")):
        name = path.relative_to(folder.parent).as_posix()
        try:
            tree = ast.parse(path.read_bytes(), filename=name)
        except SyntaxError as error:
            problems.append(f"{name}:{error.lineno}: not Python")
            continue
        unproving = {call for test in _tests(tree) if _is_set_aside(test) for call in _calls(test)}
        for call in _calls(tree):
            for argument in call.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    problems.append(f"{name}:{call.lineno}: a requirement is cited by its literal id")
                elif call not in unproving:
                    places.setdefault(argument.value, []).append(f"{name}:{call.lineno}")
        if path.parent.name != "repo":
            problems += [
                f"{name}:{test.lineno}: {test.name} cites no requirement"
                for test in _tests(tree)
                if not any(_calls_in(test.decorator_list))
            ]
    return Citations(places={key: tuple(value) for key, value in places.items()}, problems=tuple(problems))


def _tests(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def _is_set_aside(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    marks = (node for decorator in test.decorator_list for node in ast.walk(decorator))
    return any(isinstance(mark, ast.Attribute) and mark.attr in {"skip", "xfail"} for mark in marks)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name == "requirement":
            yield node


def _calls_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        yield from _calls(node)


def expanded(listing: str, known: Iterable[str]) -> list[str]:
    """Returns the ids a listing such as ``R-43 T-01..T-64`` names; a range is the known ids between its ends.

    Raises:
        ValueError: when a range has no beginning or end among the known ids.
    """
    known = list(known)
    ids: list[str] = []
    for word in listing.split():
        first, dots, last = word.partition("..")
        if not dots:
            ids.append(word)
            continue
        if not {first, last} <= set(known):
            raise ValueError(f"{word} does not begin and end with ids of the specification")
        ids += sorted((id_ for id_ in known if _order(first) <= _order(id_) <= _order(last)), key=_order)
    return ids


def _order(id_: str) -> tuple[str, int, str]:
    parts = ID.fullmatch(id_)
    if parts is None:
        raise ValueError(f"{id_} is no requirement id")
    return parts["prefix"], int(parts["number"]), parts["suffix"]


def standing(
    definitions: Iterable[Requirement],
    citations: Citations,
    *,
    deferred: Mapping[str, str] = DEFERRED,
    partly: Mapping[str, str] = PARTLY,
    not_testable: Mapping[str, str] = NOT_TESTABLE,
) -> Standing:
    """Returns how every id stands, and each contradiction between specification, tests and listings."""
    rows = list(definitions)
    known = {row.id: row for row in rows}
    held = {row.id for row in rows if not row.withdrawn}
    put_off = [one for listing in deferred.values() for one in expanded(listing, known)]
    untested = [one for listing in not_testable.values() for one in expanded(listing, known)]
    listed = Counter([*put_off, *untested, *partly])
    named = set(citations.places) & set(known)
    missing = tuple(row for row in known.values() if row.id in held - named - set(listed))
    problems = [
        *citations.problems,
        *(f"{one} is defined {n} times" for one, n in Counter(row.id for row in rows).items() if n > 1),
        *(
            f"{where[0]}: {one} is no requirement"
            for one, where in citations.places.items()
            if one not in known
        ),
        *(f"{one} is listed and is no requirement" for one in listed if one not in held),
        *(f"{one} is listed {n} times" for one, n in listed.items() if n > 1),
        *(f"{one} is listed as unproven and cited" for one in [*put_off, *untested] if one in named),
        *(f"{one} is partly proven and nothing cites it" for one in partly if one not in named),
        *(f"{row.file}:{row.line}: {row.id} is neither cited nor deferred" for row in missing),
    ]
    return Standing(
        proven=frozenset(named - set(listed)),
        partly=frozenset(partly),
        deferred=frozenset(put_off),
        not_testable=frozenset(untested),
        missing=missing,
        problems=tuple(problems),
    )


def main(arguments: list[str]) -> int:
    """Prints how the requirements stand and returns 1 when the manifest does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.requirements", description=standing.__doc__)
    parser.add_argument("--missing", action="store_true", help="list the ids neither cited nor deferred")
    wanted = parser.parse_args(arguments)
    found = standing(defined(), cited())
    lines = [found.summary()]
    if wanted.missing:
        for file, count in Counter(one.file for one in found.missing).items():
            lines.append(f"{file} ({count})")
            lines += [f"  {one.id:<6} {one.opening}" for one in found.missing if one.file == file]
    else:
        lines += found.problems
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
