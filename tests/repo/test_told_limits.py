"""Holds the documents to the sentences that the specification asks them to say."""

import re
from pathlib import Path

import pytest

from tests.requirements import requirement
from webcodex.tools import errors

ROOT = Path(__file__).resolve().parents[2]
RECOVERY = {"fix_input", "retry_same", "reobserve", "reconcile", "wait", "user_action", "none"}


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@requirement("O-32")
@pytest.mark.parametrize("name", ["README.md", "docs/adapters.md"])
def test_the_provisional_capacities_are_told(name: str) -> None:
    text = _text(name)
    assert "need maintainer review before broad rollout" in text
    assert "no garbage collection" in text


@requirement("A-65", "A-66", "A-70", "A-107")
@pytest.mark.parametrize(
    "sentence",
    [
        "remove its registration first",
        "First run `--flush` with the old configuration, then change `local_session_id`.",
        "free text is not a receipt",
        "Bind the exact, independent local conversation.",
        "Verify the wrong project and the offline case separately.",
        "Never do this against a production Server that lacks these endpoints",
    ],
)
def test_the_adapters_page_tells_what_an_operator_must_know(sentence: str) -> None:
    assert sentence in _text("docs/adapters.md")


@requirement("M-15", "M-16", "G-02")
def test_every_error_word_is_the_specifications_and_has_a_recovery() -> None:
    specified = set(re.findall(r"[a-z][a-z0-9_]+", "".join(map(_text, _spec_files()))))
    assert set(errors.WORDS) - specified == set()
    assert {recovery for _, recovery in errors.WORDS.values()} <= RECOVERY
    assert all(0 < len(sentence) <= 120 for sentence, _ in errors.WORDS.values())


def _spec_files() -> list[str]:
    return [str(path.relative_to(ROOT)) for path in (ROOT / "docs/spec").glob("*.md")]
