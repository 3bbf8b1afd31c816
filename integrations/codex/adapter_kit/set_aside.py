"""The operator's explicit step for reports that the Server refuses for good (A-106).

A report set aside is kept for diagnosis; it does not prove that nothing was stored.
"""

from adapter_kit import json_text, limits, outbox, private_files

_MOVABLE = ("external_observation_conflict", "session_closed")


def move(box: outbox.Outbox, counts: outbox.Tally, refusals: "outbox.Refusals", at: int) -> None:
    """Every report refused for conflict or a closed Session is in ``rejected/``, as far as there is room.

    The caller holds ``.lock``. Each is written there before it leaves the outbox, so that whoever finds both
    knows that the move was not finished. ``at`` is the present in Unix s.

    Raises:
        Refused: ``private_state_directory_required`` or ``invalid_lock``.
        OSError: if a move is not certain.
    """
    movable = {name: refused for name, refused in refusals.items() if refused[0] in _MOVABLE}
    if not movable:
        return
    with private_files.FileLock(box.folder, outbox.SAVE_LOCK) as lock:
        if not lock.take(limits.SAVE_WAIT_SECONDS):
            counts.stop("adapter_busy_event_pending")
            return
        rejected = box.folder.make_subfolder(outbox.REJECTED)
        rejected.remove_staged(rejected.names())
        room = limits.REJECTED_FILES - len(outbox.reports_in(rejected))
        for name, (kind, event) in movable.items():
            if room <= 0:
                counts.meet("rejected_capacity")
                return
            if rejected.has(name):
                counts.meet("event_already_rejected")
                continue
            kept = {
                "association": box.association,
                "event": event,
                "rejected": {"error_kind": kind, "at": at},
            }
            rejected.create(name, json_text.encode(kept))
            box.folder.remove(name)
            room -= 1
            counts.rejected += 1
            counts.refused -= 1
