"""Parses and checks `runner.toml` (R-01, R-02); must never connect, and never shows a value in a refusal."""

import ipaddress
import os
import pwd
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from webcodex.protocol import bounds
from webcodex.runner import private_files, toml_table

MAX_CONFIG_BYTES: Final = 256 * 1024
LINK_PATH: Final = "/api/agents/ws"

_AGENT_ID: Final = re.compile(r"[a-z0-9_.-]{1,64}")
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}")
_ENV_NAME: Final = re.compile(r"[!-<>-~]{1,256}")
_MAX_ROOTS: Final = 64
_MAX_OPTIONS: Final = 32
_MAX_OPTION_BYTES: Final = 4096
_MAX_OPTION_NAME_BYTES: Final = 128
_HOST_CONTEXT: Final = {"role": 64, "runtime": 128, "service": 128, "network": 128, "architecture": 128}


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What the operator admits beyond scopes (R-02)."""

    allow_raw_shell: bool
    allow_cwd_anywhere: bool
    allowed_roots: tuple[str, ...]
    max_timeout_secs: int
    max_output_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """One coding agent the operator configured."""

    id: str
    name: str
    executable: str
    args: tuple[str, ...]
    env_from_env: Mapping[str, str]
    allowed_config_options: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Acp:
    """How coding agents are driven; read at start-up only."""

    max_concurrent_runs: int
    permission_timeout_secs: int
    forced_config: Mapping[str, str | bool]
    agents: tuple[Agent, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """A whole checked configuration; paths are absolute."""

    config_path: Path
    config_identity: private_files.Identity
    link_url: str
    token: str
    client_id: str
    display_name: str | None
    owner: str | None
    hostname: str | None
    state_dir: Path
    host_context: Mapping[str, str]
    project_registry_dir: Path
    temporary_projects_root: Path | None
    connect_timeout_s: int
    max_concurrent_jobs: int
    policy: Policy
    acp: Acp
    skill_roots: tuple[str, ...]
    instruction_files: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Settings(client_id={self.client_id!r})"


def load(path: Path, environment: Mapping[str, str]) -> Settings:
    """Returns the settings in the file at `path`.

    Raises:
        BadConfiguration: the file or one of its keys cannot be used.

    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a link this refuses
    try:
        content, identity = private_files.read(path, most_bytes=MAX_CONFIG_BYTES)
    except private_files.NotPrivate as error:
        raise toml_table.BadConfiguration("The configuration file", str(error)) from error
    except OSError as error:
        raise toml_table.BadConfiguration("The configuration file", "cannot be opened as a file") from error
    top = toml_table.Table(toml_table.parse(content, "The configuration file"))
    return _settings(top, path, identity, environment)


def _settings(
    top: toml_table.Table, path: Path, identity: private_files.Identity, environment: Mapping[str, str]
) -> Settings:
    _refuse_retired(top)
    skills, instructions = top.table("skills"), top.table("instructions")
    checked = Settings(
        config_path=path,
        config_identity=identity,
        link_url=_link_url(top),
        token=top.text("token", most=512, pattern=_BEARER),
        client_id=top.text("client_id", most=80, pattern=bounds.CLIENT_ID),
        display_name=top.text_or_none("display_name", most=128),
        owner=top.text_or_none("owner", most=128),
        hostname=top.text_or_none("hostname", most=128),
        state_dir=_beside(path, top, "state_dir", "runner-state"),
        host_context=_host_context(top.table("host_context")),
        project_registry_dir=_beside(path, top, "project_registry_dir", "projects.d"),
        temporary_projects_root=(
            Path(top.absolute("temporary_projects_root")) if top.has("temporary_projects_root") else None
        ),
        connect_timeout_s=top.integer("websocket_connect_timeout_secs", default=5, least=1, most=60),
        max_concurrent_jobs=top.integer("max_concurrent_jobs", default=4, least=1, most=64),
        policy=_policy(top.table("policy"), environment),
        acp=_acp(top.table("acp")),
        skill_roots=_absolutes(skills, "roots"),
        instruction_files=instructions.texts("files", most=_MAX_ROOTS, longest=4096),
    )
    for table in (skills, instructions, top):
        table.finish()
    return checked


def _refuse_retired(top: toml_table.Table) -> None:
    if top.has("projects_dir"):
        raise top.refuse("projects_dir", "was renamed; use project_registry_dir")
    if top.has("transport"):
        transport = top.text("transport", most=64)
        if transport not in {"auto", "websocket"}:
            raise top.refuse("transport", 'must be "auto" or "websocket"; quic and polling are not served')


