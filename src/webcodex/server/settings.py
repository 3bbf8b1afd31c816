"""Reads the Server's environment (10.1) into checked settings; a refusal names a variable, not its value."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import platformdirs

from webcodex.core import limits
from webcodex.server import origins
from webcodex.tools.contract import Profile

Value = TypeVar("Value")

DATABASE_FILE: Final = "webcodex.sqlite3"
RESERVED_PREFIXES: Final = (
    "wc_oat_",
    "wc_ort_",
    "wc_oac_",
    "wc_client_",
    "wc_csec_",
    "wc_pair_",
    "wck_",
)  # C-07

_TOKEN: Final = re.compile(r"[!-~]{1,512}")
_COUNT: Final = re.compile(r"[1-9][0-9]{0,5}")
_CREDENTIAL_RULE: Final = "must be 1 to 512 visible ASCII characters without a reserved prefix"
_DATABASE_RULE: Final = "must begin with postgresql://; without it the Server keeps a file in WEBCODEX_DATA"
_LOCAL_URL: Final = ("http://localhost:8080", origins.Origin("http", origins.Authority("localhost", 8080)))
_PROFILES: Final = {profile.value: profile for profile in Profile}
_MOST_BUDGET_S: Final = 999_999
_MOST_SYNC_WAIT_S: Final = 60
_MOST_CONTINUATION_WAIT_S: Final = 100
_LEAST_GRACE_S: Final = 5
_MOST_GRACE_S: Final = 3600


class BadSetting(Exception):
    """The Server cannot start; the text is one sentence that names the variable."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the operator decided; times in seconds, and none where the profile decides (M-38)."""

    addr_host: str
    addr_port: int
    data_dir: Path
    database_url: str | None = field(repr=False)
    token: str | None = field(repr=False)
    public_url: str
    public_origin: origins.Origin
    allowed_hosts: tuple[origins.Authority, ...]
    allowed_origins: tuple[origins.Origin, ...]
    auth_disabled: bool
    mcp_host_profile: Profile
    host_budget_s: int | None
    sync_wait_max_s: int | None
    continuation_wait_max_s: int | None
    compact_schemas: bool
    text_json_compat: bool
    job_grace_s: int

    @property
    def is_loopback(self) -> bool:
        """Says whether only this machine can reach the Server."""
        return origins.is_loopback(self.addr_host)


def load(environment: Mapping[str, str]) -> Settings:
    """Returns the settings in ``environment``; an empty variable counts as absent.

    Raises:
        BadSetting: a variable has a value outside its rule, or nothing protects the Server (C-03).

    """
    read = _Reader(environment)
    host, port = read.value("WEBCODEX_ADDR", _host_and_port, ("127.0.0.1", 8080), "must be host:port")
    token = read.value("WEBCODEX_TOKEN", _token, None, _CREDENTIAL_RULE)
    asks_for_none = read.switch("WEBCODEX_AUTH_DISABLED", default=False)
    public_url, public_origin = read.value(
        "WEBCODEX_PUBLIC_URL", _web_origin, _LOCAL_URL, "must be an http or https origin without a path"
    )
    settings = Settings(
        addr_host=host,
        addr_port=port,
        data_dir=read.value("WEBCODEX_DATA", _path, _default_data_dir(), "must be a path"),
        database_url=read.value("WEBCODEX_DATABASE_URL", _database_url, None, _DATABASE_RULE),
        token=token,
        public_url=public_url,
        public_origin=public_origin,
        allowed_hosts=read.many("WEBCODEX_ALLOWED_HOSTS", origins.authority, "must be hosts, by commas"),
        allowed_origins=read.many("WEBCODEX_ALLOWED_ORIGINS", origins.origin, "must be origins, by commas"),
        auth_disabled=token is None and asks_for_none and origins.is_loopback(host),
        mcp_host_profile=_PROFILES.get(environment.get("WEBCODEX_MCP_HOST_PROFILE", ""), Profile.DIRECT),
        host_budget_s=read.count("WEBCODEX_MCP_HOST_BUDGET_SECS", _MOST_BUDGET_S),
        sync_wait_max_s=read.count("WEBCODEX_MCP_HOST_SYNC_WAIT_MAX_SECS", _MOST_SYNC_WAIT_S),
        continuation_wait_max_s=read.count(
            "WEBCODEX_MCP_HOST_CONTINUATION_WAIT_MAX_SECS", _MOST_CONTINUATION_WAIT_S
        ),
        compact_schemas=read.switch("WEBCODEX_MCP_COMPACT_SCHEMAS", default=True),
        text_json_compat=read.switch("WEBCODEX_MCP_TEXT_JSON_COMPAT", default=True),
        job_grace_s=read.value(
            "WEBCODEX_JOB_RECOVERY_GRACE_SECS",
            _job_grace,
            limits.JOB_GRACE_S,
            f"must be a whole number of seconds from {_LEAST_GRACE_S} to {_MOST_GRACE_S}",
        ),
    )
    _refuse_open_door(settings)
    return settings


