"""One run of the handoff reader: its arguments, where it may be run, and what it prints (A-40, A-41)."""

import os

from adapter_kit import config as configuration
from adapter_kit import handoff_read, json_text, paths, process, refusal
from adapter_kit import server_client as client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_USAGE = b"""\
usage: read_handoff.py --config PATH

Prints the saved handoff of the configured Session. Run it from inside the configured project.
It writes nothing, binds nothing and completes nothing.
"""
_ARGUMENTS = 2
_UNCONFIRMED = "handoff_read_unconfirmed"


def run(arguments: "list[str]") -> "NoReturn":
    """The process has ended: with 0 and the handoff on stdout, or with 1 and the reason on stderr (A-03)."""
    process.prepare()
    reason = _UNCONFIRMED
    try:
        if arguments in (["--help"], ["-h"]):
            process.end(0, out=_USAGE)
        process.end(0, out=json_text.encode(_answer(_config_path(arguments))) + b"\n")
    except refusal.Refused as refused:
        reason = refused.reason
    except BaseException:  # noqa: BLE001, S110  # the outermost edge: no traceback may reach the host
        pass
    _fail(reason)


def _fail(reason: str) -> "NoReturn":
    process.end(1, err=json_text.line({"status": "unavailable", "reason": reason}))


def _config_path(arguments: "list[str]") -> str:
    if len(arguments) != _ARGUMENTS or arguments[0] != "--config" or not arguments[1]:
        raise refusal.Refused("invalid_arguments")
    return paths.argument(arguments[1])


def _answer(config_path: str) -> "dict[str, object]":
    config = configuration.load(config_path)
    if not is_within(config.project_root):
        raise refusal.Refused("outside_configured_project")
    authorization = client.read_authorization(config.authorization_file)
    deadline = client.Deadline(handoff_read.SECONDS)
    with process.Watchdog(handoff_read.SECONDS, lambda: _fail(_UNCONFIRMED)):
        parts = handoff_read.read(
            config.server_url, authorization, config.project, config.workflow_session_id, deadline
        )
    return {
        "status": "read",
        "project": config.project,
        "session_id": config.workflow_session_id,
        "recovery_note": handoff_read.NOTE,
        **parts,
    }


def is_within(project_root: str) -> bool:
    """Whether this directory is the root or below it with no other repository between (A-40, A-55)."""
    try:
        place = paths.resolved(paths.argument(os.getcwd()))  # noqa: PTH109  # pathlib costs more than the whole run
        while place != project_root:
            above = paths.parent(place)
            if above == place or paths.has_entry(place, ".git"):
                return False
            place = above
    except (OSError, ValueError):  # what cannot be looked at is not inside
        return False
    return True
