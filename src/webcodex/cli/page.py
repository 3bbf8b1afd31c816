"""Writes what somebody reads once WebCodex runs: where it is, how to connect, what is theirs to do."""

import shlex
from dataclasses import dataclass
from pathlib import Path

import click

from webcodex.cli import program
from webcodex.cli.installation import Installation

TOKEN_VARIABLE = "WEBCODEX_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What the page tells; it holds no secret."""

    installation: Installation
    url: str
    project: str
    root: Path
    notes: tuple[str, ...]


def text(shown: Shown) -> str:
    """Returns the page; headings are bold where the terminal can show it."""
    found = shown.installation
    mcp = f"{shown.url}/mcp"
    lines = [
        click.style("WebCodex is running.", bold=True),
        "",
        *(f"Note: {note}" for note in shown.notes),
        *([""] if shown.notes else []),
        f"  Project   {shown.project}",
        f"  Root      {shown.root}",
        f"  MCP       {mcp}",
        f"  Token     in {found.pat_file}",
        f"  Logs      in {found.logs_dir}",
        "",
        _heading("Connect Codex", "the token stays in its file and in your shell"),
        f"  {export(found)}",
        f"  {add_to_codex(shown.url)}",
        "",
        "  The second line writes this to Codex's config.toml; you may write it there yourself:",
        "    [mcp_servers.webcodex]",
        f'    url = "{mcp}"',
        f'    bearer_token_env_var = "{TOKEN_VARIABLE}"',
        "",
        *_adapters(shown),
        "",
        _heading("Stop", "Ctrl-C ends the Server and the Runner; the next start finds everything again"),
    ]
    return "\n".join(lines)


def export(found: Installation, variable: str = TOKEN_VARIABLE) -> str:
    """Returns the command that puts the PAT into a variable without showing it."""
    return f'export {variable}="$(cat {shlex.quote(str(found.pat_file))})"'


def add_to_codex(url: str) -> str:
    """Returns the command that makes Codex know the Server at ``url``."""
    return f"codex mcp add webcodex --url {url}/mcp --bearer-token-env-var {TOKEN_VARIABLE}"


def _adapters(shown: Shown) -> list[str]:
    found = shown.installation
    words = f"adapters setup --project {shown.project} --session wc_sess_... --conversation ID"
    return [
        _heading("Local adapters", "optional: report what Codex does elsewhere, read a handoff"),
        f"  Prepared outside the project, in {found.adapters_dir}:",
        f"    {found.authorization_file.name:<20} the Authorization header of a token of its own",
        f"    {found.outbox_dir.name:<20} where reports wait; empty until the hook runs",
        "  Still needed: a Workflow Session and a Codex conversation. WebCodex chooses and creates neither.",
        "  Once you have chosen both, this writes the configuration and prints the hook to register:",
        f"    {program.command(words)}",
    ]


def _heading(title: str, aside: str) -> str:
    return f"{click.style(title, bold=True)}  ({aside})"