def _link_url(top: toml_table.Table) -> str:
    value = top.text("server_url", most=2048)
    rule = "must be an https URL, or http on loopback, without user, query and fragment"
    try:
        parts = urllib.parse.urlsplit(value)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise top.refuse("server_url", rule) from None
    bare = "@" not in parts.netloc and "?" not in value and "#" not in value
    secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host or ""))
    if not host or not bare or not secure or not value.isascii() or " " in value or "\\" in value:
        raise top.refuse("server_url", rule)
    scheme = "wss" if parts.scheme == "https" else "ws"
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{LINK_PATH}"


def is_loopback(host: str) -> bool:
    """Says whether a host name or address can only mean this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _beside(path: Path, top: toml_table.Table, name: str, default: str) -> Path:
    return Path(top.absolute(name)) if top.has(name) else path.parent / default


def _host_context(table: toml_table.Table) -> dict[str, str]:
    stated = {name: table.text_or_none(name, most=most) for name, most in _HOST_CONTEXT.items()}
    table.finish()
    return {name: value for name, value in stated.items() if value is not None}


def _absolutes(table: toml_table.Table, name: str) -> tuple[str, ...]:
    values = table.texts(name, most=_MAX_ROOTS, longest=4096)
    if not all(value.startswith("/") for value in values):
        raise table.refuse(name, "must hold absolute paths")
    return values


def _policy(table: toml_table.Table, environment: Mapping[str, str]) -> Policy:
    home = environment.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    roots = _absolutes(table, "allowed_roots") if table.has("allowed_roots") else (home,)
    if not all(root.startswith("/") for root in roots):
        raise table.refuse("allowed_roots", "is needed where HOME is not absolute")
    policy = Policy(
        allow_raw_shell=table.boolean("allow_raw_shell", default=True),
        allow_cwd_anywhere=table.boolean("allow_cwd_anywhere", default=False),
        allowed_roots=roots,
        max_timeout_secs=table.integer("max_timeout_secs", default=3600, least=1, most=3600),
        max_output_bytes=table.integer("max_output_bytes", default=262_144, least=1, most=16_777_216),
    )
    table.finish()
    return policy


def _acp(table: toml_table.Table) -> Acp:
    agents = tuple(_agent(each) for each in table.tables("agents", most=8))
    if len({agent.id for agent in agents}) != len(agents):
        raise table.refuse("agents", "must not name one id twice")
    forced = table.members("forced_config", most=_MAX_OPTIONS)
    for name, value in forced.items():
        if not isinstance(value, str | bool) or (
            isinstance(value, str) and len(value.encode()) > _MAX_OPTION_BYTES
        ):
            raise table.refuse("forced_config", "must hold texts of at most 4096 bytes and booleans only")
        if not 1 <= len(name.encode()) <= _MAX_OPTION_NAME_BYTES:
            raise table.refuse("forced_config", "must have keys of 1 to 128 bytes")
    if any(name in forced for agent in agents for name in agent.allowed_config_options):
        raise table.refuse("forced_config", "must share no option with an agent's allowed_config_options")
    acp = Acp(
        max_concurrent_runs=table.integer("max_concurrent_runs", default=1, least=1, most=8),
        permission_timeout_secs=table.integer("permission_timeout_secs", default=5, least=1, most=60),
        forced_config=dict(forced),
        agents=agents,
    )
    table.finish()
    return acp


def _agent(table: toml_table.Table) -> Agent:
    agent = Agent(
        id=table.text("id", most=64, pattern=_AGENT_ID),
        name=table.text("name", most=128),
        executable=table.absolute("executable"),
        args=table.texts("args", most=256, longest=4096),
        env_from_env=_env(table),
        allowed_config_options=table.texts("allowed_config_options", most=_MAX_OPTIONS, longest=128),
    )
    table.finish()
    return agent


def _env(table: toml_table.Table) -> Mapping[str, str]:
    named = table.members("env_from_env", most=256)
    for destination, source in named.items():
        if (
            not isinstance(source, str)
            or not _ENV_NAME.fullmatch(destination)
            or not _ENV_NAME.fullmatch(source)
        ):
            raise table.refuse("env_from_env", "must hold ASCII names of at most 256 bytes without =")
        if source.startswith("WEBCODEX_"):
            raise table.refuse("env_from_env", "must not pass on a variable of WebCodex itself")
    return dict(named)
