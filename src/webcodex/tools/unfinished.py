"""Settles what calls of a Server that is gone have left open (S-14, S-40, S-42)."""

from webcodex.core import validation
from webcodex.storage import changes, jobs
from webcodex.storage.database import Transaction
from webcodex.tools import validation_recording
from webcodex.tools.ports import Services


def settle(tx: Transaction, services: Services) -> int:
    """Counts the open changes and closes the open attempts; returns how many changes may have been made.

    Right only before the first call of this Server. Their started events stay as they are (S-14). The
    attempts of another Server's running calls are closed too: those calls still tell their verdicts.
    """
    for job_id in validation_recording.settle_unfinished(tx):
        ended = jobs.terminal_of(tx, job_id)
        verdict = None if ended is None else validation.verdict_of(*ended)
        if verdict is not None:
            validation_recording.tell_untold(tx, services, job_id=job_id, verdict=verdict)
    return changes.settle_unfinished(tx)
