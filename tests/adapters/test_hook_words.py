"""Every reason word of the observation hook is met by some test of its own (60.8)."""

import re
from pathlib import Path

from tests.requirements import requirement

HERE = Path(__file__).resolve().parent
SPEC = HERE.parents[1] / "docs" / "spec" / "60-adapters.md"
SCOPES = ("shared", "configuration", "hook")


@requirement("A-34", "A-105")
def test_every_reason_word_is_met_by_a_test() -> None:
    rows = re.findall(r"^\| (\w+) \| (`.*`) \|$", SPEC.read_text(encoding="utf-8"), re.MULTILINE)
    words = {word for scope, listed in rows if scope in SCOPES for word in re.findall(r"`(\w+)`", listed)}
    assert len(words) > 30
    tests = [file for file in HERE.glob("test_*.py") if file.name != Path(__file__).name]
    sources = "".join(file.read_text(encoding="utf-8") for file in tests)
    assert {word for word in words if f'"{word}"' not in sources} == set()
