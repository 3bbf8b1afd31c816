"""The doctor tells each fault with its next step, and unknown for what cannot be seen; it changes nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click import testing
from websockets.sync.client import connect

from tests.journeys import doctor_visit, installation
from tests.journeys.doctor_visit import SERVERS_OWN
from tests.journeys.installation import Installed
from tests.requirements import requirement
from tests.server.station import hello
from webcodex.cli import credentials, program, project_registry, runner_file
from webcodex.cli import installation as files
from webcodex.cli.doctor_checks import server
from webcodex.cli.installation import Installation

PLANTED = "planted-7f3a"
LINE = {"area", "name", "status", "found", "next_step"}
RUNNING = {
    "installation: private files": "ok",
    "installation: up": "ok",
    "server: answers": "ok",
    "server: version": "ok",
    "server: tools": "ok",
    "runner: configuration": "ok",
    "runner: connection": "ok",
    "projects: agent:local:project": "ok",
    "credentials: PAT": "ok",
    "credentials: adapters": "ok",
    "credentials: Runner token": "ok",
}


def secrets_of(found: Installation) -> list[str]:
    """Every credential of an installation."""
    private = (found.bootstrap_file, found.pat_file, found.authorization_file)
    read = [files.read_secret(file).removeprefix("Bearer ") for file in private]
    return [*read, runner_file.read(found.runner_file).token]


def run(found: Installed, *words: str) -> testing.Result:
    """How one command on the installation ended, run in this process."""
    return doctor_visit.ended(words, found.variables)


def codex_home(folder: Path, url: str, hook: str) -> None:
    """Codex's own files as its user has set them up, with a secret in each place where one may be."""
    folder.mkdir()
    (folder / "config.toml").write_text(
        f'[mcp_servers.webcodex]\nurl = "{url}/mcp"\nbearer_token_env_var = "WEBCODEX_TOKEN"\n'
        f'[mcp_servers.other]\nurl = "https://{PLANTED}:{PLANTED}@example.com/{PLANTED}"\n'
        f'http_headers = {{ Authorization = "Bearer {PLANTED}" }}\n'
        f'[hooks.state."{folder}/hooks.json:post_tool_use:0:0"]\ntrusted_hash = "sha256:{PLANTED}"\n',
        encoding="utf-8",
    )
    handler = {"type": "command", "command": f"TOKEN={PLANTED} {hook}", "statusMessage": PLANTED}
    hooks = {"hooks": {"PostToolUse": [{"hooks": [handler]}]}}
    (folder / "hooks.json").write_text(json.dumps(hooks), encoding="utf-8")


