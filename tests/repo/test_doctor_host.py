"""What the doctor makes of Codex's own files: each fault with its step, and no value from them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from webcodex.cli import installation
from webcodex.cli.doctor_checks import codex_files, host, standing
from webcodex.cli.doctor_checks.checks import Check
from webcodex.cli.doctor_checks.conversation import Token

URL = "http://127.0.0.1:8080"
PAT = "wc_pat_" + 64 * "a"
SECRET = "planted-7f3a"
HOOK = "external_observation_hook.py"
AGAIN = {
    HOOK: "print the registration anew",
    "session_recovery.py": "print that of recovery anew",
}
ADD = f"codex mcp add webcodex --url {URL}/mcp --bearer-token-env-var WEBCODEX_TOKEN"
RIGHT = {"url": f"{URL}/mcp", "bearer_token_env_var": "WEBCODEX_TOKEN"}


def seen(folder: Path, url: str = URL, **variables: str) -> dict[str, Check]:
    """What the doctor says of the host whose files are in ``folder``, by the lines' names."""
    now = standing.Standing(
        found=installation.Installation(directory=folder / "data"),
        url=url,
        up=standing.Up.STOPPED,
        up_pid=None,
        runner=standing.Fault(sentence=""),
        registered=(),
    )
    environment = {"CODEX_HOME": str(folder), "PATH": "/usr/bin:/bin", **variables}
    pat = Token(file=now.found.pat_file, text=PAT)
    told = host.told(now, codex_files.read(environment), pat, environment, AGAIN)
    assert SECRET not in repr(told)
    return {line.name: line for line in told}


