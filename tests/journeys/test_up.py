"""One command starts everything, says what to do next, and ends everything."""

import contextlib
import os
import re
import signal
import socket
import stat
from pathlib import Path

import pytest

from tests.journeys import installation
from tests.journeys.installation import Installed
from tests.requirements import requirement

SECRET = re.compile(r"wc_(pat|agent|acct)_[0-9a-f]{16}|[0-9a-f]{64}")
ANY_PORT = ("--addr", "127.0.0.1:0")


def secrets_of(found: Installed) -> list[str]:
    """Every credential of an installation."""
    runner = found.files.runner_file.read_text(encoding="utf-8")
    token = re.search(r'token = "(.*)"', runner)
    assert token is not None
    files = (found.files.bootstrap_file, found.files.pat_file, found.files.authorization_file)
    return [*(file.read_text(encoding="ascii").strip() for file in files), token[1]]


def is_alive(pid: int) -> bool:
    """Says whether a process of that id runs; one that only waits to be reaped does not."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    return False


def refused(folder: Path, *words: str, **variables: str) -> str:
    """What ``up`` said on refusing, with exit code 2 and an empty stdout."""
    ended = installation.finished(("up", *words), {**installation.environment(folder), **variables})
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    return ended.stderr


@requirement("A-10", "A-11", "R-01", "C-09")
def test_everything_in_the_data_directory_is_private(installed: Installed) -> None:
    for path in [installed.data_dir, *installed.data_dir.rglob("*")]:
        status = path.lstat()
        wanted = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
        assert (path, stat.S_IMODE(status.st_mode), status.st_uid) == (path, wanted, os.geteuid())
        assert stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)


@requirement("C-09")
def test_page_and_logs_hold_no_secret(installed: Installed) -> None:
    logs = "".join(log.read_text(encoding="utf-8") for log in installed.files.logs_dir.iterdir())
    assert "webcodex-server ready on" in logs
    for secret in secrets_of(installed):
        assert secret not in installed.page + logs
    assert SECRET.search(installed.page) is None


@requirement("C-14", "A-64")
def test_page_says_how_to_connect_and_what_is_still_needed(installed: Installed) -> None:
    files = installed.files
    for line in (
        f"MCP       {installed.url}/mcp",
        f'export WEBCODEX_TOKEN="$(cat {files.pat_file})"',
        f"codex mcp add webcodex --url {installed.url}/mcp --bearer-token-env-var WEBCODEX_TOKEN",
        "[mcp_servers.webcodex]",
        f'url = "{installed.url}/mcp"',
        'bearer_token_env_var = "WEBCODEX_TOKEN"',
        "a Workflow Session and a Codex conversation. WebCodex chooses and creates neither.",
        "Ctrl-C ends the Server and the Runner",
    ):
        assert line in installed.page
    assert str(files.adapters_dir) in installed.page
    assert "Note:" not in installed.page


@requirement("C-14", "M-54", "M-56", "A-17")
def test_tokens_carry_the_scopes_of_their_work(installed: Installed) -> None:
    listed = installed.run("token", "list").stdout.splitlines()[1:]
    scopes = {re.split(r"\s{2,}", line)[2]: re.split(r"\s{2,}", line)[-1] for line in listed}
    assert scopes["up: coding"] == (
        "runtime:read project:read project:write job:run session:collaborate communication:read "
        "coding_agent:run"
    )
    assert scopes["up: adapters"] == "runtime:read project:read session:collaborate communication:read"
    assert scopes["up: runner"] == "local"
    assert installed.files.authorization_file.read_text(encoding="ascii").startswith("Bearer wc_pat_")


@requirement("R-02")
def test_second_start_on_the_same_data_directory_is_refused(installed: Installed) -> None:
    ended = installed.run("up", "--project", str(installed.project_root))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"WebCodex is already running on {installed.data_dir} (process")
    assert "webcodex project add" in ended.stderr
    assert installed.run("project", "list").returncode == 0


@requirement("M-03")
def test_taken_port_is_refused_with_a_way_out(tmp_path: Path) -> None:
    project = installation.repository(tmp_path / "project")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        addr = f"127.0.0.1:{listener.getsockname()[1]}"
        said = refused(tmp_path, "--project", str(project), "--addr", addr)
    assert said.startswith(f"The Server cannot listen on {addr}: Address already in use.\n")
    assert "--addr 127.0.0.1:0" in said


@requirement("C-03")
@pytest.mark.parametrize("addr", ["0.0.0.0:0", "example.com:80", "127.0.0.1", "127.0.0.1:99999", ":8080"])
def test_address_that_is_not_of_this_machine_is_refused(addr: str, tmp_path: Path) -> None:
    project = installation.repository(tmp_path / "project")
    assert "--addr must b" in refused(tmp_path, "--project", str(project), "--addr", addr)


@requirement("R-03")
def test_unusable_projects_are_refused_with_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert "There is no directory" in refused(tmp_path, "--project", str(tmp_path / "absent"))
    assert "is not a directory" in refused(tmp_path, "--project", str(file))
    assert not (tmp_path / "data").exists()
    for around in (tmp_path, tmp_path / "data"):
        around.mkdir(exist_ok=True)
        assert "must lie outside each other" in refused(tmp_path, "--project", str(around))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "cannot be used as a project" in refused(tmp_path, "--project", str(tmp_path / "loop"))


@requirement("A-11")
def test_data_directory_that_others_can_read_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    project = installation.repository(tmp_path / "project")
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "notes").touch()
    said = refused(tmp_path, "--project", str(project))
    assert "is open to other users" in said
    assert f"chmod 700 {data}" in said
    assert (stat.S_IMODE(data.stat().st_mode), list(data.iterdir())) == (0o755, [data / "notes"])


@requirement("R-03")
def test_server_that_cannot_start_is_named_with_its_exit_code_and_log(tmp_path: Path) -> None:
    project = installation.repository(tmp_path / "project")
    variables = {**installation.environment(tmp_path), "WEBCODEX_MCP_HOST_BUDGET_SECS": "none"}
    ended = installation.finished(("up", "--project", str(project), *ANY_PORT), variables)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(
        "The Server ended: exit code 2.\nIt said last: webcodex-server: WEBCODEX_MCP"
    )
    assert f"Its log: {tmp_path / 'data' / 'logs' / 'server.log'}" in ended.stderr
    assert not (tmp_path / "data" / "running.json").exists()


@requirement("R-03", "C-08", "M-54")
def test_start_after_a_kill_keeps_data_tokens_and_port_and_adds_another_project(tmp_path: Path) -> None:
    with installation.started(tmp_path, *ANY_PORT) as first:
        known, pids, pat = secrets_of(first), first.pids(), first.pat
        assert list(first.files.outbox_dir.iterdir()) == []
        assert "total: 0" in first.run("tools", "list_sessions", "--project", first.project).stdout
        made = first.run("tools", "start_session", "--project", first.project, "--title", "kept")
        assert made.returncode == 0, made.stderr
        first.up.kill()
        first.up.wait(installation.STOP_S)
    linked = tmp_path / "link"
    linked.symlink_to(tmp_path / "other folder")
    (tmp_path / "other folder").mkdir()
    with installation.started(tmp_path, project=linked) as second:
        assert (second.url, second.pat, secrets_of(second)) == (first.url, pat, known)
        assert not any(is_alive(pid) for pid in pids)
        assert second.project == "agent:local:other-folder"
        assert f"{linked} leads to {tmp_path / 'other folder'}; the Project is registered by" in second.page
        assert "is not the top of a Git repository. That works, without" in second.page
        listed = second.run("project", "list").stdout
        assert f"{first.project}       connected" in listed
        assert f"{second.project}  connected" in listed
        sessions = second.run("tools", "list_sessions", "--project", first.project)
        assert "title: kept" in sessions.stdout
        _, server_pid, runner_pid = second.pids()
        os.kill(runner_pid, signal.SIGKILL)
        code, said = second.ended()
        assert (code, is_alive(server_pid)) == (1, False)
        assert said.startswith("The Runner ended: exit code -9, killed by SIGKILL.\n")
        assert f"Its log: {second.files.logs_dir / 'runner.log'}" in said
