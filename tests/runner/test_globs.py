"""Globs against a plain model of them, and the quick look at names against the rules it stands for."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.runner import globs, path_form, tree_walk


def admits(patterns: list[str], path: str) -> bool:
    """Returns what a walk from the root makes of a path."""
    level = globs.root(patterns)
    *folders, name = path.split("/")
    for folder in folders:
        below = level.below(folder)
        if below is None:
            return False
        level = below
    return level.admits(name)


@requirement("R-52")
@pytest.mark.parametrize(
    ("patterns", "admitted", "refused"),
    [
        (["*.py"], ["a.py", "src/a.py", ".py"], ["a.pyc", "a.py/b"]),
        (["src/*.py"], ["src/a.py"], ["a.py", "src/x/a.py", "x/src/a.py"]),
        (["/a.py"], ["a.py"], ["src/a.py"]),
        (["src/**/*.py"], ["src/a.py", "src/x/y/a.py"], ["src", "a.py", "src/a.c"]),
        (["src/**"], ["src/a", "src/x/y"], ["src", "x/src/a"]),
        (["src/"], ["src/a", "src/x/y"], ["src"]),
        (["**/test/*"], ["test/a", "x/y/test/a"], ["test", "test/x/a"]),
        (["**"], ["a", "a/b"], []),
        (["a?c", "[xy]1"], ["abc", "d/x1"], ["ac", "z1"]),
        (["[!a].c"], ["b.c"], ["a.c"]),
        (["*.{c,h}", "{a,b}/{c,d}"], ["x.h", "b/d"], ["x.d", "a/x"]),
        (["!*.py"], ["a.c"], ["a.py", "src/a.py"]),
        (["!build", "*.py"], ["a.py"], ["build/a.py", "x/build/y/a.py", "a.c"]),
        (["!/build/**"], ["build", "x/build/a"], ["build/a", "build/x/a"]),
        (["!test_*", "*.py"], ["a.py"], ["test_a.py"]),
        ([], ["a", "a/b"], []),
    ],
)
def test_a_glob_admits_what_it_says(patterns: list[str], admitted: list[str], refused: list[str]) -> None:
    assert [path for path in [*admitted, *refused] if admits(patterns, path)] == admitted


@requirement("R-52")
@pytest.mark.parametrize(
    "pattern",
    ["", "!", "/", "a//b", "./a", "../a", "a/../b", "a\\b", "a\nb", "{a", "a}", "a" * 513, "{1,2,3,4}" * 4],
)
def test_a_glob_without_a_meaning_is_refused(pattern: str) -> None:
    with pytest.raises(globs.InvalidGlob):
        globs.root([pattern])


NAMES = st.text("ab", min_size=1, max_size=2)
PARTS = st.sampled_from(["a", "b", "*", "**", "a*", "?", "*b", "[ab]"])


@requirement("R-52")
@given(
    pattern=st.lists(PARTS, min_size=1, max_size=4).map("/".join),
    path=st.lists(NAMES, min_size=1, max_size=5).map("/".join),
)
def test_globs_match_as_one_expression_over_the_whole_path_would(pattern: str, path: str) -> None:
    parts = pattern.split("/")
    if len(parts) == 1 and parts != ["**"]:
        parts = ["**", *parts]
    written = "".join(
        "(?:[^/]+/)*" if part == "**" else part.replace("*", "[^/]*").replace("?", "[^/]") + "/"
        for part in parts
    )
    if parts[-1] == "**":
        written += "[^/]+/"
    closed = f"{path}/"
    above = [closed[: slash.end()] for slash in re.finditer("/", closed)]
    assert admits([pattern], path) == (re.fullmatch(written, closed) is not None)
    assert admits([f"!{pattern}"], path) == (not any(re.fullmatch(written, one) for one in above))


ALMOST = st.sampled_from(
    [".git", "id_rsa", "id_ed25519", "a.pem", "A.KEY", ".env", "con", "NUL.txt", "com1", "a.p12", ".ssh", "x"]
)
ODD = st.text(st.characters(codec="utf-8") | st.sampled_from("ab.-_ :\\~\u017fK1"), min_size=1, max_size=12)


@requirement("R-10", "R-13")
@given(st.one_of(ODD, ALMOST, st.builds(str.__add__, ALMOST, ODD), st.builds(str.__add__, ODD, ALMOST)))
def test_a_name_that_needs_no_closer_look_is_allowed_and_harmless(name: str) -> None:
    if tree_walk.PLAIN.fullmatch(name) is None:
        return
    assert path_form.parse(name) == (name,)
    assert not path_form.is_sensitive((name,))
    assert not any(path_form.is_sensitive((name, below)) for below in ("config.json", "config", "auth.json"))
