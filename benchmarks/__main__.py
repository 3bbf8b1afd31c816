"""Runs every measurement and prints one table; ``python -m benchmarks NAME ...`` runs some of them."""

import importlib
import sys
from pathlib import Path
from typing import Final

HEADINGS: Final = ("figure", "measured", "baseline, same run", "ratio; target")


def names() -> list[str]:
    """Returns the measurements: the modules beside this one that have ``rows``."""
    folder = Path(__file__).parent
    return sorted(
        path.stem for path in folder.glob("*.py") if "def rows()" in path.read_text(encoding="utf-8")
    )


def main(wanted: list[str]) -> None:
    """Prints the rows of the measurements in ``wanted``, or of all."""
    print("| " + " | ".join(HEADINGS) + " |\n" + "|---" * len(HEADINGS) + "|", flush=True)
    for name in wanted or [name for name in names() if not name.startswith("__")]:
        for row in importlib.import_module(f"benchmarks.{name}").rows():
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
