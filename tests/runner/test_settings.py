"""The configuration: what is read from it, and that a bad one is refused before anything is dialled."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner.place import TOKEN, Place
from webcodex.runner import settings, toml_table

AGENT = {"id": "codex", "name": "An agent", "executable": "/usr/bin/node"}


def agents(**changes: Any) -> dict[str, Any]:
    return {"acp": {"agents": [{**AGENT, **changes}]}}


BAD_KEYS: dict[str, tuple[dict[str, Any], str]] = {
    "no server_url": ({"server_url": None}, "server_url"),
    "no token": ({"token": None}, "token"),
    "no client_id": ({"client_id": None}, "client_id"),
    "http beyond loopback": ({"server_url": "http://example.org"}, "server_url"),
    "another scheme": ({"server_url": "ws://127.0.0.1"}, "server_url"),
    "a user in the URL": ({"server_url": "https://me:pw@example.org"}, "server_url"),
    "a query in the URL": ({"server_url": "https://example.org?x=1"}, "server_url"),
    "a fragment in the URL": ({"server_url": "https://example.org#x"}, "server_url"),
    "no host in the URL": ({"server_url": "https://"}, "server_url"),
    "a port that is none": ({"server_url": "https://example.org:port"}, "server_url"),
    "a token with a line end": ({"token": "wc_agent_\nx"}, "token"),
    "a token that is a number": ({"token": 5}, "token"),
    "a client_id with a slash": ({"client_id": "a/b"}, "client_id"),
    "a client_id of 81": ({"client_id": "x" * 81}, "client_id"),
    "a display_name of 129": ({"display_name": "x" * 129}, "display_name"),
    "an owner that is no text": ({"owner": ["me"]}, "owner"),
    "a hostname of 129": ({"hostname": "x" * 129}, "hostname"),
    "a relative state_dir": ({"state_dir": "state"}, "state_dir"),
    "a role of 65": ({"host_context": {"role": "x" * 65}}, "host_context.role"),
    "an unknown host fact": ({"host_context": {"colour": "red"}}, "host_context.colour"),
    "a host context that is no table": ({"host_context": 1}, "host_context"),
    "a relative registry": ({"project_registry_dir": "projects.d"}, "project_registry_dir"),
    "a registry that is not there": ({"project_registry_dir": "/nowhere"}, "project_registry_dir"),
    "the old registry key": ({"projects_dir": "/srv/projects.d"}, "projects_dir"),
    "a relative temporary root": ({"temporary_projects_root": "tmp"}, "temporary_projects_root"),
    "quic": ({"transport": "quic"}, "transport"),
    "polling": ({"transport": "polling"}, "transport"),
    "no time to connect": ({"websocket_connect_timeout_secs": 0}, "websocket_connect_timeout_secs"),
    "no jobs": ({"max_concurrent_jobs": 0}, "max_concurrent_jobs"),
    "65 jobs": ({"max_concurrent_jobs": 65}, "max_concurrent_jobs"),
    "true jobs": ({"max_concurrent_jobs": True}, "max_concurrent_jobs"),
    "a shell policy of 1": ({"policy": {"allow_raw_shell": 1}}, "policy.allow_raw_shell"),
    "a cwd policy of 1": ({"policy": {"allow_cwd_anywhere": 1}}, "policy.allow_cwd_anywhere"),
    "a relative allowed root": ({"policy": {"allowed_roots": ["work"]}}, "policy.allowed_roots"),
    "a timeout of two hours": ({"policy": {"max_timeout_secs": 7200}}, "policy.max_timeout_secs"),
    "no output": ({"policy": {"max_output_bytes": 0}}, "policy.max_output_bytes"),
    "an unknown policy": ({"policy": {"allow_all": True}}, "policy.allow_all"),
    "9 runs": ({"acp": {"max_concurrent_runs": 9}}, "acp.max_concurrent_runs"),
    "61 seconds to permit": ({"acp": {"permission_timeout_secs": 61}}, "acp.permission_timeout_secs"),
    "an unknown agent key": (agents(colour="red"), "acp.agents[0].colour"),
    "an agent id in capitals": (agents(id="Codex"), "acp.agents[0].id"),
    "an agent without a name": (agents(name=""), "acp.agents[0].name"),
    "a relative executable": (agents(executable="node"), "acp.agents[0].executable"),
    "arguments that are no texts": (agents(args=[1]), "acp.agents[0].args"),
    "an argument with NUL": (agents(args=["a\0b"]), "acp.agents[0].args"),
    "two agents of one id": ({"acp": {"agents": [AGENT, AGENT]}}, "acp.agents"),
    "nine agents": ({"acp": {"agents": [{**AGENT, "id": f"a{n}"} for n in range(9)]}}, "acp.agents"),
    "an env name with =": (agents(env_from_env={"A=B": "HOME"}), "acp.agents[0].env_from_env"),
    "an env source beyond ASCII": (agents(env_from_env={"A": "ÄÖ"}), "acp.agents[0].env_from_env"),
    "an env source of 257": (agents(env_from_env={"A": "B" * 257}), "acp.agents[0].env_from_env"),
    "our own variable": (agents(env_from_env={"A": "WEBCODEX_TOKEN"}), "acp.agents[0].env_from_env"),
    "a forced number": ({"acp": {"forced_config": {"effort": 3}}}, "acp.forced_config"),
    "33 forced options": (
        {"acp": {"forced_config": {f"o{n}": "x" for n in range(33)}}},
        "acp.forced_config",
    ),
    "a forced option that is also allowed": (
        {
            "acp": {
                "forced_config": {"model": "m"},
                "agents": [{**AGENT, "allowed_config_options": ["model"]}],
            }
        },
        "acp.forced_config",
    ),
    "a relative Skill root": ({"skills": {"roots": ["skills"]}}, "skills.roots"),
    "an unknown Skill key": ({"skills": {"folders": []}}, "skills.folders"),
    "instruction files that are no texts": ({"instructions": {"files": [1]}}, "instructions.files"),
    "an unknown instruction key": ({"instructions": {"text": "x"}}, "instructions.text"),
    "an unknown key": ({"colour": "red"}, "colour"),
    "an unknown table": ({"colours": {"red": 1}}, "colours"),
    "a key nobody can print": ({"a\u0007b": 1}, "(unprintable key)"),
}


@dataclass(frozen=True)
class Refusal:
    exit_code: int
    said: str


DRIVER = """
import contextlib, io, json, sys
from webcodex.runner import main
for path in sys.argv[1:]:
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main.main(["--config", path])
    print(json.dumps([code, said.getvalue()]))
