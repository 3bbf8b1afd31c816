"""Reads a request to start a Job and holds it against the operator's policy (R-02, R-60)."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webcodex.protocol import calls, fields, job_records
from webcodex.runner import failures, job_record, job_refusals, kept_answers, settings

MAX_ARGUMENTS: Final = 256
MAX_ARGUMENT_BYTES: Final = 128 * 1024
"""What Linux takes as one argument."""

MAX_STDIN_BYTES: Final = 64 * 1024
_MAX_CWD: Final = 4096
_MAX_TIMEOUT_S: Final = 3600
_MAX_KEY: Final = 512
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "cmd", "powershell", "pwsh"})
_PASSED_ON: Final = ("HOME", "PATH", "USER", "LANG", "TMPDIR")


@dataclass(frozen=True, kw_only=True, slots=True)
class StartRequest:
    """What a Job is to be; `key` stands for the caller's idempotency key, which is itself not kept."""

    job_id: str
    argv: tuple[str, ...]
    cwd: str
    stdin: bytes | None
    timeout_secs: int
    purpose: str
    request_hash: str
    key: kept_answers.Key | None

    def __repr__(self) -> str:
        return f"StartRequest(job_id={self.job_id!r})"


def read(request: calls.Request, client_id: str) -> StartRequest:
    """Returns what the request asks for.

    Raises:
        RequestFailed: `invalid_arguments`.

    """
    source = fields.Fields(request.body, "body")
    try:
        key = source.text_or_none("idempotency_key", most=_MAX_KEY)
        request_hash = source.matching("request_hash", _HASH)
        return StartRequest(
            job_id=source.matching("job_id", job_records.JOB_ID),
            argv=_argv(request.body.get("argv")),
            cwd=_free_of_nul(source.text("cwd", most=_MAX_CWD, least=0)),
            stdin=_stdin(source.text_or_none("stdin", most=MAX_STDIN_BYTES)),
            timeout_secs=source.integer("timeout_secs", least=1, most=_MAX_TIMEOUT_S),
            purpose=source.word("purpose", job_record.PURPOSES),
            request_hash=request_hash,
            key=None if key is None else _key(request, client_id, key, request_hash),
        )
    except fields.Malformed as error:
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS) from error


def _key(request: calls.Request, client_id: str, key: str, request_hash: str) -> kept_answers.Key:
    digest = kept_answers.digest(
        requested_by=request.requested_by, client_id=client_id, project_id=request.project_id or "", key=key
    )
    return kept_answers.Key(digest=digest.hex(), request_hash=request_hash)


def check_policy(asked: StartRequest, policy: settings.Policy) -> None:
    """Returns where the operator admits what is asked.

    Raises:
        RequestFailed: `policy_rejected`.

    """
    program = asked.argv[0].rpartition("/")[2].casefold().removesuffix(".exe")
    if not policy.allow_raw_shell and program in _SHELLS:
        raise job_refusals.refuse("policy_rejected")
    if asked.timeout_secs > policy.max_timeout_secs:
        raise job_refusals.refuse("policy_rejected")


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Returns all that a Job sees of the Runner's environment: nothing of WebCodex itself (R-60)."""
    return {name: ours[name] for name in _PASSED_ON if name in ours}


def _argv(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_ARGUMENTS:
        raise fields.Malformed("body.argv is missing or not allowed")
    for argument in value:
        if not isinstance(argument, str) or len(os.fsencode(argument)) >= MAX_ARGUMENT_BYTES:
            raise fields.Malformed("body.argv holds something that is not allowed")
        _free_of_nul(argument)
    if not value[0]:
        raise fields.Malformed("body.argv names no program")
    return tuple(value)


def _free_of_nul(text: str) -> str:
    if "\0" in text:
        raise fields.Malformed("body holds a NUL")
    return text


def _stdin(text: str | None) -> bytes | None:
    content = None if text is None else text.encode()
    if content is not None and len(content) > MAX_STDIN_BYTES:
        raise fields.Malformed("body.stdin is too long")
    return content
