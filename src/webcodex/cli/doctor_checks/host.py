"""Judges Codex's registration of WebCodex, as far as its files and this environment show it (A-64, A-65).

Shows no address, command or value from those files: any of them may hold a secret.
"""

import hmac
import itertools
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from webcodex.cli import page
from webcodex.cli.doctor_checks import checks, standing
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.doctor_checks.codex_files import CodexFiles, Hook
from webcodex.cli.doctor_checks.conversation import Token
from webcodex.cli.doctor_checks.standing import Standing

EVENTS: Final[Mapping[str, frozenset[str]]] = {
    "external_observation_hook.py": frozenset({"PostToolUse"}),
    "session_recovery.py": frozenset({"SessionStart", "UserPromptSubmit"}),
}
_AREA: Final = Area.HOST
_NAME: Final = "webcodex"
_CONFIGURATION: Final = ("--config", "--registry")
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def told(
    now: Standing,
    codex: CodexFiles,
    pat: Token,
    environment: Mapping[str, str],
    registrations: Mapping[str, str],
) -> list[Check]:
    """Returns what can be seen of the host; ``registrations`` print the line of each script anew."""
    lines = [
        checks.unknown(_AREA, "Codex files", f"{file} cannot be read.", f"ls -l {checks.quoted(file)}")
        for file in codex.unreadable
    ]
    lines += _server(now, codex, pat, environment)
    ours = [(hook, script) for hook in codex.hooks if (script := _script(hook)) is not None]
    if not ours:
        found = f"No hook in {codex.folder} runs a script of ours; a project's own .codex is not looked at."
        return [*lines, checks.unknown(_AREA, "Codex hooks", found, next(iter(registrations.values())))]
    lines += [_hook(hook, script, registrations, environment) for hook, script in ours]
    return [*lines, _trust([hook for hook, _ in ours])]


def _trust(ours: list[Hook]) -> Check:
    missing = [hook.event for hook in ours if not hook.is_approved]
    if missing:
        found = (
            f"Codex has no approval on file for {', '.join(missing)}, so it skips what stands there without "
            "a word; approve it in Codex under /hooks."
        )
        return checks.attention(_AREA, "Codex trust", found, "codex")
    found = (
        "Codex has an approval on file for each of them. Whether it is of the present line only Codex knows: "
        "it skips one that has changed since without a word, and shows it under /hooks."
    )
    return checks.unknown(_AREA, "Codex trust", found, "codex")


def _server(now: Standing, codex: CodexFiles, pat: Token, environment: Mapping[str, str]) -> list[Check]:
    name = "Codex registration"
    if isinstance(now.url, standing.Fault):
        return [checks.unknown(_AREA, name, "The Server's address is not known.", now.start)]
    add, config = page.add_to_codex(now.url), codex.folder / "config.toml"
    own = urlsplit(f"{now.url}/mcp")
    registered = next((each for each in codex.servers.values() if _leads_to(each.get("url"), own)), None)
    if registered is None and _NAME in codex.servers:
        found = f"{config} names another address for {_NAME} than {now.url}/mcp."
        return [checks.attention(_AREA, name, found, add)]
    if registered is None:
        found = f"{config} does not name this Server. Other hosts cannot be seen from here."
        return [checks.unknown(_AREA, name, found, add)]
    if registered.get("enabled") is False:
        return [checks.attention(_AREA, name, f"{config} names this Server, but switches it off.", add)]
    return [
        checks.ok(_AREA, name, f"{config} names this Server."),
        _variable(now, registered, pat, environment, add),
    ]


def _leads_to(url: object, own: SplitResult) -> bool:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or (parts.scheme, parts.port) != (own.scheme, own.port) or parts.query:
            return False
        return parts.hostname in {own.hostname, "localhost"} and parts.path.rstrip("/") == own.path
    except ValueError:
        return False


def _variable(
    now: Standing, registered: Mapping[str, Any], pat: Token, environment: Mapping[str, str], add: str
) -> Check:
    name, variable = "Codex token", registered.get("bearer_token_env_var")
    if not isinstance(variable, str) or _VARIABLE.fullmatch(variable) is None:
        if _has_own_header(registered):
            found = "Codex sends an Authorization header of its own; whether it fits is not looked at."
            return checks.unknown(_AREA, name, found, add)
        found = "The entry has no bearer_token_env_var in capitals, so Codex sends no token that can be seen."
        return checks.attention(_AREA, name, found, add)
    value, export = environment.get(variable, ""), page.export(now.found, variable)
    if not value:
        found = f"The variable {variable} is not set in this environment, so Codex started here has no token."
        return checks.attention(_AREA, name, found, export)
    if pat.text and hmac.compare_digest(value.encode(errors="surrogateescape"), pat.text.encode()):
        return checks.ok(_AREA, name, f"The variable {variable} is set in this environment to the PAT.")
    found = f"The variable {variable} is set, but not to this installation's PAT; its value is not tried."
    return checks.unknown(_AREA, name, found, export)


def _has_own_header(registered: Mapping[str, Any]) -> bool:
    tables = (registered.get("http_headers"), registered.get("env_http_headers"))
    names = [name for table in tables if isinstance(table, dict) for name in table]
    return any(name.casefold() == "authorization" for name in names)


def _words(hook: Hook) -> list[str]:
    try:
        return shlex.split(hook.command)
    except ValueError:
        return []


def _script(hook: Hook) -> str | None:
    """Returns the path in a hook's command that ends in the name of a script of ours."""
    return next((word for word in _words(hook) if word.rpartition("/")[2] in EVENTS), None)


def _hook(hook: Hook, script: str, registrations: Mapping[str, str], environment: Mapping[str, str]) -> Check:
    base = script.rpartition("/")[2]
    name = f"{base} on {hook.event}" if hook.event in EVENTS[base] else base
    wrong = _wrong(hook, script, environment)
    if wrong is None:
        found = f"{hook.file} runs it; the script, its interpreter and its configuration are there."
        return checks.ok(_AREA, name, found)
    found = f"{hook.file} runs it, but {wrong}. Replace that line by the one that is printed anew."
    return checks.attention(_AREA, name, found, registrations[base])


def _wrong(hook: Hook, script: str, environment: Mapping[str, str]) -> str | None:
    words = _words(hook)
    interpreter = next((word for word in words if _ASSIGNMENT.match(word) is None), "")
    named = [Path(value) for word, value in itertools.pairwise(words) if word in _CONFIGURATION]
    if not Path(script).is_absolute() or not Path(script).is_file():
        return "the script is not there, and an interpreter that finds none may stop Codex's work"
    if shutil.which(interpreter, path=environment.get("PATH", os.defpath)) is None:
        return "its interpreter is not there"
    if hook.event not in EVENTS[script.rpartition("/")[2]]:
        return "under another event than its own"
    if not named or not named[0].is_file():
        return "its configuration is not there"
    return None
