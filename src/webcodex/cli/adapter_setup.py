"""Writes the private files of the adapters for one chosen piece of work, and says what is left to do.

It edits no file of a host: the registration is printed, to be pasted and approved there (A-64).
"""

import fcntl
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import webcodex
from webcodex.cli import installation, program, project_registry, refusal, runner_file, server_client
from webcodex.cli.installation import Installation
from webcodex.runner import private_files

SCRIPTS: Final = Path(webcodex.__file__).parents[2] / "integrations" / "codex"
OBSERVATION: Final = SCRIPTS / "external_observation_hook.py"
RECOVERY: Final = SCRIPTS / "session_recovery.py"
_SESSION: Final = re.compile(r"wc_sess_[A-Za-z0-9_-]{1,128}")
_CONVERSATION: Final = re.compile(r"[A-Za-z0-9_.:-]{1,256}")
_MOST_BYTES: Final = 131_072
_MOST_CONFIGURATIONS: Final = 1000
_ENTRY_S: Final = 45.0  # the entry gives up after 30 s
_HOOK_TIMEOUT_S: Final = 15  # the entry gives up after 10 s


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """What was prepared: the two private files, the Project's root, and the line of each hook.

    ``others`` are the Sessions that the conversation was bound to before and still is (A-55).
    """

    config: Path
    registry: Path
    root: str
    observation: str
    recovery: str
    others: tuple[str, ...]


def made(found: Installation, *, project: str, session: str, conversation: str) -> Made:
    """Returns what binds that conversation to that Session; the same again changes nothing.

    Raises:
        Refused: one of them is not what it has to be; nothing was written.
        Failed: the recovery entry could not associate them; its reason word is in the sentence.

    """
    if _SESSION.fullmatch(session) is None:
        raise refusal.Refused("--session must be the whole id of a Workflow Session, wc_sess_...")
    if _CONVERSATION.fullmatch(conversation) is None:
        raise refusal.Refused(
            "--conversation must be the id that the host gives this conversation: 1 to 256 letters, digits "
            "or any of _ . : -"
        )
    canonical, root = _project(found, project)
    _check_session(found, canonical, session)
    wanted = {
        "server_url": installation.url(found),
        "authorization_file": str(found.authorization_file),
        "project": canonical,
        "project_root": root,
        "workflow_session_id": session,
        "local_session_id": conversation,
    }
    with _alone(found):
        registry = _registry(found)
        words = ("--project-root", root, "--session", session, "--entry-root", root)
        _entry(registry, "associate", *words, "--local-session", conversation)
        config = _config(found, wanted)
    observation = _said([OBSERVATION, "--config", config, "--print-registration"])
    return Made(
        config=config,
        registry=registry,
        root=root,
        observation=observation.strip(),
        recovery=_entry(registry, "registration").strip(),
        others=_others(registry, session, conversation),
    )


def page(prepared: Made) -> str:
    """Returns what was written and what is left to do, with the registration to paste."""
    reader, config = (shlex.quote(str(path)) for path in (SCRIPTS / "read_handoff.py", prepared.config))
    return "\n".join(
        (
            f"The configuration is in {prepared.config}",
            f"The registry is in {prepared.registry}",
            *_ambiguous(prepared),
            "",
            "For Codex, paste this into hooks.json in CODEX_HOME (usually ~/.codex), beside what is there,",
            "and approve the hooks in Codex under /hooks; it skips one that is not approved without a word:",
            "",
            json.dumps(_hooks(prepared), indent=2, ensure_ascii=False),
            "",
            "Other hosts take the same command lines for the events of these names.",
            f"Then see whether they fire: {program.command('adapters check')}",
            "Read the handoff from inside the project with:",
            f"  cd {shlex.quote(prepared.root)} && python3 {reader} --config {config}",
        )
    )


def _ambiguous(prepared: Made) -> list[str]:
    if not prepared.others:
        return []
    sentence = (
        f"This conversation is also bound to {', '.join(prepared.others)}; where both apply, it is asked "
        "which one is meant. Remove the binding that is not from the registry by hand."
    )
    return [sentence]


def _hooks(prepared: Made) -> dict[str, Any]:
    lines = {
        "PostToolUse": prepared.observation,
        "SessionStart": prepared.recovery,
        "UserPromptSubmit": prepared.recovery,
    }
    return {
        "hooks": {
            event: [{"hooks": [{"type": "command", "command": line, "timeout": _HOOK_TIMEOUT_S}]}]
            for event, line in lines.items()
        }
    }


