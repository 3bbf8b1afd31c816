"""The commands speak to the running Server as their user would expect."""

import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from click import testing

from tests.journeys import installation
from tests.journeys.installation import Installed
from tests.requirements import requirement
from webcodex.cli import credentials, main, program, server_client
from webcodex.cli import installation as files
from webcodex.runner import projects, settings


def ended(words: tuple[str, ...], variables: Mapping[str, str]) -> testing.Result:
    """How one command ended, run in this process."""
    return testing.CliRunner().invoke(main.main, words, env=variables, catch_exceptions=False)


def run(found: Installed, *words: str) -> testing.Result:
    """How one command on the installation ended."""
    return ended(words, found.variables)


def ok(found: Installed, *words: str) -> str:
    """What a command printed that succeeded without a complaint."""
    result = run(found, *words)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def failed(found: Installed, *words: str, code: int = 1) -> str:
    """What a command complained of that failed with that exit code and printed nothing."""
    result = run(found, *words)
    assert (result.exit_code, result.stdout) == (code, ""), result.stderr
    return result.stderr


@requirement("R-01", "R-03")
def test_project_is_added_to_and_removed_from_what_runs(installed: Installed) -> None:
    root = installation.repository(installed.data_dir.parent / "Büro 2")
    assert ok(installed, "project", "add", str(root)) == "agent:local:Buro-2 is served.\n"
    assert f"agent:local:Buro-2   connected  {root}\n" in ok(installed, "project", "list")
    assert ok(installed, "project", "add", str(root)) == "agent:local:Buro-2 is served.\n"
    read = ("tools", "read_files", "--project", "agent:local:Buro-2", "--item", "README.md")
    assert "        | # Demo\n" in ok(installed, *read)
    removed = ok(installed, "project", "remove", "agent:local:Buro-2")
    assert removed == f"agent:local:Buro-2 is served no longer. Its files in {root} are untouched.\n"
    assert "(unknown_project)" in failed(installed, *read)
    assert (root / "README.md").exists()
    absent = failed(installed, "project", "remove", "Buro-2", code=2)
    assert absent == "No project Buro-2 is registered here. Registered: project.\n"


