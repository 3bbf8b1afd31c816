"""What the Server's environment may hold, and what stops the Server (10.1, C-03)."""

import importlib.util
import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.server import server_process
from webcodex.server import main, origins, settings, store
from webcodex.tools.contract import Profile

BASE = {"WEBCODEX_TOKEN": "bootstrap"}


def loaded(**environment: str) -> settings.Settings:
    return settings.load({**BASE, **environment})


@requirement("M-39")
def test_a_token_alone_gives_the_documented_defaults() -> None:
    chosen = settings.load(BASE)
    assert (chosen.addr_host, chosen.addr_port) == ("127.0.0.1", 8080)
    assert chosen.public_url == "http://localhost:8080"
    assert chosen.allowed_hosts == ()
    assert chosen.allowed_origins == ()
    assert chosen.data_dir.is_absolute()
    assert chosen.database_url is None
    assert not chosen.auth_disabled
    assert chosen.mcp_host_profile is Profile.DIRECT
    assert (chosen.host_budget_s, chosen.sync_wait_max_s, chosen.continuation_wait_max_s) == (
        None,
        None,
        None,
    )
    assert (chosen.compact_schemas, chosen.text_json_compat) == (True, True)


@requirement("M-03", "M-04", "M-36", "M-39")
def test_every_variable_is_read(tmp_path: Path) -> None:
    chosen = loaded(
        WEBCODEX_ADDR="[::1]:9000",
        WEBCODEX_DATA=str(tmp_path),
        WEBCODEX_DATABASE_URL="postgresql://ada@db.example/webcodex?sslmode=verify-full",
        WEBCODEX_PUBLIC_URL="https://Work.Example:443/",
        WEBCODEX_ALLOWED_HOSTS="one.example, two.example:81",
        WEBCODEX_ALLOWED_ORIGINS="https://app.example",
        WEBCODEX_MCP_HOST_PROFILE="host_code_mode",
        WEBCODEX_MCP_HOST_BUDGET_SECS="20",
        WEBCODEX_MCP_HOST_SYNC_WAIT_MAX_SECS="60",
        WEBCODEX_MCP_HOST_CONTINUATION_WAIT_MAX_SECS="100",
        WEBCODEX_MCP_COMPACT_SCHEMAS="false",
        WEBCODEX_MCP_TEXT_JSON_COMPAT="false",
    )
    assert (chosen.addr_host, chosen.addr_port, chosen.data_dir) == ("::1", 9000, tmp_path)
    assert chosen.database_url == "postgresql://ada@db.example/webcodex?sslmode=verify-full"
    assert chosen.public_origin == origins.Origin("https", origins.Authority("work.example", None))
    assert chosen.allowed_hosts == (
        origins.Authority("one.example", None),
        origins.Authority("two.example", 81),
    )
    assert chosen.allowed_origins == (origins.Origin("https", origins.Authority("app.example", None)),)
    assert chosen.mcp_host_profile is Profile.HOST_CODE_MODE
    assert (chosen.host_budget_s, chosen.sync_wait_max_s, chosen.continuation_wait_max_s) == (20, 60, 100)
    assert (chosen.compact_schemas, chosen.text_json_compat) == (False, False)


