"""The Server as a process: when it is ready, how it ends, what it leaves (10.1)."""

import signal
import socket
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.server.server_process import READY, TOKEN, NotReady, ServerProcess
from webcodex.server import data_lock, settings, store


@requirement("M-22", "M-59", "C-08", "C-09")
def test_a_server_keeps_its_data_and_address_over_a_crash_and_shares_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_lock, "WAIT_S", 0.0)
    with ServerProcess(tmp_path) as server:
        first = server.url
        made = server.post("/api/users/create", {"username": "ada", "issue_credential": True})[1]
        credential = made["account_credential"]
        second = settings.load({"WEBCODEX_DATA": str(server.data_dir), "WEBCODEX_TOKEN": TOKEN})
        with pytest.raises(settings.BadSetting, match="is used by another webcodex-server"):
            store.opened(second).__enter__()
        server.kill()
        with store.opened(second):
            assert (server.data_dir / data_lock.FILE).stat().st_mode & 0o077 == 0
        server.restart()
        assert server.url == first
        assert server.get("/readyz") == (200, {"status": "ready"})
        assert server.post("/api/users/me", {}, credential) == (200, {"success": True, "user": made["user"]})
        assert server.stop(signal.SIGINT) == 0
        for secret in (credential, server.token):
            assert secret not in server.log()
        assert "Traceback" not in server.log()


@requirement("M-03")
def test_a_taken_port_is_named_and_the_server_exits(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        server = ServerProcess(tmp_path, environment={"WEBCODEX_ADDR": address})
        try:
            server.start()
        except NotReady as refusal:
            said = str(refusal)
        else:
            server.kill()
            raise AssertionError(READY)
    assert said == (
        "webcodex-server: WEBCODEX_ADDR names a port that another process uses; "
        "stop that process or choose another port.\n"
    )
    assert server.exit_code == 2
    assert not server.data_dir.exists()