def registered(folder: Path, name: str = "webcodex", **entry: Any) -> None:
    """Codex's configuration names one server."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
    text = "\n".join([f"[mcp_servers.{name}]", *lines])
    (folder / "config.toml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("variables", "status", "word", "step"),
    [
        ({"WEBCODEX_TOKEN": PAT}, "ok", "set in this environment to the PAT", None),
        ({}, "attention", "WEBCODEX_TOKEN is not set", 'export WEBCODEX_TOKEN="$(cat {pat})"'),
        ({"WEBCODEX_TOKEN": ""}, "attention", "not set", 'export WEBCODEX_TOKEN="$(cat {pat})"'),
        ({"WEBCODEX_TOKEN": SECRET}, "unknown", "not tried", 'export WEBCODEX_TOKEN="$(cat {pat})"'),
        ({"WEBCODEX_TOKEN": "\udcff"}, "unknown", "not tried", 'export WEBCODEX_TOKEN="$(cat {pat})"'),
    ],
)
def test_variable_of_the_token_is_compared_and_never_shown(
    variables: dict[str, str], status: str, word: str, step: str | None, tmp_path: Path
) -> None:
    registered(tmp_path, **RIGHT)
    told = seen(tmp_path, **variables)
    assert told["Codex registration"].status == "ok"
    line = told["Codex token"]
    wanted = None if step is None else step.format(pat=tmp_path / "data" / "credentials" / "pat")
    assert (line.status, word in line.found, line.next_step) == (status, True, wanted)


@pytest.mark.parametrize(
    "url", ["http://localhost:8080/mcp", "http://127.0.0.1:8080/mcp/", "HTTP://LOCALHOST:8080/mcp"]
)
def test_other_spelling_of_the_address_leads_to_the_same_server(url: str, tmp_path: Path) -> None:
    registered(tmp_path, "named-otherwise", url=url)
    assert seen(tmp_path)["Codex registration"].status == "ok"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8081/mcp",
        "https://127.0.0.1:8080/mcp",
        "http://127.0.0.1:8080/other",
        f"http://{SECRET}@127.0.0.1:9/mcp?token={SECRET}",
        "http://[::1]:8080/mcp",
        "http://[::1:8080/mcp",
        "http://127.0.0.1:x/mcp",
        1,
    ],
)
def test_another_address_is_told_without_showing_it(url: object, tmp_path: Path) -> None:
    registered(tmp_path, url=url)
    line = seen(tmp_path)["Codex registration"]
    assert (line.status, line.next_step) == ("attention", ADD)
    assert line.found == f"{tmp_path / 'config.toml'} names another address for webcodex than {URL}/mcp."


def test_absent_registration_is_unknown_because_other_hosts_are_out_of_sight(tmp_path: Path) -> None:
    told = seen(tmp_path / "no-codex-here")
    assert {name: line.status for name, line in told.items()} == {
        "Codex registration": "unknown",
        "Codex hooks": "unknown",
    }
    assert told["Codex registration"].next_step == ADD
    assert told["Codex hooks"].next_step == AGAIN[HOOK]


@pytest.mark.parametrize(
    ("entry", "name", "status"),
    [
        ({**RIGHT, "enabled": False}, "Codex registration", "attention"),
        ({"url": RIGHT["url"]}, "Codex token", "attention"),
        ({**RIGHT, "bearer_token_env_var": f"wc_pat_{SECRET}"}, "Codex token", "attention"),
        ({"url": RIGHT["url"], "bearer_token_env_var": 1}, "Codex token", "attention"),
    ],
)
def test_entry_that_cannot_work_is_told(
    entry: dict[str, Any], name: str, status: str, tmp_path: Path
) -> None:
    registered(tmp_path, **entry)
    line = seen(tmp_path)[name]
    assert (line.status, line.next_step) == (status, ADD)


def test_header_of_the_users_own_is_left_to_the_user(tmp_path: Path) -> None:
    registered(tmp_path, url=RIGHT["url"])
    with (tmp_path / "config.toml").open("a", encoding="utf-8") as file:
        file.write(f'\nhttp_headers = {{ authorization = "{SECRET}" }}\n')
    assert seen(tmp_path)["Codex token"].status == "unknown"


@pytest.mark.parametrize("name", ["config.toml", "hooks.json"])
@pytest.mark.parametrize("content", [f"{SECRET} = [", "\udcff", 200_000 * "["])
def test_file_that_cannot_be_read_is_named_and_not_quoted(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8", errors="surrogateescape")
    line = seen(tmp_path)["Codex files"]
    assert (line.status, line.next_step) == ("unknown", f"ls -l {tmp_path / name}")


def test_linked_configuration_is_followed(tmp_path: Path) -> None:
    registered(tmp_path, **RIGHT)
    (tmp_path / "config.toml").rename(tmp_path / "dotfile")
    (tmp_path / "config.toml").symlink_to(tmp_path / "dotfile")
    assert seen(tmp_path)["Codex registration"].status == "ok"


def hooked(folder: Path, command: object, event: str = "PostToolUse", *, in_toml: bool = False) -> None:
    """Codex has one hook, in either of the two places."""
    handlers = {event: [{"hooks": [{"type": "command", "command": command}]}]}
    if in_toml:
        text = f"[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ncommand = {json.dumps(command)}\n"
        (folder / "config.toml").write_text(text, encoding="utf-8")
    else:
        (folder / "hooks.json").write_text(json.dumps({"hooks": handlers}), encoding="utf-8")


def line_of(folder: Path) -> str:
    """A registration whose three paths exist."""
    (folder / "my scripts").mkdir(exist_ok=True)
    for name in ("external_observation_hook.py", "session_recovery.py", "observation.json"):
        (folder / "my scripts" / name).touch()
    script = folder / "my scripts" / "external_observation_hook.py"
    return f'{sys.executable} -I -S "{script}" --config "{folder}/my scripts/observation.json"'


@pytest.mark.parametrize("in_toml", [False, True])
def test_registered_hook_without_an_approval_on_file_is_told(*, in_toml: bool, tmp_path: Path) -> None:
    hooked(tmp_path, line_of(tmp_path), in_toml=in_toml)
    told = seen(tmp_path)
    assert told["external_observation_hook.py on PostToolUse"].status == "ok"
    trust = told["Codex trust"]
    assert (trust.status, trust.next_step) == ("attention", "codex")
    assert "no approval on file for PostToolUse" in trust.found


@pytest.mark.parametrize(("place", "status"), [("post_tool_use:0:0", "unknown"), ("stop:0:0", "attention")])
def test_approval_on_file_counts_for_its_own_place(place: str, status: str, tmp_path: Path) -> None:
    hooked(tmp_path, line_of(tmp_path))
    state = f'[hooks.state."{tmp_path}/hooks.json:{place}"]\ntrusted_hash = "sha256:{SECRET}"\n'
    (tmp_path / "config.toml").write_text(state, encoding="utf-8")
    trust = seen(tmp_path)["Codex trust"]
    assert (trust.status, SECRET in trust.found) == (status, False)


def test_variable_before_the_interpreter_is_no_interpreter_and_is_not_shown(tmp_path: Path) -> None:
    hooked(tmp_path, f"TOKEN={SECRET} {line_of(tmp_path)}")
    assert seen(tmp_path)["external_observation_hook.py on PostToolUse"].status == "ok"


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        ("external_observation_hook.py", "gone/external_observation_hook.py", "script is not there"),
        ("{folder}/my scripts/external", "external", "script is not there"),
        (sys.executable, "/absent/python3", "interpreter is not there"),
        (sys.executable, "no-such-python", "interpreter is not there"),
        ("observation.json", "gone.json", "configuration is not there"),
        ("--config", "--other", "configuration is not there"),
    ],
)
def test_hook_that_cannot_run_is_told_with_the_line_to_take_instead(
    written: str, instead: str, said: str, tmp_path: Path
) -> None:
    hooked(tmp_path, line_of(tmp_path).replace(written.format(folder=tmp_path), instead))
    line = seen(tmp_path)["external_observation_hook.py on PostToolUse"]
    assert (line.status, said in line.found, line.next_step) == ("attention", True, AGAIN[HOOK])


def test_hook_under_an_event_that_is_not_its_own_is_told(tmp_path: Path) -> None:
    hooked(tmp_path, line_of(tmp_path), "Stop")
    assert "another event" in seen(tmp_path)["external_observation_hook.py"].found
    line = line_of(tmp_path).replace("external_observation_hook", "session_recovery")
    hooked(tmp_path, line.replace("--config", "--registry"), "SessionStart")
    assert seen(tmp_path)["session_recovery.py on SessionStart"].status == "ok"
    (tmp_path / "my scripts" / "session_recovery.py").unlink()
    step = seen(tmp_path)["session_recovery.py on SessionStart"].next_step
    assert step == "print that of recovery anew"


@pytest.mark.parametrize("command", ["python3 other.py", "'", "", 1, None, ["external_observation_hook.py"]])
def test_hooks_of_others_and_of_other_shapes_are_left_out(command: object, tmp_path: Path) -> None:
    hooked(tmp_path, command)
    told = seen(tmp_path)
    assert told["Codex hooks"].status == "unknown"
    assert "Codex trust" not in told


@pytest.mark.parametrize("stored", [[], {"hooks": []}, {"hooks": {"Stop": [1, {"hooks": [2]}, {}]}}])
def test_hooks_file_of_another_shape_says_nothing(stored: object, tmp_path: Path) -> None:
    (tmp_path / "hooks.json").write_text(json.dumps(stored), encoding="utf-8")
    (tmp_path / "config.toml").write_text("mcp_servers = 1\nhooks = 2\n", encoding="utf-8")
    assert set(seen(tmp_path)) == {"Codex registration", "Codex hooks"}