"""


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    """A port that notes whether anybody connects to it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory, listener: socket.socket) -> dict[str, Refusal]:
    """What the Runner says to each bad configuration; one process asks for all of them."""
    paths = []
    for changes, _ in BAD_KEYS.values():
        place = Place(tmp_path_factory.mktemp("bad").resolve())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        paths.append(str(place.configure(**{"server_url": url, **changes})))
    environment = {"HOME": "/", "PATH": os.environ["PATH"]}
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, *paths], env=environment, capture_output=True, timeout=30, check=True
    )
    answers = [Refusal(*json.loads(line)) for line in ran.stdout.splitlines()]
    return dict(zip(BAD_KEYS, answers, strict=True))


def _values(member: Any) -> Iterator[str]:
    if isinstance(member, dict):
        for each in member.values():
            yield from _values(each)
    elif isinstance(member, list):
        for each in member:
            yield from _values(each)
    elif isinstance(member, str) and len(member) > 3:
        yield member


@requirement("R-01", "R-02")
@pytest.mark.parametrize("row", BAD_KEYS)
def test_a_bad_key_exits_2_and_is_named_without_its_value(row: str, refusals: dict[str, Refusal]) -> None:
    changes, key = BAD_KEYS[row]
    refusal = refusals[row]
    assert refusal.exit_code == 2
    assert refusal.said.startswith(f"webcodex-runner: {key} ")
    assert refusal.said.count("\n") == 1
    rule = refusal.said.removeprefix(f"webcodex-runner: {key} ")
    assert not [value for value in _values(changes) if value in rule and value not in {"quic", "polling"}]
    assert TOKEN not in refusal.said


@requirement("R-01")
def test_a_bad_configuration_connects_to_nothing(
    refusals: dict[str, Refusal], listener: socket.socket
) -> None:
    assert len(refusals) == len(BAD_KEYS)
    with pytest.raises(BlockingIOError):
        listener.accept()


def refused(path: Path) -> str:
    with pytest.raises(toml_table.BadConfiguration) as caught:
        settings.load(path, {"HOME": "/"})
    return str(caught.value)


@requirement("R-01")
def test_a_file_open_to_others_is_refused(place: Place) -> None:
    path = place.configure()
    for mode in (0o640, 0o604, 0o660, 0o700):
        path.chmod(mode)
        assert refused(path) == "The configuration file must belong to this user alone (mode 0600)."
    path.chmod(0o600)
    assert settings.load(path, {"HOME": "/"}).client_id == "my-runner"


