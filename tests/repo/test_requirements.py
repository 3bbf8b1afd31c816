"""The manifest of requirements holds in both directions, and sees each way of breaking it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import requirements

INDEX = "- **I-01** How.\n\n| File | Subject | Prefix |\n| `10-doors.md` | doors | D |\n"
DOORS = (
    "- **D-01 Doors.** A door opens. (D-03 closes it.)\n\n```\n**D-90** an example\n```\n"
    "| Id | Rule |\n| D-02 | withdrawn: it closed |\n| D-03a knob | turns |\n| E-07 | of another file |\n\n"
    "**D-04** A paragraph.\nD-05 in passing, **D-06** too late in the line? no: it opens none\n"
)
TEST = "@requirement({})\ndef test_door_opens() -> None: ...\n"


@pytest.fixture
def definitions(tmp_path: Path) -> list[requirements.Requirement]:
    """The requirements of a small specification."""
    (tmp_path / "00-index.md").write_text(INDEX, encoding="utf-8")
    (tmp_path / "10-doors.md").write_text(DOORS, encoding="utf-8")
    return list(requirements.defined(tmp_path))


def cited(folder: Path, *sources: str) -> requirements.Citations:
    """What test files of these contents cite."""
    tests = folder / "tests"
    tests.mkdir(exist_ok=True)
    for number, source in enumerate(sources):
        (tests / f"test_{number}.py").write_text(source, encoding="utf-8")
    return requirements.cited(tests)


def test_every_requirement_is_cited_or_deferred_and_every_citation_exists(
    record_property: Callable[[str, object], None],
) -> None:
    found = requirements.standing(requirements.defined(), requirements.cited())
    record_property(requirements.SUMMARY, found.summary())
    assert list(found.problems) == []


def test_ids_are_defined_by_rows_and_by_bold_openings_in_the_file_of_their_prefix(
    definitions: list[requirements.Requirement],
) -> None:
    assert [(one.id, one.line, one.withdrawn) for one in definitions] == [
        ("I-01", 1, False),
        ("D-01", 1, False),
        ("D-02", 7, True),
        ("D-03a", 8, False),
        ("D-04", 11, False),
    ]
    assert definitions[1].opening == "Doors. A door opens. (D-03 closes it.)"


def test_specification_defines_what_its_readers_rely_on() -> None:
    ids = [one.id for one in requirements.defined()]
    assert {"M-24a", "A-106", "H-41", "C-20", "O-32"} <= set(ids)
    assert len(ids) == len(set(ids)) > 450


def test_citations_are_read_from_decorators_and_parameter_sets(tmp_path: Path) -> None:
    found = cited(
        tmp_path,
        TEST.format('"D-01", "D-04"'),
        '@mark.parametrize("a", [param(1, marks=requirement("D-03a"))])\nasync def test_a(a): ...\n',
    )
    assert set(found.places) == {"D-01", "D-03a", "D-04"}
    assert found.places["D-04"] == ("tests/test_0.py:1",)
    assert found.problems == ()


@pytest.mark.parametrize("mark", ['@pytest.mark.skip(reason="later")', "@pytest.mark.xfail"])
def test_skipped_test_proves_nothing(mark: str, tmp_path: Path) -> None:
    assert cited(tmp_path, f"{mark}\n{TEST.format(repr('D-01'))}").places == {}


def test_test_without_a_citation_or_with_a_computed_one_is_named(tmp_path: Path) -> None:
    found = cited(tmp_path, "def test_a() -> None: ...\n", TEST.format("*IDS"))
    assert list(found.problems) == [
        "tests/test_0.py:1: test_a cites no requirement",
        "tests/test_1.py:1: a requirement is cited by its literal id",
    ]


def test_unreadable_test_file_is_named(tmp_path: Path) -> None:
    assert list(cited(tmp_path, "x = 1\ndef test_a(:\n").problems) == ["tests/test_0.py:2: not Python"]


def test_manifest_counts_each_kind(definitions: list[requirements.Requirement], tmp_path: Path) -> None:
    found = requirements.standing(
        definitions,
        cited(tmp_path, TEST.format('"D-01", "D-03a"')),
        deferred={"Later": "D-04"},
        partly={"D-03a": "only by hand"},
        not_testable={"It explains": "I-01"},
    )
    assert list(found.problems) == []
    assert found.summary() == "requirements: 1 proven, 1 partly proven, 1 deferred, 1 not testable"


@pytest.mark.parametrize(
    ("ids", "deferred", "partly", "said"),
    [
        ('"D-01"', {}, {}, "10-doors.md:11: D-04 is neither cited nor deferred"),
        ('"D-01"', {"Later": "D-01 D-04"}, {}, "D-01 is listed as unproven and cited"),
        ('"D-01", "D-99"', {"Later": "D-04"}, {}, "tests/test_0.py:1: D-99 is no requirement"),
        ('"D-01"', {"Later": "D-04 D-77"}, {}, "D-77 is listed and is no requirement"),
        ('"D-01"', {"Later": "D-02..D-04"}, {}, "D-02 is listed and is no requirement"),
        ('"D-01"', {"Later": "D-04", "Never": "D-04"}, {}, "D-04 is listed 2 times"),
        ('"D-01"', {}, {"D-04": "the rest"}, "D-04 is partly proven and nothing cites it"),
    ],
)
def test_contradiction_is_named(
    ids: str,
    deferred: dict[str, str],
    partly: dict[str, str],
    said: str,
    definitions: list[requirements.Requirement],
    tmp_path: Path,
) -> None:
    found = requirements.standing(
        definitions, cited(tmp_path, TEST.format(ids)), deferred=deferred, partly=partly, not_testable={}
    )
    assert said in found.problems


def test_id_defined_twice_is_named(definitions: list[requirements.Requirement], tmp_path: Path) -> None:
    found = requirements.standing(
        [*definitions, definitions[1]], cited(tmp_path), deferred={}, not_testable={}
    )
    assert "D-01 is defined 2 times" in found.problems


def test_range_takes_in_the_known_ids_between_its_ends() -> None:
    known = ["D-01", "D-02", "D-02a", "D-10", "E-03"]
    assert requirements.expanded("E-03 D-02..D-10", known) == ["E-03", "D-02", "D-02a", "D-10"]
    with pytest.raises(ValueError, match="does not begin and end"):
        requirements.expanded("D-01..D-11", known)
