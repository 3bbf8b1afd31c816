"""The rules this repository keeps about itself, each a function from its files to one sentence per breach.

``python -m tests.repo.rules NAME...`` prints the breaches of the named rules and exits 1 when there are any.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Final

from tests.repo import changelog, decisions, tree

Function = ast.FunctionDef | ast.AsyncFunctionDef

PYTHON: Final = ("src", "integrations", "scripts", "tests", "benchmarks")
PACKAGE: Final = "src/webcodex"
FILE_LINES: Final = 400
FUNCTION_LINES: Final = 40
PACKAGE_DEPTH: Final = 3

# Places that meet the product like a stranger, or run without it: the standard library and themselves.
OUTSIDERS: Final = ("integrations/codex", "scripts", f"{PACKAGE}/runner/supervisor.py")
ADAPTERS: Final = "integrations/codex"
REFUSED_TO_ADAPTERS: Final = frozenset({"asyncio", "ctypes", "sqlite3", "subprocess", "tomllib", "urllib"})
# The standard library of other releases than the one that checks; the module was renamed in 3.12.
OTHER_RELEASES: Final = frozenset({"_sha2", "_sha256"})

# Pieces, so that this file does not break its own rule.
FOREIGN: Final = re.compile(
    r"(?<![\w.~-])(?:/wor" + r"k/|/tmp/bri" + r"ef|shar" + r"ed/(?:design|spec|seeds|host|hooks)\b)"
)


def limits(files: tree.Tree) -> Iterator[str]:
    """Yields each file and function that is too long, and each module that lies too deep."""
    for name in files.beneath(*PYTHON):
        lines = files.text(name).count("\n")
        if lines > FILE_LINES:
            yield f"{name}: {lines} lines, at most {FILE_LINES}: split it by idea"
        depth = len(PurePosixPath(name).parent.parts) - len(PurePosixPath(PACKAGE).parts)
        if name.startswith(f"{PACKAGE}/") and depth > PACKAGE_DEPTH:
            yield f"{name}: {depth} packages deep, at most {PACKAGE_DEPTH}"
        for function in ast.walk(files.syntax(name)):
            if isinstance(function, Function) and (length := _lines(function)) > FUNCTION_LINES:
                place = f"{name}:{function.lineno}"
                yield f"{place}: {function.name} has {length} lines, at most {FUNCTION_LINES}"


def _lines(function: Function) -> int:
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    return _span(function) - (_span(first) if documented else 0)


def _span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def imports(files: tree.Tree) -> Iterator[str]:
    """Yields each import of an outsider that is neither its own nor of the standard library (A-01)."""
    for place in OUTSIDERS:
        allowed = sys.stdlib_module_names | OTHER_RELEASES | _own(files, place)
        for name in files.beneath(place):
            refused = REFUSED_TO_ADAPTERS if place == ADAPTERS else frozenset()
            if name.endswith("_windows.py"):
                refused -= {"ctypes"}
            yield from _refusals(files, name, allowed - refused)


def _own(files: tree.Tree, place: str) -> frozenset[str]:
    inside = [PurePosixPath(name).relative_to(place) for name in files.beneath(place) if name != place]
    return frozenset({path.parts[0].removesuffix(".py") for path in inside} | {PurePosixPath(place).name})


def _refusals(files: tree.Tree, name: str, allowed: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(files.syntax(name)):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module or "."]
        else:
            continue
        for module in imported:
            if module.partition(".")[0] not in allowed:
                yield f"{name}:{node.lineno}: {module} may not be imported here"


def words(files: tree.Tree) -> Iterator[str]:
    """Yields each mention of a place that exists only on the machine of whoever wrote it."""
    for name in files.names:
        for number, line in enumerate(files.text(name).splitlines(), start=1):
            if found := FOREIGN.search(line):
                yield f"{name}:{number}: {found.group()} means nothing outside one machine"


RULES: Final[dict[str, Callable[[tree.Tree], Iterator[str]]]] = {
    "limits": limits,
    "imports": imports,
    "words": words,
    "decisions": decisions.breaches,
    "changelog": changelog.breaches,
}


def main(names: list[str]) -> int:
    """Prints the breaches of the named rules and returns 1 when there are any."""
    files = tree.repository()
    found = [breach for name in names for breach in RULES[name](files)]
    sys.stdout.writelines(f"{breach}\n" for breach in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