@requirement("R-02", "R-03")
def test_project_outside_home_waits_for_a_restart_and_says_so(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = installation.repository(tmp_path_factory.mktemp("elsewhere").resolve() / "outside")
    said = ok(installed, "project", "add", str(root))
    home = installed.data_dir.parent
    assert f"Note: {root} lies outside {home}. The Runner may serve it too now, because you named it." in said
    assert "agent:local:outside is registered. The Runner serves it after a restart" in said
    configured = settings.load(installed.files.runner_file, {})
    assert configured.policy.allowed_roots == (str(home), str(root))
    rules = projects.Rules(
        registry_dir=configured.project_registry_dir,
        allowed_roots=configured.policy.allowed_roots,
        state_dir=configured.state_dir,
    )
    assert projects.load(rules).projects["outside"].root == str(root)
    ok(installed, "project", "remove", "outside")


@requirement("M-11", "R-51")
def test_tool_is_called_by_options_and_by_params(installed: Installed) -> None:
    words = ("--project", installed.project, "--item", "README.md", "--item", '{"path":"absent"}', "--json")
    by_options = json.loads(ok(installed, "tools", "read_files", *words))
    params = {"project": installed.project, "items": [{"path": "README.md"}, {"path": "absent"}]}
    given = ("--params", json.dumps(params), "--json")
    assert json.loads(ok(installed, "tools", "call", "read-files", *given)) == by_options
    assert [item["success"] for item in by_options["output"]["items"]] == [True, False]
    assert by_options["output"]["items"][0]["output"]["text"] == "# Demo\n\nA line.\n"


@requirement("M-12", "M-13", "M-17")
def test_call_that_cannot_be_made_says_what_is_wrong(installed: Installed) -> None:
    absent = run(installed, "tools", "read_files")
    assert (absent.exit_code, absent.stderr.splitlines()[-1]) == (2, "Error: Missing: --project --item")
    unknown = run(installed, "tools", "erase_everything")
    assert (unknown.exit_code, "No such command" in unknown.stderr) == (2, True)
    assert failed(installed, "tools", "call", "erase_everything") == "The Server refused: Unknown tool.\n"
    bad = run(installed, "tools", "list_projects", "--params", "[]")
    assert "--params must be one JSON object" in bad.stderr


@requirement("M-14", "M-15")
def test_failed_call_gives_the_word_and_what_to_do_next(installed: Installed) -> None:
    words = ("tools", "close_session", "--session-id", "wc_sess_absent")
    assert failed(installed, *words) == (
        "No such Workflow Session; use list_sessions to find one. (unknown_session_id)\n"
        "Change the arguments and try again.\n"
    )
    shown = run(installed, *words, "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["output"]["error_kind"] == "unknown_session_id"


@requirement("M-18")
def test_tools_are_listed_as_the_server_shows_them(installed: Installed) -> None:
    printed = ok(installed, "tools", "list")
    assert "read_files" in printed
    assert "record_external_observation" not in printed
    assert json.loads(ok(installed, "tools", "list", "--json"))["success"] is True


@requirement("M-48", "M-49", "M-51", "M-52", "M-53", "M-07", "C-08")
def test_token_is_made_used_and_revoked(installed: Installed, tmp_path: Path) -> None:
    assert "Created ada." in ok(installed, "user", "create", "ada", "--display-name", "Ada L.")
    assert "409" not in failed(installed, "user", "create", "ada")
    assert re.search(r"^ada +user +active +Ada L\.$", ok(installed, "user", "list"), re.MULTILINE)
    file = tmp_path / "token"
    made = ok(installed, "token", "create", "--username", "ada", "--for", "reading", "--out", str(file))
    token_id = made.split()[1]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ok(installed, "project", "list", "--token-file", str(file)) == "No project is registered.\n"
    lacking = failed(installed, "tools", "list_sessions", "--project", "x", "--token-file", str(file))
    assert "The token lacks the scope runtime:read." in lacking
    assert ok(installed, "token", "revoke", token_id, "--username", "ada") == f"Revoked {token_id}.\n"
    assert "does not know this token" in failed(installed, "project", "list", "--token-file", str(file))
    assert re.search(rf"(?m)^{token_id} .* revoked ", ok(installed, "token", "list", "--username", "ada"))
    assert "has no such token" in failed(installed, "token", "revoke", "tok_absent")


@requirement("C-09", "M-55", "M-56")
def test_runner_token_is_shown_once_on_stdout_alone(installed: Installed) -> None:
    made = run(installed, "token", "create", "--runner", "laptop", "--days", "30")
    assert re.fullmatch(r"wc_agent_[0-9a-f]{64}\n", made.stdout)
    assert made.stderr == "This token is shown once; keep it in a private file.\n"
    listed = ok(installed, "token", "list")
    assert made.stdout.strip() not in listed
    (row,) = [line for line in listed.splitlines() if line.endswith("laptop")]
    assert "until 2" in row
    assert ok(installed, "token", "revoke", row.split()[0]).startswith("Revoked")


@requirement("A-02", "A-21", "A-31", "A-64")
def test_adapter_configuration_is_private_bound_to_one_session_and_prepared_once(
    installed: Installed,
) -> None:
    begun = json.loads(ok(installed, "tools", "start_session", "--project", installed.project, "--json"))
    session = begun["output"]["session_id"]
    words = ("adapters", "setup", "--project", installed.project, "--session")
    before = set(installed.files.adapters_dir.iterdir())
    refused = failed(installed, *words, "wc_sess_absent", "--conversation", "one", code=2)
    assert refused.startswith("The Server does not offer that Session for reports: No such Workflow Session")
    assert set(installed.files.adapters_dir.iterdir()) == before
    said = [ok(installed, *words, session, "--conversation", each) for each in ("one", "two", "one")]
    assert said[0] == said[2] != said[1]
    configs = [Path(one.splitlines()[0].removeprefix("The configuration is in ")) for one in said[:2]]
    stored = [json.loads(config.read_text(encoding="utf-8")) for config in configs]
    outboxes = [Path(each.pop("state_dir")) for each in stored]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (*configs, *outboxes)]
    registry = installed.files.adapters_dir / "recovery.json"
    bindings = json.loads(registry.read_text(encoding="utf-8"))["bindings"]
    for file in (*configs, registry):  # the installation is shared: it stays as it was found
        file.unlink()
    assert modes == [0o600, 0o600, 0o700, 0o700]
    bound = {
        "server_url": installed.url,
        "authorization_file": str(installed.files.authorization_file),
        "project": installed.project,
        "project_root": str(installed.project_root),
        "workflow_session_id": session,
    }
    assert stored == [{**bound, "local_session_id": each} for each in ("one", "two")]
    assert outboxes[0] != outboxes[1]
    hooks = json.loads(said[0][said[0].index("{\n") : said[0].rindex("}\n") + 2])["hooks"]
    lines = {event: groups[0]["hooks"][0]["command"] for event, groups in hooks.items()}
    assert lines["PostToolUse"].endswith(f"external_observation_hook.py --config {configs[0]}")
    assert lines["SessionStart"] == lines["UserPromptSubmit"]
    assert lines["SessionStart"].endswith(f"session_recovery.py --registry {registry} hook")
    assert [each["local_session_id"] for each in bindings] == ["one", "two"]
    assert {each["workflow_session_id"] for each in bindings} == {session}


@contextmanager
def held_folder(folder: Path) -> Iterator[None]:
    """Another set-up is at work in that folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


@requirement("A-53", "A-63", "A-64")
def test_adapters_are_set_up_from_the_project_folder_and_looked_at(installed: Installed) -> None:
    begun = json.loads(ok(installed, "tools", "start_session", "--project", installed.project, "--json"))
    words = ("--session", begun["output"]["session_id"], "--conversation", "three")
    before = set(installed.files.adapters_dir.iterdir())
    refused = failed(installed, "adapters", "setup", "--project", "/", *words, code=2)
    assert refused.startswith("/ is no Project of this machine.")
    setup = ("adapters", "setup", "--project", str(installed.project_root), *words)
    assert failed(installed, *setup[:-1], "a b", code=2).startswith("--conversation must be the id")
    with held_folder(installed.files.adapters_dir):
        assert failed(installed, *setup, code=2).startswith("Another set-up of the adapters is running")
    assert set(installed.files.adapters_dir.iterdir()) == before
    assert "The registry is in " in ok(installed, *setup)
    begun = json.loads(ok(installed, "tools", "start_session", "--project", installed.project, "--json"))
    again = ok(installed, *setup[:5], begun["output"]["session_id"], *words[2:])
    assert f"This conversation is also bound to {words[1]}; where both apply, it is asked" in again
    looked = json.loads(run(installed, "adapters", "check", "--json").stdout)
    told = {each["name"]: (each["status"], each["found"]) for each in looked["checks"]}
    assert {each["area"] for each in looked["checks"]} == {"host", "adapters"}
    assert told["observation"][0] == "unknown"
    assert told["recovery"][1].startswith("2 associations, 0 snapshots, 0 made room for others; a hook has")
    assert "recovery: 2 associations" in run(installed, "adapters", "check").stdout
    (installed.files.adapters_dir / "recovery.json").chmod(0o644)
    assert failed(installed, *setup).endswith("session_recovery.py refused: private_regular_file_required.\n")
    for path in set(installed.files.adapters_dir.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@requirement("M-54", "C-08")
def test_credentials_are_registered_again_and_replaced_only_when_they_have_ended(
    installed: Installed, tmp_path: Path
) -> None:
    fresh = files.Installation(directory=tmp_path / "fresh")
    files.prepare(fresh)
    credentials.make_missing(fresh, installed.url)
    operator = server_client.Client(
        url=installed.url, token=files.read_secret(installed.files.bootstrap_file)
    )
    assert works(installed.url, fresh) is False
    assert credentials.register(operator, fresh) == []
    assert credentials.register(operator, fresh) == []
    assert works(installed.url, fresh) is True
    before = files.read_secret(fresh.pat_file)
    owner = {"username": files.USERNAME}
    tokens = operator.ask("/api/tokens/list", owner)["tokens"]
    (mine,) = [token["id"] for token in tokens if before.startswith(token["token_prefix"])]
    operator.ask("/api/tokens/revoke", {**owner, "token_id": mine})
    assert credentials.register(operator, fresh) == [
        "The token for coding was revoked or had expired; a new one took its place."
    ]
    assert (files.read_secret(fresh.pat_file) == before, works(installed.url, fresh)) == (False, True)


def works(url: str, found: files.Installation) -> bool:
    """Says whether the Server knows the PAT of an installation."""
    client = server_client.Client(url=url, token=files.read_secret(found.pat_file))
    return client.post("/api/users/me", {}).status == HTTPStatus.OK


@requirement("M-59")
def test_commands_without_a_server_say_how_to_start_one(tmp_path: Path) -> None:
    variables = installation.environment(tmp_path)
    none_yet = ended(("tools", "list_projects"), variables)
    assert none_yet.exit_code == 2
    assert none_yet.stderr == (
        f"There is no installation in {tmp_path / 'data'} yet.\n"
        f"Start one with: {program.name()} up --project /path/to/repository\n"
    )
    token = tmp_path / "token"
    files.write_secret(token, "wc_pat_" + 64 * "0")
    words = ("tools", "list_projects", "--token-file", str(token), "--url", "http://127.0.0.1:1")
    silent = ended(words, variables)
    assert (silent.exit_code, silent.stderr.splitlines()[0]) == (
        1,
        "No Server answers at http://127.0.0.1:1.",
    )
    token.chmod(0o644)
    open_to_all = ended(words, variables)
    assert (open_to_all.exit_code, f"chmod 600 {token}" in open_to_all.stderr) == (2, True)