@contextmanager
def _alone(found: Installation) -> Iterator[None]:
    """Holds the adapters' folder, so that no other set-up writes a file of the same name meanwhile."""
    folder = os.open(found.adapters_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sentence = "Another set-up of the adapters is running; run the same command again."
            raise refusal.Refused(sentence) from None
        yield
    finally:
        os.close(folder)


def _project(found: Installation, named: str) -> tuple[str, str]:
    """Returns the canonical id and the root of a Project of this machine, named by its id or its folder."""
    runner = runner_file.read(found.runner_file)
    folder = "" if named.startswith("agent:") else str(Path(named).expanduser().resolve())
    for entry in project_registry.entries(runner.registry_dir):
        canonical = f"agent:{runner.client_id}:{entry.id}"
        if named == canonical or folder == entry.path:
            return canonical, entry.path
    raise refusal.Refused(
        f"{named} is no Project of this machine. List them with: {program.command('project list')}"
    )


def _check_session(found: Installation, project: str, session: str) -> None:
    token = installation.read_secret(found.authorization_file).removeprefix("Bearer ")
    client = server_client.Client(url=installation.url(found), token=token)
    params = {"project": project, "session_id": session}
    answer = client.post("/api/tools/call", {"tool": "list_external_observations", "params": params})
    if answer.body.get("success") is not True:
        raise refusal.Refused(f"The Server does not offer that Session for reports: {answer.error}.")


def _registry(found: Installation) -> Path:
    """Returns the recovery registry of this installation, which names its Server."""
    registry, state = found.recovery_registry, found.adapters_dir / "recovery-state"
    if registry.exists():
        stored = _stored(registry)
        # Of a registry that cannot be read the entry itself says what is wrong with it.
        if isinstance(stored, dict) and stored.get("server_url") != installation.url(found):
            raise refusal.Refused(
                f"{registry} names another Server than {installation.url(found)}. Move it and "
                f"{state} away; then set up again what is still worked on."
            )
        return registry
    state.mkdir(mode=0o700, exist_ok=True)
    content = {
        "version": 1,
        "server_url": installation.url(found),
        "authorization_file": str(found.authorization_file),
        "state_dir": str(state),
        "bindings": [],
    }
    private_files.write(registry, json.dumps(content, indent=1).encode())
    return registry


def _others(registry: Path, session: str, conversation: str) -> tuple[str, ...]:
    stored = _stored(registry)
    bindings = stored["bindings"] if isinstance(stored, dict) else []
    bound = {each["workflow_session_id"] for each in bindings if each["local_session_id"] == conversation}
    return tuple(sorted(bound - {session}))


def _config(found: Installation, wanted: dict[str, str]) -> Path:
    """Returns the configuration file of ``wanted``, whose outbox no other configuration uses (A-31)."""
    for number in range(1, _MOST_CONFIGURATIONS):
        suffix = "" if number == 1 else f"-{number}"
        config = found.adapters_dir / f"observation{suffix}.json"
        outbox = found.outbox_dir.with_name(f"{found.outbox_dir.name}{suffix}")
        content = {**wanted, "state_dir": str(outbox)}
        if not config.exists():
            outbox.mkdir(mode=0o700, exist_ok=True)
            private_files.write(config, json.dumps(content, indent=1).encode())
            return config
        if _stored(config) == content:
            return config
    raise refusal.Refused(f"{found.adapters_dir} is full of configurations; remove those no longer needed.")


def _stored(config: Path) -> Any:
    try:
        return json.loads(private_files.read(config, most_bytes=_MOST_BYTES)[0])
    except (OSError, ValueError, private_files.NotPrivate):
        return None


def _entry(registry: Path, verb: str, *words: str) -> str:
    return _said([RECOVERY, "--registry", registry, verb, *words])


def _said(words: list[Any]) -> str:
    """Returns what an adapter said at its good end."""
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-S", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_ENTRY_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise refusal.Failed(f"{words[0]} did not end in time; run the same command again.") from None
    if ended.returncode != 0:
        raise refusal.Failed(f"{words[0]} refused: {_reason(ended.stdout or ended.stderr)}.")
    return ended.stdout


def _reason(said: str) -> str:
    try:
        return str(json.loads(said)["reason"])
    except (ValueError, KeyError, TypeError):
        return "it gave no reason"