@pytest.fixture
def set_up(installed: Installed) -> Iterator[str]:
    """Yields the hook's line of a configuration of the shared installation, which is gone afterwards."""
    before = set(installed.files.adapters_dir.iterdir())
    begun = run(installed, "tools", "start_session", "--project", installed.project, "--json")
    session = json.loads(begun.stdout)["output"]["session_id"]
    words = ("--project", installed.project, "--session", session, "--conversation", "seen")
    made = run(installed, "adapters", "setup", *words)
    config = made.stdout.splitlines()[0].removeprefix("The configuration is in ")
    shown = doctor_visit.visit(installed.data_dir.parent, installed.files)
    line = shown.line("adapters", Path(config).stem)
    printed = subprocess.run(
        ["sh", "-c", line["next_step"]], capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    yield printed.stdout.strip()
    for path in set(installed.files.adapters_dir.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@requirement("C-09", "M-59", "A-34", "A-64", "A-108", "R-03")
def test_healthy_installation_is_right_in_every_line_and_stays_as_it_was(
    installed: Installed, set_up: str
) -> None:
    home = installed.data_dir.parent
    codex_home(home / ".codex", installed.url, set_up)
    before = doctor_visit.tree(home, SERVERS_OWN)
    report = doctor_visit.visit(home, installed.files, WEBCODEX_TOKEN=installed.pat)
    after = doctor_visit.tree(home, SERVERS_OWN)
    shutil.rmtree(home / ".codex")
    assert after == before
    assert (report.exit_code, report.body["ok"]) == (0, True), report.text
    host = {"host: Codex registration": "ok", "host: Codex token": "ok"}
    hook = {"host: external_observation_hook.py on PostToolUse": "ok", "host: Codex trust": "unknown"}
    seen = {key: status for key, status in report.statuses().items() if not key.startswith("adapters")}
    assert seen == {**RUNNING, **host, **hook}
    assert all(set(check) == LINE for check in report.body["checks"])
    assert all(check["next_step"] is None for check in report.body["checks"] if check["status"] == "ok")
    assert "only Codex knows" in report.line("host", "Codex trust")["found"]
    assert "project:write" in report.line("credentials", "PAT")["found"]
    assert report.text.endswith("Everything that is needed is right; 3 unknown.\n"), report.text
    for secret in [*secrets_of(installed.files), PLANTED]:
        assert secret not in report.everything


@requirement("A-02", "C-09")
def test_without_an_installation_the_one_step_is_to_start_one(tmp_path: Path) -> None:
    report = doctor_visit.visit(tmp_path, files.Installation(directory=tmp_path / "data"))
    assert report.exit_code == 1
    step = f"{program.name()} up --project /path/to/repository"
    found = f"There is no installation in {tmp_path / 'data'} yet."
    assert report.body["checks"] == [
        {
            "area": "installation",
            "name": "data directory",
            "status": "attention",
            "found": found,
            "next_step": step,
        }
    ]
    assert f"next: {step}\n" in report.text
    assert list(tmp_path.iterdir()) == []


@requirement("C-09", "M-59")
def test_stopped_installation_says_how_to_start_and_leaves_the_disk_alone(tmp_path: Path) -> None:
    root = installation.repository(tmp_path / "a project")
    found = doctor_visit.stopped(tmp_path, root)
    codex_home(tmp_path / ".codex", "http://127.0.0.1:1", "python3 /none")
    (found.logs_dir / "runner.log").write_text(f"action=failed {PLANTED}\n", encoding="utf-8")
    (found.logs_dir / "runner.log").chmod(0o600)
    before = doctor_visit.tree(tmp_path)
    report = doctor_visit.visit(tmp_path, found)
    assert doctor_visit.tree(tmp_path) == before
    start = f"{program.name()} up --project '{root}'"
    assert report.exit_code == 1
    assert report.told("installation", "up") == ("attention", "`webcodex up` does not run.", start)
    silent = "No Server answers at http://127.0.0.1:1."
    assert report.told("server", "answers") == ("attention", silent, start)
    left = {key for key, status in report.statuses().items() if status == "unknown"}
    assert {"server: version", "runner: connection", "credentials: PAT"} < left
    assert report.statuses()["projects: agent:local:a-project"] == "unknown"
    assert report.text.count(f"next: {start}\n") == 1
    for secret in [*secrets_of(found), PLANTED]:
        assert secret not in report.everything


@requirement("A-10", "A-11", "C-09")
def test_open_file_and_folder_are_named_and_the_step_closes_them(tmp_path: Path) -> None:
    found = doctor_visit.stopped(tmp_path, installation.repository(tmp_path / "project"))
    found.pat_file.chmod(0o644)
    found.logs_dir.chmod(0o755)
    report = doctor_visit.visit(tmp_path, found)
    status, _, step = report.told("installation", "private files")
    assert (status, step) == ("attention", f"chmod 700 {found.logs_dir} && chmod 600 {found.pat_file}")
    status, said, remedy = report.told("credentials", "PAT")
    assert (status, remedy) == ("attention", f"chmod 600 {found.pat_file}")
    assert "must belong to this user alone" in said
    subprocess.run(["sh", "-c", str(step)], check=True, timeout=60)
    assert doctor_visit.visit(tmp_path, found).line("installation", "private files")["status"] == "ok"


@requirement("A-10")
def test_many_open_files_get_one_step_and_a_link_is_shown(tmp_path: Path) -> None:
    found = doctor_visit.stopped(tmp_path, installation.repository(tmp_path / "project"))
    for number in range(9):
        (found.outbox_dir / f"{number}").touch(0o640)
    _, _, step = doctor_visit.visit(tmp_path, found).told("installation", "private files")
    subprocess.run(["sh", "-c", str(step)], check=True, timeout=60)
    assert doctor_visit.visit(tmp_path, found).line("installation", "private files")["status"] == "ok"
    (found.outbox_dir / "link").symlink_to(tmp_path)
    shown = doctor_visit.visit(tmp_path, found).told("installation", "private files")
    assert (shown[0], shown[2]) == ("attention", f"ls -ld {found.outbox_dir / 'link'}")


@requirement("R-03")
def test_moved_project_is_told_and_the_step_forgets_it(tmp_path: Path) -> None:
    root = installation.repository(tmp_path / "project")
    found = doctor_visit.stopped(tmp_path, root)
    root.rename(tmp_path / "moved")
    status, said, step = doctor_visit.visit(tmp_path, found).told("projects", "agent:local:project")
    assert (status, step) == ("attention", f"{program.name()} project remove agent:local:project")
    assert f"{root} is no directory any more" in said
    words = tuple(str(step).removeprefix(f"{program.name()} ").split())
    assert doctor_visit.ended(words, {"WEBCODEX_DATA": str(found.directory)}).exit_code == 0
    assert doctor_visit.visit(tmp_path, found).told("projects", "registry")[:2] == (
        "attention",
        "No Project is registered.",
    )


@requirement("R-01", "R-03", "C-09")
def test_damaged_files_are_named_by_their_key_and_never_quoted(tmp_path: Path) -> None:
    found = doctor_visit.stopped(tmp_path, installation.repository(tmp_path / "project"))
    registry = runner_file.read(found.runner_file).registry_dir
    (registry / "bad.toml").write_text(f'id = "bad"\npath = "{PLANTED}"\n', encoding="utf-8")
    (registry / "worse.toml").write_text(f"{PLANTED} = [", encoding="utf-8")
    for file in ("bad", "worse"):
        (registry / f"{file}.toml").chmod(0o600)
    report = doctor_visit.visit(tmp_path, found)
    assert report.told("projects", "agent:local:worse")[2] == f"${{EDITOR:-vi}} {registry / 'worse.toml'}"
    assert report.line("projects", "agent:local:worse")["status"] == "attention"
    found.settings_file.write_text('{"version": 2, "addr": "x"}', encoding="utf-8")
    surprised = f'{found.runner_file.read_text(encoding="utf-8")}surprise = "{PLANTED}"\n'
    found.runner_file.write_text(surprised, encoding="utf-8")
    report = doctor_visit.visit(tmp_path, found)
    assert report.line("installation", "settings")["status"] == "attention"
    status, said, _ = report.told("runner", "configuration")
    assert (status, "surprise" in said) == ("attention", True)
    assert report.line("server", "address")["status"] == "unknown"
    assert report.exit_code == 1
    assert "wc_agent_" not in report.everything


@requirement("R-02")
def test_installation_that_is_just_starting_is_neither_right_nor_wrong(tmp_path: Path) -> None:
    found = doctor_visit.stopped(tmp_path, installation.repository(tmp_path / "project"))
    with files.held(found):
        status, said, step = doctor_visit.visit(tmp_path, found).told("installation", "up")
    assert (status, step) == ("unknown", f"{program.name()} doctor")
    assert said == f"`webcodex up` (process {os.getpid()}) is starting or stopping."


@requirement("C-08", "C-09", "M-05")
@pytest.mark.parametrize("name", ["PAT", "adapters", "Runner token"])
def test_revoked_credential_is_told_and_a_start_replaces_it(
    name: str, installed: Installed, tmp_path: Path
) -> None:
    with doctor_visit.beside(tmp_path, installed) as found:
        assert doctor_visit.visit(tmp_path, found).body["ok"] is True
        token = dict(zip(("PAT", "adapters", "Runner token"), secrets_of(found)[1:], strict=True))[name]
        doctor_visit.revoke(installed, token)
        report = doctor_visit.visit(tmp_path, found)
        start = f"{program.name()} up --project {installed.project_root}"
        status, said, step = report.told("credentials", name)
        assert (status, report.exit_code) == ("attention", 1)
        assert "does not accept the token" in said
        assert str(step).startswith(f"kill -INT {os.getpid()}; while kill -0 {os.getpid()} ")
        assert str(step).endswith(f"; {start}")
        assert token not in report.everything
        assert report.line("projects", installed.project)["status"] == ("unknown" if name == "PAT" else "ok")
        credentials.register(doctor_visit.operator(installed), found)
        assert doctor_visit.visit(tmp_path, found).body["ok"] is True


@requirement("C-14")
def test_token_that_lacks_a_scope_of_its_work_is_told(installed: Installed, tmp_path: Path) -> None:
    with doctor_visit.beside(tmp_path, installed) as found:
        made = run(installed, "token", "create", "--for", "reading")
        files.write_secret(found.authorization_file, f"Bearer {made.stdout.strip()}")
        status, said, step = doctor_visit.visit(tmp_path, found).told("credentials", "adapters")
        assert (status, str(step).split(";")[0]) == ("attention", f"rm {found.authorization_file}")
        assert said.endswith("it lacks runtime:read session:collaborate communication:read.")


@requirement("C-09", "A-19")
@pytest.mark.parametrize("content", ["", "Basic x", "Bearer ", f"Bearer {PLANTED} and more", "\xff"])
def test_file_without_a_token_is_told_and_not_sent(
    content: str, installed: Installed, tmp_path: Path
) -> None:
    with doctor_visit.beside(tmp_path, installed) as found:
        found.authorization_file.write_text(content, encoding="latin-1")
        report = doctor_visit.visit(tmp_path, found)
        status, _, step = report.told("credentials", "adapters")
        assert (status, str(step).startswith(f"rm {found.authorization_file}; ")) == ("attention", True)
        found.authorization_file.unlink()
        assert "is not there" in doctor_visit.visit(tmp_path, found).told("credentials", "adapters")[1]
        assert PLANTED not in report.everything


def renamed(found: Installation, installed: Installed, client_id: str) -> None:
    """The data directory's Runner has another name, and its token is known by it."""
    text = found.runner_file.read_text(encoding="utf-8").replace('"local"', f'"{client_id}"')
    found.runner_file.write_text(text, encoding="utf-8")
    made = run(installed, "token", "create", "--runner", client_id, "--name", client_id)
    runner_file.replace_token(found.runner_file, made.stdout.strip())


@requirement("R-34", "R-36", "C-15")
def test_runner_that_is_gone_is_told_with_its_last_contact(installed: Installed, tmp_path: Path) -> None:
    with doctor_visit.beside(tmp_path, installed) as found:
        renamed(found, installed, "away")
        never = doctor_visit.visit(tmp_path, found).told("runner", "connection")
        assert (never[0], "has never heard of the Runner away" in never[1]) == ("attention", True)
        project = {"id": "project", "path": str(installed.project_root), "allow_patch": True}
        said = hello(client_id="away", projects=[{**project, "disabled": False}])
        header = {"Authorization": f"Bearer {runner_file.read(found.runner_file).token}"}
        url = f"{installed.url.replace('http', 'ws')}/api/agents/ws"
        with connect(url, additional_headers=header, max_size=None) as runner:
            runner.send(json.dumps(said))
            assert json.loads(runner.recv(30))["success"] is True
        report = doctor_visit.visit(tmp_path, found)
        status, words, step = report.told("runner", "connection")
        assert (status, report.exit_code, "kill -INT" in str(step)) == ("attention", 1, True)
        assert re.search(r"away is not connected; last seen \d+ s ago\. Its log: .*runner\.log$", words)
        assert report.told("projects", "agent:away:project")[:2] == (
            "attention",
            "Registered, but its Runner is not connected.",
        )
        with connect(url, additional_headers=header, max_size=None) as runner:  # two would share one root
            runner.send(json.dumps({**said, "projects": []}))
            assert json.loads(runner.recv(30))["success"] is True


@requirement("C-04", "R-30")
def test_runner_token_of_another_runner_is_told(installed: Installed, tmp_path: Path) -> None:
    with doctor_visit.beside(tmp_path, installed) as found:
        made = run(installed, "token", "create", "--runner", "somebody", "--name", "somebody")
        runner_file.replace_token(found.runner_file, made.stdout.strip())
        status, said, step = doctor_visit.visit(tmp_path, found).told("credentials", "Runner token")
        assert (status, step) == ("attention", f"{program.name()} token create --runner local")
        assert "for another Runner than local" in said


@requirement("R-02", "R-03")
def test_what_the_runner_has_not_been_told_yet_is_seen(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with doctor_visit.beside(tmp_path, installed) as found:
        root = installation.repository(tmp_path / "new")
        project_registry.register(found, root)
        runner_file.point_at(found.runner_file, "http://127.0.0.1:1")
        monkeypatch.setattr(server, "own_version", lambda: "9.9.9")
        report = doctor_visit.visit(tmp_path, found)
        assert report.told("projects", "agent:local:new")[2] == f"{program.name()} project add {root}"
        assert report.line("projects", "agent:local:new")["status"] == "attention"
        assert "names another Server" in report.line("runner", "configuration")["found"]
        assert "this command is 9.9.9" in report.line("server", "version")["found"]


@requirement("R-11")
def test_replaced_root_is_seen_and_adding_the_project_again_mends_it(installed: Installed) -> None:
    home = installed.data_dir.parent
    root = installation.repository(home / "swapped")
    assert run(installed, "project", "add", str(root)).exit_code == 0
    root.rename(home / "swapped-away")
    root.mkdir()
    status, said, step = doctor_visit.visit(home, installed.files).told("projects", "agent:local:swapped")
    assert (status, step) == ("attention", f"{program.name()} project add {root}")
    assert "is not the directory that the Runner holds" in said
    assert run(installed, "project", "add", str(root)).exit_code == 0
    mended = doctor_visit.visit(home, installed.files)
    assert mended.line("projects", "agent:local:swapped")["found"].endswith(
        "not the top of a Git repository."
    )
    assert mended.line("projects", "agent:local:swapped")["status"] == "ok"
    assert run(installed, "project", "remove", "agent:local:swapped").exit_code == 0


@requirement("A-21", "A-34")
def test_adapters_that_cannot_report_are_told(installed: Installed, tmp_path: Path) -> None:
    stored = {
        "server_url": installed.url,
        "authorization_file": "",
        "project": installed.project,
        "project_root": str(installed.project_root),
        "workflow_session_id": "wc_sess_x",
        "local_session_id": PLANTED,
        "state_dir": "",
    }
    with doctor_visit.beside(tmp_path, installed) as found:
        stored |= {"authorization_file": str(found.authorization_file), "state_dir": str(found.outbox_dir)}
        changes: dict[str, dict[str, str]] = {
            "observation": {},
            "observation-2": {"server_url": "http://127.0.0.1:1"},
            "observation-3": {"project": "agent:local:other"},
            "observation-4": {"workflow_session_id": "none"},
        }
        for name, changed in changes.items():
            config = found.adapters_dir / f"{name}.json"
            config.write_text(json.dumps({**stored, **changed}), encoding="utf-8")
            config.chmod(0o600)
        (found.outbox_dir / f"{64 * '0'}.json").write_text("{}", encoding="utf-8")
        (found.outbox_dir / f"{64 * '0'}.json").chmod(0o600)
        report = doctor_visit.visit(tmp_path, found)
        status, said, step = report.told("adapters", "observation")
        assert status == "attention"
        assert said.startswith(
            "0 reports wait, 1 are unreadable, 0 are set aside; no flush had one refused; "
        )
        script = "integrations/codex/external_observation_hook.py"
        assert re.fullmatch(rf"{sys.executable} -I -S \S*/{script} --config \S+n\.json --flush", str(step))
        assert "names another Server" in report.line("adapters", "observation-2")["found"]
        assert "is not registered here" in report.line("adapters", "observation-3")["found"]
        assert report.line("adapters", "observation-4")["found"].endswith(": invalid_config.")
        assert report.exit_code == 1
        assert PLANTED not in report.everything
