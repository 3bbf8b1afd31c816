"""The examples of the documentation work, and an example that does not is noticed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repo import examples, tree

PAGES = examples.pages(tree.repository())
PAGE = """
```sh
$ not run
```
  ```console
  $ echo one \\
  > two
  one two
  $ true
  ```
```python
print("fine")
```
"""


def block(language: str, text: str) -> examples.Block:
    """One block of a page that does not exist."""
    return examples.Block(page="docs/page.md", line=1, language=language, text=text)


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_the_page_work(page: str, run_example: Callable[[examples.Block], None]) -> None:
    for example in PAGES[page]:
        run_example(example)


def test_console_and_python_blocks_are_found_and_others_left_alone() -> None:
    found = list(examples.blocks("docs/page.md", PAGE))
    assert [(one.language, one.line) for one in found] == [("console", 5), ("python", 11)]
    assert examples.commands(found[0]) == [
        examples.Command(text="echo one \\\ntwo", shown="one two\n"),
        examples.Command(text="true", shown=""),
    ]


def test_block_that_begins_with_output_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with"):
        examples.commands(block("console", "one two\n"))


def test_commands_run_in_the_folder_with_the_variables_given(tmp_path: Path) -> None:
    text = '$ echo "$GREETING" > note\n$ cat note && pwd\nhello\n...\n'
    examples.run(block("console", text), {"GREETING": "hello"}, tmp_path)
    examples.run(block("python", 'assert open("note", encoding="utf-8").close() is None\n'), {}, tmp_path)


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("console", "$ echo one\ntwo\n", "printed"),
        ("console", "$ false\n", "exit code 1"),
        ("console", "$ false; true\n", "exit code 1"),
        ("python", "assert False\n", "exit code 1"),
        ("python", "import warnings\nwarnings.warn('old')\n", "exit code 1"),
    ],
)
def test_example_that_does_not_work_is_noticed(language: str, text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"docs/page\.md:1") as caught:
        examples.run(block(language, text), {}, tmp_path)
    assert said in str(caught.value)


def test_example_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(examples, "DEADLINE_S", 0.2)
    with pytest.raises(AssertionError, match="not finished"):
        examples.run(block("console", "$ sleep 60 & wait\n"), {}, tmp_path)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n", "a\n\n", True),
        ('{"id": "...", "n": 1}\n', '{"id": "wc_1", "n": 1}', True),
        ("first\n...\nlast\n", "first\nsecond\nlast\n", True),
        ("a.c\n", "abc\n", False),
        ("a\n", "a\nb\n", False),
    ],
)
def test_dots_stand_for_any_text(shown: str, printed: str, same: bool) -> None:
    assert examples.matches(shown, printed) is same
