"""Says which paths a request's globs admit, one component at a time (R-52); must never touch a file system.

`*` and `?` match within a component, `**` matches any number of components, `[...]` and `{a,b}` match as in a
shell; a brace is never itself. A glob without `/` is tried on the last component at any depth, another on the
whole project path. `!` excludes, whatever other globs include, and takes all beneath what it matches along.
`dir/` means all beneath `dir`. Every directory has a `Level` of its own, so no path is matched twice.
"""

import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

MAX_GLOB_CHARS: Final = 512
_MAX_ALTERNATIVES: Final = 128

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_REFUSED: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_MAGIC: Final = re.compile(r"[*?\[]")

Component = Callable[[str], object]
"""Truthy for a name that it matches."""


class InvalidGlob(ValueError):
    """A glob has no meaning here."""


def _any_depth(_name: str) -> bool:
    return True


def _any_name(_name: str) -> bool:
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """How far one glob has matched: the components that may come next, by their numbers."""

    components: tuple[Component, ...]
    excludes: bool
    next: frozenset[int]

    def step(self, name: str) -> frozenset[int]:
        reached: set[int] = set()
        for number in self.next:
            if number == len(self.components):
                continue
            component = self.components[number]
            if component is _any_depth:
                reached.add(number)
            elif component(name):
                reached.add(number + 1)
        return _with_skipped(self.components, reached)

    def ends_with(self, name: str) -> bool:
        last = len(self.components) - 1
        return last in self.next and bool(self.components[last](name))

    def moved(self, name: str) -> "_Place":
        return _Place(components=self.components, excludes=self.excludes, next=self.step(name))

    @property
    def is_complete(self) -> bool:
        return len(self.components) in self.next

    @property
    def may_go_on(self) -> bool:
        return any(number < len(self.components) for number in self.next)

    @property
    def takes_all_beneath(self) -> bool:
        return self.is_complete or any(
            self.components[number:] == (_any_depth, _any_name) for number in self.next
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """What the globs say of the entries of one directory."""

    _places: tuple[_Place, ...]
    _has_includes: bool

    def admits(self, name: str) -> bool:
        """Says whether the entry of that name is asked for."""
        if not self._places:
            return True
        admitted = not self._has_includes
        for place in self._places:
            if place.ends_with(name):
                if place.excludes:
                    return False
                admitted = True
        return admitted

    def below(self, name: str) -> "Level | None":
        """Returns the level of a directory here; None when nothing beneath it can be asked for."""
        if not self._places:
            return self
        moved = [place.moved(name) for place in self._places]
        if any(place.excludes and place.takes_all_beneath for place in moved):
            return None
        includes = [place for place in moved if not place.excludes]
        if self._has_includes and not any(place.may_go_on for place in includes):
            return None
        kept = tuple(place for place in moved if place.may_go_on)
        return Level(_places=kept, _has_includes=self._has_includes)


def root(globs: Sequence[str]) -> Level:
    """Returns the level of the project's root.

    Raises:
        InvalidGlob: one is empty, longer than 512 characters, or cannot match a project path.

    """
    alternatives = [alternative for glob in globs for alternative in _alternatives(glob)]
    if len(alternatives) > _MAX_ALTERNATIVES:
        raise InvalidGlob("too many alternatives")
    places = tuple(_start(alternative) for alternative in alternatives)
    return Level(_places=places, _has_includes=not all(place.excludes for place in places))


def listed(value: object, *, most: int) -> tuple[str, ...]:
    """Returns the globs that a request lists; none where the list is null or absent.

    Raises:
        InvalidGlob: it is no list of strings, or holds more than `most`.

    """
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > most or not all(isinstance(glob, str) for glob in value):
        raise InvalidGlob(f"a list of at most {most} strings")
    return tuple(value)


def _start(glob: str) -> _Place:
    excludes = glob.startswith("!")
    pattern = glob.removeprefix("!")
    anchored = "/" in pattern
    parts = pattern.removeprefix("/").split("/")
    if parts[-1] == "" and len(parts) > 1:
        parts[-1] = "**"
    if not all(parts) or {".", ".."} & set(parts):
        raise InvalidGlob("a component is empty or dots alone")
    if not anchored or parts[0] == "**":
        parts = ["**", *parts]
    if parts[-1] == "**":
        parts.append("*")
    components = tuple(_component(part) for part in _without_repeats(parts))
    return _Place(components=components, excludes=excludes, next=_with_skipped(components, {0}))


def _without_repeats(parts: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part != "**" or kept[-1:] != ["**"]:
            kept.append(part)
    return kept


@functools.lru_cache(maxsize=256)
def _component(part: str) -> Component:
    if part == "**":
        return _any_depth
    if part == "*":
        return _any_name
    if _MAGIC.search(part) is None:
        return part.__eq__
    return re.compile(fnmatch.translate(part)).match


def _with_skipped(components: Sequence[Component], numbers: Iterable[int]) -> frozenset[int]:
    """Returns the numbers, and those behind a `**` that matches nothing."""
    reached = set(numbers)
    reached |= {number + 1 for number in reached if components[number : number + 1] == (_any_depth,)}
    return frozenset(reached)


def _alternatives(glob: str) -> list[str]:
    if not 1 <= len(glob) <= MAX_GLOB_CHARS or _REFUSED.search(glob):
        raise InvalidGlob("1 to 512 characters, without controls and backslashes")
    pending, done = [glob], []
    while pending:
        pattern = pending.pop()
        braces = _BRACES.search(pattern)
        if braces is None:
            done.append(pattern)
        else:
            before, after = pattern[: braces.start()], pattern[braces.end() :]
            pending += [before + choice + after for choice in braces[1].split(",")]
        if len(pending) + len(done) > _MAX_ALTERNATIVES:
            raise InvalidGlob("too many alternatives")
    if any("{" in pattern or "}" in pattern for pattern in done):
        raise InvalidGlob("a brace has no partner")
    return done
