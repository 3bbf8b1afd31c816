"""Shows what changed in single files, as bounded unified diffs (R-52, R-53)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from webcodex.runner import bounded_process, git_safety

MAX_DIFF_BYTES: Final = 64 * 1024
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Git compares longer files as binary; untracked ones are not read."""

_MAX_BATCH_BYTES: Final = 2 * 1024 * 1024
_OPTIONS: Final = (
    "-c",
    "core.quotePath=false",
    "-c",
    f"core.bigFileThreshold={MAX_FILE_BYTES}",
    "-c",
    "diff.autoRefreshIndex=false",
    "--literal-pathspecs",
    "diff",
    "--numstat",
    "--patch",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-renames",
    "--ignore-submodules=all",
    "--diff-algorithm=myers",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--inter-hunk-context=0",
    "-O/dev/null",
)
"""Everything a repository's own settings could change; none of it starts a program or writes the index."""

_COUNTS: Final = re.compile(rb"(\d+|-)\t(\d+|-)\t(.+)")
_SECTION: Final = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_QUOTED: Final = re.compile(r"[\x00-\x1f\x7f\"\\]")
_ESCAPES: Final = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Diff:
    """What changed in one file; None is what is not known, or what there is no text of."""

    additions: int | None = None
    deletions: int | None = None
    binary: bool | None = None
    text: str | None = None
    is_cut: bool = False


UNKNOWN: Final = Diff()
UNCHANGED: Final = Diff(additions=0, deletions=0, binary=False)


def tracked(
    repository: git_safety.Repository, base: str, paths: Sequence[str], context: int
) -> dict[str, Diff]:
    """Returns the diff of each path from the commit or tree `base` to the working tree.

    Raises:
        GitFailed: Git cannot be started.
        GitLate: the deadline passed.

    """
    arguments = [*_OPTIONS, f"--unified={context}", base, "--", *paths]
    outcome = repository.run(arguments, most_bytes=_MAX_BATCH_BYTES)
    is_whole = outcome.ending is bounded_process.Ending.EXITED
    if (not is_whole or outcome.exit_code != 0) and len(paths) > 1:
        each = [tracked(repository, base, [path], context) for path in paths]
        return {path: diff for diffs in each for path, diff in diffs.items()}
    if is_whole and outcome.exit_code != 0:
        return dict.fromkeys(paths, UNKNOWN)
    return _parse(outcome.output, paths)


def untracked(path: str, mode: int, content: bytes) -> Diff:
    """Returns the diff that adds a whole file."""
    if b"\0" in content:
        return Diff(binary=True)
    header = f"diff --git {quoted(f'a/{path}')} {quoted(f'b/{path}')}\nnew file mode {mode:o}\n"
    lines = content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
    if lines == 0:
        return _cut(header.encode(), Diff(additions=0, deletions=0, binary=False))
    hunk = f"--- /dev/null\n+++ {quoted(f'b/{path}')}\n@@ -0,0 +1{'' if lines == 1 else f',{lines}'} @@\n"
    excerpt = content[: MAX_DIFF_BYTES + 1]
    added = b"".join(b"+" + line + b"\n" for line in excerpt.removesuffix(b"\n").split(b"\n"))
    if len(excerpt) == len(content) and not content.endswith(b"\n"):
        added += b"\\ No newline at end of file\n"
    return _cut((header + hunk).encode() + added, Diff(additions=lines, deletions=0, binary=False))


def quoted(name: str) -> str:
    """Returns a name as Git writes it where it has no bytes of its own to quote."""
    if _QUOTED.search(name) is None:
        return name
    return f'"{_QUOTED.sub(_escape, name)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in '"\\':
        return f"\\{character}"
    letter = _ESCAPES.get(character)
    return f"\\{ord(character):03o}" if letter is None else f"\\{letter}"


def _parse(output: bytes, paths: Sequence[str]) -> dict[str, Diff]:
    heads = {f"diff --git {quoted(f'a/{path}')} {quoted(f'b/{path}')}".encode(): path for path in paths}
    names = {quoted(path).encode(): path for path in paths}
    numbers, _, patches = output.partition(b"\n\n")
    texts = dict.fromkeys(paths, b"")
    for section in _SECTION.split(patches):
        path = heads.get(section.partition(b"\n")[0])
        if path is not None:
            texts[path] += section
    diffs = dict.fromkeys(paths, UNCHANGED)
    for line in numbers.split(b"\n"):
        counted = _COUNTS.fullmatch(line)
        path = None if counted is None else names.get(counted[3])
        if counted is None or path is None:
            continue
        if counted[1] == b"-":
            diffs[path] = Diff(binary=True)
        else:
            known = Diff(additions=int(counted[1]), deletions=int(counted[2]), binary=False)
            diffs[path] = _cut(texts[path], known)
    return diffs


def _cut(text: bytes, known: Diff) -> Diff:
    """Returns what is known with at most 64 KiB of the text, in whole lines where they fill half of that.

    What is not UTF-8 is shown as U+FFFD, and never makes the text longer than that.
    """
    shown = text.decode(errors="replace").encode()
    is_cut = len(shown) > MAX_DIFF_BYTES
    if is_cut:
        end = shown.rfind(b"\n", MAX_DIFF_BYTES // 2, MAX_DIFF_BYTES) + 1
        shown = shown[: end or MAX_DIFF_BYTES]
    return replace(known, text=shown.decode(errors="ignore"), is_cut=is_cut)
