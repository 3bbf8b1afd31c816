"""The repository keeps its own rules, and each rule sees its breach."""

from pathlib import Path

import pytest

from tests.repo import rules, tree

CHANGELOG = (
    "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing that\n  works.\n\n## [0.1.0] - 2026-01-31\n"
)
RECORD = (
    "# 0001 A choice\n\nStatus: accepted\n\n## Context\n\na\n\n## Choice\n\nb\n\n## What we gave up\n\nc\n"
)
HOOK = "import json\nfrom adapter_kit import outbox\n"
LONG = "def long() -> None:\n" + "    print()\n" * 40
DOCUMENTED = 'def long() -> None:\n    """One.\n\n    Two.\n    """\n' + "    print()\n" * 39


def planted(folder: Path, files: dict[str, str]) -> tree.Tree:
    """A tree of exactly these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return tree.Tree(root=folder, names=tuple(sorted(files)))


@pytest.mark.parametrize("rule", rules.RULES)
def test_repository_keeps_the_rule(rule: str) -> None:
    assert list(rules.RULES[rule](tree.repository())) == []


@pytest.mark.parametrize(
    ("rule", "files"),
    [
        ("limits", {"src/webcodex/core/a.py": "\n" * 400, "src/webcodex/a/b/c/d.py": DOCUMENTED}),
        ("imports", {"integrations/codex/hook.py": HOOK, "integrations/codex/adapter_kit/outbox.py": ""}),
        ("imports", {"integrations/codex/adapter_kit/files_windows.py": "import ctypes\n"}),
        ("imports", {"integrations/codex/hook.py": "import _sha2\nimport _sha256\n"}),
        ("imports", {"src/webcodex/server/app.py": "import starlette\n"}),
        ("words", {"a.md": "see src/work/ and https://example.com/work/\n"}),
        ("changelog", {"CHANGELOG.md": CHANGELOG}),
        ("decisions", {"docs/decisions/README.md": "", "docs/decisions/0001-a-choice.md": RECORD}),
    ],
)
def test_well_formed_files_break_no_rule(rule: str, files: dict[str, str], tmp_path: Path) -> None:
    assert list(rules.RULES[rule](planted(tmp_path, files))) == []


@pytest.mark.parametrize(
    ("rule", "name", "text", "said"),
    [
        ("limits", "tests/test_a.py", "\n" * 401, "401 lines"),
        ("limits", "src/webcodex/core/a.py", LONG, "long has 41 lines"),
        ("limits", "scripts/check", f"#!/usr/bin/env python3\n{LONG}", "long has 41 lines"),
        ("limits", "src/webcodex/a/b/c/d/e.py", "", "4 packages deep"),
        ("imports", "integrations/codex/hook.py", "def f() -> None:\n    import pydantic\n", "pydantic"),
        ("imports", "integrations/codex/hook.py", "from urllib import request\n", "urllib"),
        ("imports", "integrations/codex/hook.py", "import ctypes\n", "ctypes"),
        ("imports", "scripts/demo.py", "from webcodex.core import ids\n", "webcodex.core"),
        ("imports", "src/webcodex/runner/supervisor.py", "import psutil\n", "psutil"),
        ("words", "docs/a.md", "as in /wor" + "k/here\n", "means nothing"),
        ("words", "README.md", "see shar" + "ed/spec\n", "means nothing"),
    ],
)
def test_breach_is_named_with_its_place(rule: str, name: str, text: str, said: str, tmp_path: Path) -> None:
    (breach,) = rules.RULES[rule](planted(tmp_path, {name: text}))
    assert breach.startswith(name)
    assert said in breach


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        ("# Changelog", "# Changes", "first line"),
        ("## [Unreleased]", "## Unreleased", "first section"),
        ("## [0.1.0] - 2026-01-31", "## 0.1.0", "is headed"),
        ("## [0.1.0]", "## [0.1.0] - 2026-01-30\n## [0.2.0]", "newest first"),
        ("### Added", "### New", "a section holds"),
        ("### Added", "### Fixed\n### Added", "a section holds"),
        ("### Added", "### Added\n### Added", "a section holds"),
        ("- A thing", "A thing", "list item"),
        ("### Added", "", "list item"),
    ],
)
def test_changelog_of_another_form_is_refused(written: str, instead: str, said: str, tmp_path: Path) -> None:
    files = planted(tmp_path, {"CHANGELOG.md": CHANGELOG.replace(written, instead, 1)})
    assert any(said in breach for breach in rules.RULES["changelog"](files))


def test_missing_changelog_is_refused(tmp_path: Path) -> None:
    assert list(rules.RULES["changelog"](planted(tmp_path, {}))) == ["CHANGELOG.md: missing"]


@pytest.mark.parametrize(
    ("name", "written", "instead", "said"),
    [
        ("0001-A_choice.md", "", "", "four digits"),
        ("0002-a-choice.md", "# 0001", "# 0002", "without gap"),
        ("0001-a-choice.md", "# 0001 A", "# A", "first line"),
        ("0001-a-choice.md", "Status: accepted", "", "one line says"),
        ("0001-a-choice.md", "accepted", "superseded by 0009", "0009 does not exist"),
        ("0001-a-choice.md", "## Choice", "## Decision", "sections"),
        ("0001-a-choice.md", "\nb\n", "", "is empty"),
    ],
)
def test_decision_record_of_another_form_is_refused(
    name: str, written: str, instead: str, said: str, tmp_path: Path
) -> None:
    files = planted(tmp_path, {f"docs/decisions/{name}": RECORD.replace(written, instead, 1)})
    assert any(said in breach for breach in rules.RULES["decisions"](files))


def test_superseded_record_names_a_record_that_exists(tmp_path: Path) -> None:
    names = {
        "docs/decisions/0001-a-choice.md": RECORD.replace("accepted", "superseded by 0002"),
        "docs/decisions/0002-another.md": RECORD.replace("# 0001", "# 0002"),
    }
    assert list(rules.RULES["decisions"](planted(tmp_path, names))) == []
