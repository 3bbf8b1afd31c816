"""The files this repository consists of: those git tracks and those it would, never what it ignores."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
LISTING: Final = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A folder and the names, relative and with forward slashes, of the files that count in it."""

    root: Path
    names: tuple[str, ...]

    def text(self, name: str) -> str:
        """The content of one file; bytes that are not UTF-8 appear as replacement characters."""
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def beneath(self, *places: str) -> Iterator[str]:
        """Yields the Python files that are, or lie beneath, one of ``places``."""
        for name in self.names:
            if any(name == place or name.startswith(f"{place}/") for place in places) and self._is_python(
                name
            ):
                yield name

    def syntax(self, name: str) -> ast.Module:
        """The parsed module of one Python file."""
        return ast.parse(self.text(name), filename=name)

    def _is_python(self, name: str) -> bool:
        if "." in Path(name).name:
            return name.endswith(".py")
        return self.text(name).startswith("#!/usr/bin/env python3\n")


def repository() -> Tree:
    """Returns the files of this repository as they are on disk."""
    listed = subprocess.run(LISTING, cwd=ROOT, capture_output=True, check=True, timeout=30).stdout.decode()
    names = sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())
    return Tree(root=ROOT, names=tuple(names))
