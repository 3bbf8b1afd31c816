"""Judges the Server: it answers at the remembered address, its store works, its tools are listed (M-59)."""

import functools
from http import HTTPStatus
from importlib import metadata

from webcodex.cli.doctor_checks import checks, standing
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.doctor_checks.conversation import Heard
from webcodex.cli.doctor_checks.exchange import Answer, Reply, Silence
from webcodex.cli.doctor_checks.standing import Standing, Up

NOT_ASKED = "The Server was not asked, because an earlier look failed."


def told(now: Standing, heard: Heard) -> list[Check]:
    """Returns what is known of the Server."""
    if isinstance(now.url, standing.Fault):
        return [checks.unknown(Area.SERVER, "address", "Its address is not known.", now.start)]
    return [_ready(now, now.url, heard.ready), _version(now, heard.status), _tools(now, heard.tools)]


def _ready(now: Standing, url: str, reply: Reply) -> Check:
    area, name = Area.SERVER, "answers"
    if isinstance(reply, Answer) and reply.body == {"status": "ready"} and reply.status == HTTPStatus.OK:
        if now.up is Up.RUNNING:
            return checks.ok(area, name, f"It answers at {url}, and its store takes transactions.")
        found = f"A Server answers at {url}, but not one of this data directory."
        return checks.attention(area, name, found, _beside(now))
    if isinstance(reply, Answer) and reply.body == {"status": "unavailable"}:
        return checks.attention(
            area, name, f"It answers at {url}, but its store does not; see its log.", _log(now)
        )
    sentences = {
        Silence.NOBODY: f"No Server answers at {url}.",
        Silence.LATE: f"What listens at {url} gave no answer in time.",
        Silence.NOT_ASKED: f"{url} is not an address of this machine, so nothing was sent there.",
    }
    found = f"What answers at {url} is not a WebCodex Server."
    if isinstance(reply, Silence):
        found = sentences.get(reply, found)
    return checks.attention(area, name, found, now.restart)


def _beside(now: Standing) -> str:
    return f"{now.start} --addr 127.0.0.1:0"


def _log(now: Standing) -> str:
    return f"tail -n 20 {checks.quoted(now.found.logs_dir / 'server.log')}"


def _version(now: Standing, reply: Reply) -> Check:
    area, name = Area.SERVER, "version"
    version = reply.output.get("version") if isinstance(reply, Answer) else None
    if version is None:
        return checks.unknown(area, name, unheard(reply), now.restart)
    said = checks.word(version)
    if said == own_version():
        return checks.ok(area, name, f"It is {said}, as this command is.")
    found = f"It is {said} and this command is {own_version()}: it was started before a change."
    return checks.attention(area, name, found, now.restart)


def _tools(now: Standing, reply: Reply) -> Check:
    area, name = Area.SERVER, "tools"
    result = reply.body.get("result") if isinstance(reply, Answer) else None
    listed = result.get("tools") if isinstance(result, dict) else None
    if isinstance(listed, list) and listed:
        return checks.ok(area, name, f"{len(listed)} tools are listed over MCP.")
    if isinstance(reply, Silence):
        return checks.unknown(area, name, unheard(reply), now.restart)
    return checks.attention(area, name, "No tool is listed over MCP; see the Server's log.", _log(now))


def unheard(reply: Reply) -> str:
    """Returns why something that only the Server can tell is not known."""
    match reply:
        case Silence.NOT_ASKED:
            return NOT_ASKED
        case Silence.LATE:
            return "The Server gave no answer in time."
        case Silence.NOBODY:
            return "The Server ended the connection."
        case Silence.FOREIGN:
            return "The Server's answer cannot be read."
        case Answer():
            return f"The Server did not say; it answered with status {reply.status}."


@functools.cache
def own_version() -> str:
    """Returns the version of this command."""
    return metadata.version("webcodex")
