"""Starts the Runner: reads its configuration, holds its state directory, serves until it is told to stop."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Final

from webcodex.runner import (
    edit_tools,
    git_safety,
    job_shelf,
    job_store,
    jobs,
    kept_answers,
    logs,
    own_files,
    presence,
    projects,
    server_link,
    settings,
    state_dir,
    streams,
    toml_table,
    work,
)

CONFIG_VARIABLE: Final = "WEBCODEX_RUNNER_CONFIG"
BAD_CONFIGURATION: Final = 2
_FAREWELL_S: Final = 5.0
"""What a shutdown of 12 s leaves to the link, beside 3 s for Jobs and what comes to join (R-65)."""

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the Runner to its end and returns its exit code: 2 for an unusable configuration (R-01)."""
    logs.begin()
    try:
        configured = settings.load(_config_path(argv, os.environ), os.environ)
        with state_dir.held(configured.state_dir) as state:
            rules = _rules(configured)
            registry = _first_registry(rules)
            asyncio.run(_serve(configured, state, rules, registry))
    except toml_table.BadConfiguration as error:
        sys.stderr.write(f"webcodex-runner: {error}\n")
        return BAD_CONFIGURATION
    return 0


def _config_path(argv: Sequence[str] | None, environment: Mapping[str, str]) -> Path:
    parser = argparse.ArgumentParser(prog="webcodex-runner", description="Serves this machine's projects.")
    parser.add_argument("--config", type=Path, help=f"runner.toml; {CONFIG_VARIABLE} overrides it")
    stated: Path | None = parser.parse_args(argv).config
    overriding = environment.get(CONFIG_VARIABLE)
    if overriding:
        return Path(overriding)
    if stated is None:
        parser.error(f"--config or {CONFIG_VARIABLE} is required")
    return stated


def _rules(configured: settings.Settings) -> projects.Rules:
    return projects.Rules(
        registry_dir=configured.project_registry_dir,
        allowed_roots=configured.policy.allowed_roots,
        state_dir=configured.state_dir,
    )


def _first_registry(rules: projects.Rules) -> projects.Registry:
    try:
        registry = projects.load(rules)
    except projects.RegistryUnreadable as error:
        raise toml_table.BadConfiguration("project_registry_dir", str(error)) from error
    _report(registry)
    return registry


def _report(registry: projects.Registry) -> None:
    log.info("action=registry_read projects=%d faults=%d", len(registry.projects), len(registry.faults))
    for fault in registry.faults:
        log.warning("action=registry_fault file=%s rule=%s", fault.file, fault.rule)


async def _serve(
    configured: settings.Settings,
    state: state_dir.StateDir,
    rules: projects.Rules,
    registry: projects.Registry,
) -> None:
    loop = asyncio.get_running_loop()
    asked, reread = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, reread.set)  # until here it would have been the end
    own = own_files.OwnFiles(
        config_path=configured.config_path,
        config_identity=configured.config_identity,
        directories=(state.path, configured.project_registry_dir),
    )
    answers = kept_answers.KeptAnswers(state.path)
    edits = edit_tools.Edits(
        client_id=configured.client_id,
        own=own,
        answers=answers,
        clock=lambda: int(time()),
        token=lambda: token_hex(16),
    )
    edits.recover(registry.projects.values())
    shelf = job_shelf.JobShelf(job_store.JobStore(state.path), answers, streams.Outbox())
    await shelf.recover()
    its_jobs = jobs.Jobs(configured, own, shelf)
    tasks = work.Work(registry, own, git_safety.find_git(), edits, its_jobs)
    runner = presence.Presence(configured, state.store_id, tasks)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    rereading = asyncio.create_task(_reread(reread, rules, tasks, runner))
    log.info("action=runner_started instance=%s", runner.instance_id)
    try:
        await _link_until(asked, configured, runner, tasks)
    finally:
        rereading.cancel()
        tasks.close()
    log.info("action=runner_stopped")


async def _link_until(
    asked: asyncio.Event, configured: settings.Settings, runner: presence.Presence, tasks: work.Work
) -> None:
    """Stays linked until it is asked to stop, then ends the Jobs, tells of their ends and leaves (R-65)."""
    stop = asyncio.Event()
    linking = asyncio.create_task(server_link.keep(configured, runner, tasks, stop))
    asking = asyncio.create_task(asked.wait())
    await asyncio.wait({linking, asking}, return_when=asyncio.FIRST_COMPLETED)
    asking.cancel()
    await tasks.jobs.shut_down()
    stop.set()
    done, _ = await asyncio.wait({linking}, timeout=_FAREWELL_S)
    if not done:
        log.warning("action=farewell_given_up")
        linking.cancel()
    await asyncio.gather(linking, return_exceptions=not done)


async def _reread(
    asked: asyncio.Event, rules: projects.Rules, tasks: work.Work, runner: presence.Presence
) -> None:
    """Reads the registry again each time it is asked to; one that cannot be read leaves the last one."""
    while True:
        await asked.wait()
        asked.clear()
        try:
            registry = await asyncio.to_thread(projects.load, rules)
        except projects.RegistryUnreadable as error:
            log.warning("action=registry_unreadable rule=%s", error)
            continue
        tasks.registry = registry
        _report(registry)
        runner.inventory_changed.set()
