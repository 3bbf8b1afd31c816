"""Builds the one record of everything that handlers may reach."""

import secrets
import time
from collections.abc import Callable

from webcodex.storage.database import Database
from webcodex.tools.job_moves import JobMoves
from webcodex.tools.ports import Runners, Services


def now() -> int:
    """Returns the present time, Unix s."""
    return int(time.time())


def build(
    database: Database, runners: Runners, now: Callable[[], int], *, moves: JobMoves, job_grace_s: int
) -> Services:
    """Returns the services over ``database`` and ``runners``, with this machine's entropy."""
    return Services(
        database=database,
        runners=runners,
        now=now,
        entropy=secrets.token_bytes,
        moves=moves,
        job_grace_s=job_grace_s,
    )
