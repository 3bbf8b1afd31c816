"""One run of the observation hook: its arguments, its verbs, and what it says at the end (A-22, A-34)."""

import time

from adapter_kit import config as configuration
from adapter_kit import json_text, limits, outbox, paths, private_files, process, refusal, reports
from adapter_kit import server_client as client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_USAGE = b"""\
usage: external_observation_hook.py --config PATH [VERB]

Without a verb it reads one PostToolUse payload on stdin and reports the tool call to the configured Session.

  --flush               send every report that waits
  --flush --set-aside   and move those refused for good to rejected/
  --status              say what waits; sends nothing
  --print-registration  print the command line for the host's hook configuration; changes nothing
"""
_HOOK: list[str] = []
_FLUSH = ["--flush"]
_SET_ASIDE = ["--flush", "--set-aside"]
_STATUS = ["--status"]
_REGISTRATION = ["--print-registration"]
_VERBS = (_HOOK, _FLUSH, _SET_ASIDE, _STATUS, _REGISTRATION)
_CAPACITY = "pending_capacity_event_not_saved"
_UNLIMITED = -1


def run(arguments: list[str], script: str) -> "NoReturn":
    """The process has ended: with 0, or with 1 and the reason on stderr (A-03)."""
    process.prepare()
    this = _Run()
    try:
        _answer(this, arguments, script)
    except refusal.Refused as refused:
        this.counts.stop(refused.reason)
    except BaseException:  # noqa: BLE001, S110  # the outermost edge: no traceback may reach the host
        pass
    this.end_incomplete()


def _answer(this: "_Run", arguments: list[str], script: str) -> "NoReturn":
    if arguments in (["--help"], ["-h"]):
        process.end(0, out=_USAGE)
    verb, path = _parsed(arguments)
    if verb == _HOOK:
        this.hook(path)
    if verb == _STATUS:
        this.status(path)
    if verb == _REGISTRATION:
        from adapter_kit import registration  # only for the operator's set-up

        configuration.load(path)
        process.end(0, out=registration.text(script, ["--config", path]))
    this.flush(path, is_setting_aside=verb == _SET_ASIDE)


def _parsed(arguments: list[str]) -> tuple[list[str], str]:
    """The verb and the path of the configuration.

    Raises:
        Refused: ``invalid_arguments``, after stdin was drained if this could be a hook (A-71).
    """
    verb = sorted(arguments)
    path = ""
    if "--config" in arguments[:-1]:
        at = arguments.index("--config")
        path = arguments[at + 1]
        verb = sorted(arguments[:at] + arguments[at + 2 :])
    if path and path[0] != "-" and verb in _VERBS:
        return verb, paths.argument(path)
    if not any(word in known for word in verb for known in _VERBS):
        process.drop()
    raise refusal.Refused("invalid_arguments")


class _Run:
    """What whoever ends the run needs to know: the counts and, once it is known, the outbox."""

    def __init__(self) -> None:
        self.counts = outbox.Tally()
        self._config: configuration.Config | None = None
        self._box: outbox.Outbox | None = None

    def hook(self, path: str) -> "NoReturn":
        """One payload was ignored, reported, or reported in part; stdin is drained before anything (A-04)."""
        payload = reports.parsed(process.drained())
        if payload is None:
            process.end(0)
        self._config = configuration.load(path)
        event = reports.reported(payload, self._config)
        self._box = box = outbox.Outbox(self._config)
        try:  # at capacity the others are sent all the same, so that a later run finds room
            box.save(event)
        except refusal.Refused as refused:
            if refused.reason != _CAPACITY:
                raise
            self.counts.stop(refused.reason)
        with private_files.FileLock(box.folder, outbox.SEND_LOCK) as lock:
            sending = self._started(box, lock, limits.HOOK_SECONDS)
            if self.counts.stopped or sending.deliver_own(box.name_of(event), event):
                sending.deliver_others(limits.OTHERS_COUNT, limits.OTHERS_SECONDS)
        self._count(box, sending.left)
        if self.counts.is_complete():
            process.end(0)
        process.end(1, err=self.counts.incomplete())

    def flush(self, path: str, *, is_setting_aside: bool) -> "NoReturn":
        """Every report that waits was tried, and those refused for good are set aside if asked (A-106)."""
        self._config = configuration.load(path)
        self._box = box = outbox.Outbox(self._config)
        with private_files.FileLock(box.folder, outbox.SEND_LOCK) as lock:
            sending = self._started(box, lock, limits.FLUSH_SECONDS)
            sending.deliver_others(_UNLIMITED, limits.FLUSH_SECONDS)
            if is_setting_aside:
                from adapter_kit import set_aside  # only for the operator's explicit step

                set_aside.move(box, self.counts, sending.refusals, int(time.time()))
            box.note_refused(self.counts.refused)
        self._count(box, sending.left)
        if self.counts.is_complete() and not self.counts.rejected:
            process.end(0, out=self.counts.recorded())
        process.end(1, err=self.counts.incomplete())

    def status(self, path: str) -> "NoReturn":
        """What waits was said; nothing was sent, locked or written (A-34)."""
        self._config = configuration.load(path)
        self._box = box = outbox.Outbox(self._config)
        oldest = self._count(box, None)
        rejected = box.set_aside()
        kept = len(outbox.reports_in(rejected)) if rejected is not None else 0
        attention = self.counts.pending or self.counts.skipped or kept
        process.end(
            0,
            out=json_text.line(
                {
                    "status": "attention" if attention else "ok",
                    "pending": self.counts.pending,
                    "skipped": self.counts.skipped,
                    "rejected": kept,
                    "oldest_pending_at": oldest,
                    "last_hook_at": box.folder.modified_at(outbox.SAVE_LOCK) or None,
                    "coverage": {"complete": False},
                }
            ),
        )

    def end_incomplete(self) -> "NoReturn":
        """The run has ended visibly, with what is known of the outbox."""
        try:
            if self._box is None and self._config is not None:
                self._box = outbox.Outbox(self._config)
            if self._box is not None:
                self._count(self._box, None)
        except Exception:  # noqa: BLE001, S110  # what cannot be counted is not counted; the reason stands
            pass
        process.end(1, err=self.counts.incomplete())

    def _started(self, box: outbox.Outbox, lock: private_files.FileLock, seconds: float) -> outbox.Drain:
        if not lock.take():
            raise refusal.Refused("adapter_busy_event_pending")
        return outbox.Drain(box, self.counts, client.Deadline(seconds), self._expired)

    def _expired(self) -> "NoReturn":
        self.counts.is_late = True
        self.end_incomplete()

    def _count(self, box: outbox.Outbox, names: list[str] | None) -> int | None:
        """When the oldest of ``names``, or of the whole outbox, came; the counts say how many are left."""
        left = box.census(box.names() if names is None else names)
        self.counts.pending, self.counts.skipped, oldest = left
        return oldest