def database_path(settings: Settings) -> Path:
    """Returns the database file, which exists after this and which only this user can read (10.1).

    Raises:
        BadSetting: the data directory cannot be used.

    """
    path = settings.data_dir / DATABASE_FILE
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.chmod(0o600)
    except OSError:
        raise BadSetting("WEBCODEX_DATA must be a directory that this user can write.") from None
    return path


def _refuse_open_door(settings: Settings) -> None:
    if settings.token is None and not settings.auth_disabled:
        raise BadSetting(
            "WEBCODEX_TOKEN must be set; WEBCODEX_AUTH_DISABLED=true replaces it on loopback only."
        )


class _Reader:
    """Takes variables from an environment and refuses by name."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def value(self, name: str, parse: Callable[[str], Value | None], default: Value, rule: str) -> Value:
        text = self._environment.get(name, "")
        if not text:
            return default
        parsed = parse(text)
        if parsed is None:
            raise BadSetting(f"{name} {rule}.")
        return parsed

    def many(self, name: str, parse: Callable[[str], Value | None], rule: str) -> tuple[Value, ...]:
        words = (word.strip() for word in self._environment.get(name, "").split(","))
        parsed = tuple(parse(word) for word in words if word)
        found = tuple(value for value in parsed if value is not None)
        if len(found) != len(parsed):
            raise BadSetting(f"{name} {rule}.")
        return found

    def switch(self, name: str, *, default: bool) -> bool:
        return self.value(name, {"true": True, "false": False}.get, default, "must be true or false")

    def count(self, name: str, most: int) -> int | None:
        def parse(text: str) -> int | None:
            return int(text) if _COUNT.fullmatch(text) and int(text) <= most else None

        return self.value(name, parse, None, f"must be a whole number of seconds from 1 to {most}")


def _host_and_port(text: str) -> tuple[str, int] | None:
    found = origins.authority(text)
    if found is None or found.port is None:
        return None
    return found.host.removeprefix("[").removesuffix("]"), found.port


def _token(text: str) -> str | None:
    return text if _TOKEN.fullmatch(text) and not text.startswith(RESERVED_PREFIXES) else None


def _database_url(text: str) -> str | None:
    is_fit = text.startswith("postgresql://") and text.isprintable() and " " not in text
    return text if is_fit else None


def _job_grace(text: str) -> int | None:
    seconds = int(text) if _COUNT.fullmatch(text) else 0
    return seconds if _LEAST_GRACE_S <= seconds <= _MOST_GRACE_S else None


def _path(text: str) -> Path | None:
    return None if "\0" in text else Path(os.path.abspath(text))  # noqa: PTH100 - resolve() would follow links


def _web_origin(text: str) -> tuple[str, origins.Origin] | None:
    url = text.removesuffix("/")
    found = origins.origin(url)
    return None if found is None or found.scheme not in {"http", "https"} else (url, found)


def _default_data_dir() -> Path:
    return platformdirs.user_data_path("webcodex", appauthor=False)