@requirement("M-39", "M-02")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WEBCODEX_ADDR", "localhost"),
        ("WEBCODEX_ADDR", "localhost:70000"),
        ("WEBCODEX_ADDR", ":8080"),
        ("WEBCODEX_TOKEN", "two words"),
        ("WEBCODEX_TOKEN", "wc_oat_reserved"),
        ("WEBCODEX_PUBLIC_URL", "ftp://work.example"),
        ("WEBCODEX_PUBLIC_URL", "https://work.example/path"),
        ("WEBCODEX_ALLOWED_HOSTS", "good.example,bad host"),
        ("WEBCODEX_ALLOWED_ORIGINS", "null"),
        ("WEBCODEX_AUTH_DISABLED", "yes"),
        ("WEBCODEX_MCP_HOST_BUDGET_SECS", "0"),
        ("WEBCODEX_MCP_HOST_BUDGET_SECS", "1.5"),
        ("WEBCODEX_MCP_HOST_SYNC_WAIT_MAX_SECS", "61"),
        ("WEBCODEX_MCP_HOST_CONTINUATION_WAIT_MAX_SECS", "101"),
        ("WEBCODEX_MCP_COMPACT_SCHEMAS", "TRUE"),
        ("WEBCODEX_MCP_TEXT_JSON_COMPAT", "1"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(name: str, value: str) -> None:
    with pytest.raises(settings.BadSetting) as refusal:
        loaded(**{name: value})
    assert str(refusal.value).startswith(name)
    assert value not in str(refusal.value).removeprefix(name)


@requirement("M-37")
def test_an_unknown_profile_counts_as_the_default() -> None:
    assert loaded(WEBCODEX_MCP_HOST_PROFILE="frontal").mcp_host_profile is Profile.DIRECT


@requirement("C-03")
@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WEBCODEX_TOKEN": ""},
        {"WEBCODEX_AUTH_DISABLED": "false"},
        {"WEBCODEX_AUTH_DISABLED": "true", "WEBCODEX_ADDR": "0.0.0.0:8080"},
        {"WEBCODEX_AUTH_DISABLED": "true", "WEBCODEX_ADDR": "work.example:8080"},
    ],
)
def test_a_server_without_token_refuses_unless_disabled_on_loopback(environment: dict[str, str]) -> None:
    with pytest.raises(settings.BadSetting, match=r"^WEBCODEX_TOKEN must be set"):
        settings.load(environment)


@requirement("C-03")
@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", "[::1]:0"])
def test_authentication_is_disabled_only_without_a_token_on_loopback(address: str) -> None:
    asked = {"WEBCODEX_AUTH_DISABLED": "true", "WEBCODEX_ADDR": address}
    assert settings.load(asked).auth_disabled
    assert not settings.load({**asked, **BASE}).auth_disabled


@requirement("C-09")
def test_the_token_is_not_shown_with_the_settings() -> None:
    assert "bootstrap" not in repr(settings.load(BASE))


@requirement("C-09")
def test_data_directory_and_database_are_private(tmp_path: Path) -> None:
    chosen = loaded(WEBCODEX_DATA=str(tmp_path / "new" / "data"))
    database = settings.database_path(chosen)
    assert stat.S_IMODE(chosen.data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(database.stat().st_mode) == 0o600


@requirement("C-09")
def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(settings.BadSetting, match=r"^WEBCODEX_DATA must"):
        settings.database_path(loaded(WEBCODEX_DATA=str(tmp_path / "file")))


@requirement("M-39", "C-03")
def test_a_process_that_cannot_start_says_why_and_exits_2(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "WEBCODEX_TOKEN": "wck_secret"}
    ended = subprocess.run(
        [server_process.PROGRAM], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("webcodex-server: WEBCODEX_TOKEN must be")
    assert "wck_secret" not in ended.stderr
    assert not (tmp_path / ".local").exists()


@requirement("C-09", "M-39")
@pytest.mark.parametrize(
    "url", ["mysql://ada:planted@h/x", "sqlite:///planted", "planted", "postgresql://h/planted x"]
)
def test_a_database_of_another_kind_is_refused_without_its_url(url: str) -> None:
    with pytest.raises(
        settings.BadSetting, match=r"^WEBCODEX_DATABASE_URL must begin with postgresql://"
    ) as no:
        loaded(WEBCODEX_DATABASE_URL=url)
    assert "planted" not in str(no.value)


@requirement("C-09")
def test_a_database_that_cannot_be_used_is_told_without_its_url(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = []
    for url in ("postgresql://ada:planted@127.0.0.1:1/x", "postgresql://ada:planted@h/x?planted=1"):
        chosen = loaded(WEBCODEX_DATABASE_URL=url, WEBCODEX_DATA=str(tmp_path / "data"))
        assert chosen.database_url == url
        assert "planted" not in repr(chosen)
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            pytest.raises(Exception, match="DATABASE_URL") as no,
        ):
            main._serve(chosen, listener)
        told.append(str(no.value))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(settings.BadSetting, match=r"pip install 'webcodex\[postgres\]'"):
        store.opened(loaded(WEBCODEX_DATABASE_URL="postgresql://ada:planted@127.0.0.1:1/x")).__enter__()
    assert told == [
        "The database of WEBCODEX_DATABASE_URL cannot be reached; start it, or mend the address.",
        "WEBCODEX_DATABASE_URL names no database to use: it is not a URL that PostgreSQL understands.",
    ]
    assert "planted" not in caplog.text
    assert not (tmp_path / "data").exists()