@requirement("R-01")
def test_a_file_with_a_second_name_or_behind_a_link_is_refused(place: Place) -> None:
    path = place.configure()
    link = place.root / "link.toml"
    link.symlink_to(path)
    assert refused(link) == "The configuration file cannot be opened as a file."
    (place.root / "second.toml").hardlink_to(path)
    assert refused(path) == "The configuration file must be a regular file with one name."


@requirement("R-01")
def test_what_is_no_file_is_refused(place: Place) -> None:
    assert refused(place.root) == "The configuration file cannot be opened as a file."
    assert refused(place.root / "absent") == "The configuration file cannot be opened as a file."
    fifo = place.root / "fifo"
    os.mkfifo(fifo, 0o600)
    assert refused(fifo) == "The configuration file must be a regular file with one name."


@requirement("R-01")
def test_a_file_that_is_no_toml_is_refused_by_its_line(place: Place) -> None:
    assert refused(place.write_config('token = "secret"\nclient_id =\n')) == (
        "The configuration file is not valid TOML (line 2)."
    )
    assert refused(place.write_config("x = 1\n" * 50_000)).startswith("The configuration file must not be")
    place.config.write_bytes(b'token = "\xff"')
    assert refused(place.config) == "The configuration file is not valid TOML."


@requirement("R-02")
def test_a_short_configuration_gets_the_documented_defaults(place: Place) -> None:
    path = place.configure(policy=None)
    loaded = settings.load(path, {"HOME": "/home/me"})
    assert loaded.link_url == "ws://127.0.0.1:1/api/agents/ws"
    assert loaded.state_dir == place.root / "runner-state"
    assert loaded.project_registry_dir == place.root / "projects.d"
    assert (loaded.connect_timeout_s, loaded.max_concurrent_jobs) == (5, 4)
    assert loaded.policy == settings.Policy(
        allow_raw_shell=True,
        allow_cwd_anywhere=False,
        allowed_roots=("/home/me",),
        max_timeout_secs=3600,
        max_output_bytes=262_144,
    )
    assert loaded.acp == settings.Acp(
        max_concurrent_runs=1, permission_timeout_secs=5, forced_config={}, agents=()
    )


@requirement("R-02")
def test_the_configuration_of_the_specification_is_read(place: Place) -> None:
    path = place.write_config(
        """
server_url = "http://127.0.0.1:18880"
token = "wc_agent_0"
client_id = "my-runner"
transport = "websocket"
[acp.forced_config]
model = "gpt-5.6-luna"
reasoning_effort = "medium"
[[acp.agents]]
id = "codex"
name = "Codex"
executable = "/usr/bin/node"
args = ["/opt/codex-acp/dist/index.js"]
env_from_env = { HOME = "HOME", PATH = "PATH", CODEX_HOME = "CODEX_HOME" }
[skills]
roots = ["/srv/skills"]
[instructions]
files = ["AGENTS.md"]
"""
    )
    loaded = settings.load(path, {"HOME": "/"})
    assert loaded.acp.forced_config == {"model": "gpt-5.6-luna", "reasoning_effort": "medium"}
    assert loaded.acp.agents == (
        settings.Agent(
            id="codex",
            name="Codex",
            executable="/usr/bin/node",
            args=("/opt/codex-acp/dist/index.js",),
            env_from_env={"HOME": "HOME", "PATH": "PATH", "CODEX_HOME": "CODEX_HOME"},
            allowed_config_options=(),
        ),
    )
    assert (loaded.skill_roots, loaded.instruction_files) == (("/srv/skills",), ("AGENTS.md",))


@requirement("R-02")
@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://example.org", "wss://example.org/api/agents/ws"),
        ("https://example.org:8443/base/", "wss://example.org:8443/base/api/agents/ws"),
        ("http://localhost:80/", "ws://localhost:80/api/agents/ws"),
        ("http://[::1]:80", "ws://[::1]:80/api/agents/ws"),
        ("http://127.9.9.9", "ws://127.9.9.9/api/agents/ws"),
    ],
)
def test_the_link_is_dialled_at_the_servers_own_address(url: str, link: str, place: Place) -> None:
    assert settings.load(place.configure(server_url=url), {"HOME": "/"}).link_url == link


@requirement("R-01")
def test_settings_do_not_show_the_token(place: Place) -> None:
    loaded = settings.load(place.configure(), {"HOME": "/"})
    assert loaded.token == TOKEN
    assert TOKEN not in repr(loaded)
