"""Writes the Runner's configuration once, and later changes only the two lines it wrote for itself.

Everything else in ``runner.toml`` belongs to the operator, who may add agents and rules to it (R-02).
"""

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from webcodex.cli import refusal
from webcodex.runner import private_files

_SERVER_URL: Final = "server_url"
_TOKEN: Final = "token"  # noqa: S105 - the name of a key
_ALLOWED_ROOTS: Final = "allowed_roots"
_MOST_BYTES: Final = 256 * 1024
_TEMPLATE: Final = """\
# Written by `webcodex up`, which later changes server_url and allowed_roots only; the rest is yours.
server_url = {url}
token = {token}
client_id = {client_id}

[policy]
allowed_roots = {roots}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerFile:
    """What ``up`` needs to know of a ``runner.toml``."""

    path: Path
    server_url: str
    token: str = field(repr=False)
    client_id: str
    registry_dir: Path
    allowed_roots: tuple[str, ...]


def create(path: Path, *, url: str, token: str, client_id: str, roots: list[str]) -> None:
    """Leaves a new private configuration at ``path``."""
    text = _TEMPLATE.format(
        url=quoted(url), token=quoted(token), client_id=quoted(client_id), roots=_array(roots)
    )
    private_files.write(path, text.encode())


def read(path: Path) -> RunnerFile:
    """Returns what the configuration at ``path`` says.

    Raises:
        Refused: it cannot be used; the sentence names the key.

    """
    stored = _parsed(path, _text(path))
    policy = stored.get("policy", {})
    roots = policy.get(_ALLOWED_ROOTS, [str(Path.home())]) if isinstance(policy, dict) else None
    registry_dir = stored.get("project_registry_dir", str(path.parent / "projects.d"))
    texts = [stored.get(key) for key in (_SERVER_URL, "token", "client_id")]
    if not all(isinstance(text, str) for text in (*texts, registry_dir)) or not isinstance(roots, list):
        raise refusal.Refused(
            f"{path} lacks server_url, token or client_id. Mend it, or move it away to have a new one made."
        )
    url, token, client_id = texts
    return RunnerFile(
        path=path,
        server_url=str(url),
        token=str(token),
        client_id=str(client_id),
        registry_dir=Path(registry_dir),
        allowed_roots=tuple(str(root) for root in roots),
    )


def point_at(path: Path, url: str) -> None:
    """Leaves the configuration naming the Server at ``url``."""
    _change(path, _SERVER_URL, url)


def replace_token(path: Path, token: str) -> None:
    """Leaves the configuration with another token."""
    _change(path, _TOKEN, token)


def allow(path: Path, root: str) -> None:
    """Leaves ``root`` among the places that may hold projects."""
    _change(path, _ALLOWED_ROOTS, [*read(path).allowed_roots, root])


def quoted(text: str) -> str:
    """Returns ``text`` as a TOML string; JSON's differs in the one character DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _array(texts: list[str]) -> str:
    return f"[{', '.join(quoted(text) for text in texts)}]"


def _change(path: Path, key: str, value: str | list[str]) -> None:
    text = _text(path)
    lines = text.splitlines(keepends=True)
    places = [number for number, line in enumerate(lines) if line.split("=", 1)[0].strip() == key]
    wanted = _parsed(path, text)
    holder = wanted.setdefault("policy", {}) if key == _ALLOWED_ROOTS else wanted
    holder[key] = value
    shown = f"{key} = {quoted(value) if isinstance(value, str) else _array(value)}"
    if len(places) == 1:
        lines[places[0]] = f"{shown}\n"
    changed = "".join(lines)
    if not _parses_to(changed, wanted):
        line = "another token" if key == _TOKEN else f"this line: {shown}"
        raise refusal.Refused(
            f"{path} holds {key} in a form that is not changed here. Edit it to hold {line}"
        )
    private_files.write(path, changed.encode())


def _parses_to(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _text(path: Path) -> str:
    try:
        content, _ = private_files.read(path, most_bytes=_MOST_BYTES)
        return content.decode()
    except private_files.NotPrivate as error:
        raise refusal.Refused(f"{path} {error}. Make it so with: chmod 600 {path}") from None
    except (OSError, UnicodeDecodeError):
        raise refusal.Refused(f"{path} cannot be read as UTF-8 text.") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refusal.Refused(f"{path} is not valid TOML: {error}.") from None
