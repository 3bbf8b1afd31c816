"""Reads the record of a Job as it goes over the link: in answers, inventories and events (R-46, R-61)."""

import re
from typing import Final

from webcodex.core import job_log, jobs
from webcodex.core.job_log import Log
from webcodex.core.jobs import Report, State
from webcodex.protocol import fields

JOB_ID: Final = re.compile(r"wc_job_[A-Za-z0-9_-]{1,121}")
"""No longer than the name of a stream may be."""

_WORDS: Final = frozenset({*(state.value for state in jobs.REPORTABLE), "timeout"})
_SECONDS: Final = 2**53
_EXIT_CODES: Final = 2**31
"""An exit code fits in 32 bits with its sign, as it is stored."""


def read(source: fields.Fields) -> Report:
    """Returns the report that a record is.

    Raises:
        Malformed: a member is missing or not allowed, or the members contradict each other.

    """
    state = _state(source.word("state", _WORDS))
    exit_code = _exit_code(source)
    if (state is State.COMPLETED and exit_code != 0) or (state is State.FAILED and exit_code == 0):
        raise fields.Malformed("the exit code contradicts the state of a Job")
    return Report(
        job_id=source.matching("job_id", JOB_ID),
        state=state,
        exit_code=exit_code,
        signal=source.text_or_none("signal", most=32),
        started_at=source.integer_or_none("started_at"),
        finished_at=source.integer_or_none("finished_at"),
        update_seq=source.integer("update_seq", most=_SECONDS),
        reason_code=source.text_or_none("reason_code", most=64),
        log=read_log(source.nested("log")),
    )


def read_log(source: fields.Fields) -> Log:
    """Returns the log of a record.

    Raises:
        Malformed: a member is missing or not allowed.

    """
    tail = source.text("tail", most=job_log.TAIL_BYTES, least=0)
    if len(tail.encode()) > job_log.TAIL_BYTES:
        raise fields.Malformed("a log tail is longer than 64 KiB")
    return Log(
        tail=tail.replace("\0", "\N{REPLACEMENT CHARACTER}"),  # PostgreSQL stores no NUL
        first_retained_line=source.integer("first_retained_line", least=1),
        next_line=source.integer("next_line", least=1),
        truncated=source.boolean("truncated"),
    )


def _state(word: str) -> State:
    return State.TIMED_OUT if word == "timeout" else State(word)


def _exit_code(source: fields.Fields) -> int | None:
    if source.whole().get("exit_code") is None:
        return None
    return source.integer("exit_code", least=-_EXIT_CODES, most=_EXIT_CODES - 1)
