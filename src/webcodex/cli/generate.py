"""Writes the generated pages from the tables they show, or says which are stale.

``python -m webcodex.cli.generate`` writes them; with ``--check`` it writes nothing, names each stale file and
exits 1 when there is one.
"""

import sys
from pathlib import Path
from typing import Final

import click

import webcodex
from webcodex.cli import state_pages, tool_page, tool_specs

ROOT: Final = Path(webcodex.__file__).resolve().parents[2]
STATES: Final = Path("docs/states")


def pages() -> dict[Path, str]:
    """Returns every generated file, by its path in the repository, with what it should hold."""
    found = {Path("docs/tools.md"): tool_page.text()}
    found |= {STATES / f"{name}.md": text for name, text in state_pages.texts().items()}
    found[Path("src/webcodex/cli") / tool_specs.FILE.name] = tool_specs.generated()
    return found


def stale(root: Path, wanted: dict[Path, str]) -> list[str]:
    """Returns a sentence for each file beneath ``root`` that is not what it should be."""
    said = []
    for path, text in wanted.items():
        if not (root / path).exists():
            said.append(f"{path} is missing.")
        elif (root / path).read_text(encoding="utf-8") != text:
            said.append(f"{path} is stale.")
    return said + [f"{path} shows a table that is gone." for path in _left_over(root, wanted)]


def write(root: Path, wanted: dict[Path, str]) -> None:
    """Leaves every generated file beneath ``root`` as it should be."""
    for path, text in wanted.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    for path in _left_over(root, wanted):
        (root / path).unlink()


def _left_over(root: Path, wanted: dict[Path, str]) -> list[Path]:
    present = (path.relative_to(root) for path in sorted((root / STATES).glob("*.md")))
    return [path for path in present if path not in wanted]


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; name each stale file and exit 1 if there is one.")
def main(*, check: bool) -> None:
    """Write the pages that are generated from tables in the sources."""
    wanted = pages()
    if not check:
        write(ROOT, wanted)
        return
    said = stale(ROOT, wanted)
    for sentence in said:
        click.echo(sentence)
    if said:
        click.echo("Write them anew with: make generate")
        sys.exit(1)


if __name__ == "__main__":
    main()
