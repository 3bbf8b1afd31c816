"""Rules on the text of a project path alone (R-10, R-13); must never touch a file system."""

import re
from collections.abc import Sequence
from typing import Final

from webcodex.core import sensitive_paths

MAX_PATH_BYTES: Final = 4096
MAX_COMPONENT_BYTES: Final = 255

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(?:\..*)?")


class PathRefused(Exception):
    """A path may not be used; `reason` is a word of R-51."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse(path: str) -> tuple[str, ...]:
    """Returns the components of a project path, without ``.``; none at all for the root itself.

    Raises:
        PathRefused: `invalid_path`, whatever R-10 refuses.

    """
    try:
        size_bytes = len(path.encode())
    except UnicodeEncodeError:
        raise PathRefused("invalid_path") from None
    if not 1 <= size_bytes <= MAX_PATH_BYTES or path.startswith(("/", "~")):
        raise PathRefused("invalid_path")
    components = path.split("/")
    if not all(component == "." or _is_allowed(component) for component in components):
        raise PathRefused("invalid_path")
    return tuple(component for component in components if component != ".")


def is_sensitive(components: Sequence[str]) -> bool:
    """Says whether a path names or lies beneath what R-13 withholds, in any spelling of case and Unicode."""
    return sensitive_paths.is_sensitive(components)


def _is_allowed(component: str) -> bool:
    return (
        component != ""
        and len(component.encode()) <= MAX_COMPONENT_BYTES
        and "\\" not in component
        and ":" not in component
        and component[-1] not in ". "
        and _CONTROL.search(component) is None
        and _DEVICE.fullmatch(component.casefold()) is None
    )
