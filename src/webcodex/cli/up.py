"""``webcodex up``: a Server and a Runner for one project, from nothing to a page of what to do next."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from webcodex.cli import (
    children,
    credentials,
    installation,
    options,
    page,
    project_path,
    project_registry,
    refusal,
    runner_file,
    server_client,
)
from webcodex.cli.installation import Installation

Outcome = TypeVar("Outcome")

SERVED_WITHIN_S: Final = 30.0
PATIENCE_S: Final = 3.0
_POLL_S: Final = 0.03
_LEFT_OVER_S: Final = 10.0
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_MOST_PORT: Final = 65_535
_OWN_VARIABLES: Final = "WEBCODEX_"
_SET_HERE: Final = frozenset(
    {"WEBCODEX_TOKEN", "WEBCODEX_ADDR", "WEBCODEX_DATA", "WEBCODEX_AUTH_DISABLED", "WEBCODEX_RUNNER_CONFIG"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is to run."""

    installation: Installation
    host: str
    port: int
    chosen: project_path.Chosen
    project: project_registry.Registered


class Stopped(Exception):
    """Somebody asked for the end."""


@click.command("up")
@click.option("--project", "typed", required=True, metavar="DIR", help="The project to serve.")
@click.option(
    "--addr",
    metavar="HOST:PORT",
    help="Where the Server listens, from now on; port 0 takes a free one. At first 127.0.0.1:8080.",
)
@options.data
def command(typed: str, addr: str | None, data: str | None) -> None:
    """Start WebCodex for a project and keep it running until Ctrl-C.

    The first start makes a user, its tokens and the Runner's configuration; later starts find them again.
    Started with another project, it serves that one too.
    """
    found = installation.locate(data)
    chosen = project_path.chosen(typed, found.directory)
    installation.prepare(found)
    with installation.held(found):
        host, port = _host_and_port(addr or installation.remembered_addr(found) or installation.DEFAULT_ADDR)
        _refuse_taken(host, port, patience_s=_LEFT_OVER_S if found.running_file.exists() else 0.0)
        credentials.make_missing(found, f"http://{host}:{port}")
        project = project_registry.register(found, chosen.root)
        plan = Plan(installation=found, host=host, port=port, chosen=chosen, project=project)
        asyncio.run(_live(plan))


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > _MOST_PORT:
        raise refusal.Refused("--addr must be HOST:PORT, such as 127.0.0.1:8080; port 0 takes a free one.")
    if host not in _LOOPBACK:
        raise refusal.Refused(
            f"`webcodex up` serves this machine only: --addr must begin with one of {', '.join(_LOOPBACK)}.\n"
            "For other machines, run webcodex-server behind a proxy that speaks https."
        )
    return host, int(port)


def _refuse_taken(host: str, port: int, *, patience_s: float) -> None:
    """Refuses a port that somebody has; a Server whose ``up`` was killed frees its own within moments."""
    until = time.monotonic() + patience_s
    why = server_client.is_taken(host.strip("[]"), port) if port else None
    while why is not None and time.monotonic() < until:
        time.sleep(_POLL_S)
        why = server_client.is_taken(host.strip("[]"), port)
    if why is not None:
        raise refusal.Refused(
            f"The Server cannot listen on {host}:{port}: {why}.\n"
            f"Stop what listens there, or let it take a free port, once and for all, with: --addr {host}:0"
        )


async def _live(plan: Plan) -> None:
    stop = asyncio.Event()
    for number in _STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    crew: list[children.Child] = []
    patience = asyncio.get_running_loop().call_later(PATIENCE_S, _say_starting)
    try:
        crew.append(server := await _start_server(plan))
        crew.append(runner := await _start_runner(plan))
        shown = await _unless_over(stop, crew, _bring_up(plan, server, runner))
        patience.cancel()
        click.echo(page.text(shown))
        await _unless_over(stop, crew, asyncio.Event().wait())
    except Stopped:
        pass
    finally:
        patience.cancel()
        plan.installation.running_file.unlink(missing_ok=True)
        for child in crew:
            child.terminate()
        for child in crew:
            await child.gone()


def _say_starting() -> None:
    if sys.stderr.isatty():
        click.echo("Starting; this machine is busy or slow, so it takes a moment longer.", err=True)


async def _start_server(plan: Plan) -> children.Child:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_OWN_VARIABLES) and name not in _SET_HERE
    }
    found = plan.installation
    return await children.start(
        "Server",
        "webcodex.server.main",
        log_file=found.logs_dir / "server.log",
        variables={
            **inherited,
            "WEBCODEX_TOKEN": installation.read_secret(found.bootstrap_file),
            "WEBCODEX_ADDR": f"{plan.host}:{plan.port}",
            "WEBCODEX_DATA": str(found.directory),
        },
        cwd=found.directory,
    )


async def _start_runner(plan: Plan) -> children.Child:
    found = plan.installation
    return await children.start(
        "Runner",
        "webcodex.runner.main",
        "--config",
        str(found.runner_file),
        log_file=found.logs_dir / "runner.log",
        variables={},
        cwd=found.directory,
    )


async def _unless_over(
    stop: asyncio.Event, crew: list[children.Child], work: Coroutine[Any, Any, Outcome]
) -> Outcome:
    """Returns what ``work`` returns.

    Raises:
        Stopped: a signal came first.
        ChildEnded: a child ended first.

    """
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    ending = [asyncio.create_task(child.ended()) for child in crew]
    tasks: set[asyncio.Task[Any]] = {working, stopping, *ending}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if stopping in done:
            raise Stopped
        for ended in ending:
            if ended in done:
                raise ended.result()
        return working.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _bring_up(plan: Plan, server: children.Child, runner: children.Child) -> page.Shown:
    found = plan.installation
    server.begin()
    url = await server.ready_url()
    notes = await asyncio.to_thread(_settle, plan, url)
    runner.begin()
    await _served(plan, url, runner)
    running = installation.Running(url=url, server_pid=server.pid, runner_pid=runner.pid)
    installation.note_running(found, running)
    return page.Shown(
        installation=found,
        url=url,
        project=plan.project.canonical,
        root=plan.chosen.root,
        notes=(*plan.chosen.notes, *plan.project.notes, *notes),
    )


def _settle(plan: Plan, url: str) -> list[str]:
    found = plan.installation
    installation.remember_addr(found, f"{plan.host}:{url.rpartition(':')[2]}")
    if runner_file.read(found.runner_file).server_url != url:
        runner_file.point_at(found.runner_file, url)
    token = installation.read_secret(found.bootstrap_file)
    return credentials.register(server_client.Client(url=url, token=token), found)


async def _served(plan: Plan, url: str, runner: children.Child) -> None:
    """Returns when the Server sees the Project through a connected Runner."""
    client = server_client.Client(url=url, token=installation.read_secret(plan.installation.pat_file))
    until = time.monotonic() + SERVED_WITHIN_S
    while time.monotonic() < until:
        if await asyncio.to_thread(project_registry.is_served, client, plan.project.canonical):
            return
        await asyncio.sleep(_POLL_S)
    raise refusal.Failed(
        f"The Runner did not serve {plan.project.canonical} within {SERVED_WITHIN_S:.0f} s.\n"
        f"{await runner.account()}"
    )
