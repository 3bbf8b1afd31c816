"""Closes edits that were interrupted: before the link is dialled, and before the next edit there (R-55)."""

import logging
from collections.abc import Iterable, Iterator

from webcodex.runner import (
    edit_failures,
    edit_intent,
    edit_seats,
    edit_undo,
    failures,
    kept_answers,
    own_files,
    paths,
    projects,
)

log = logging.getLogger(__name__)


class Recovery:
    """The edits that are not closed, and how each is brought to its end."""

    def __init__(
        self, store: edit_intent.Store, answers: kept_answers.KeptAnswers, own: own_files.OwnFiles
    ) -> None:
        self._store = store
        self._answers = answers
        self._own = own
        self._open: dict[str, edit_intent.Intent] = {}
        self._damaged: set[str] = set()

    def begin(self, intent: edit_intent.Intent) -> None:
        """Counts an edit as open, which it is from before its intent is written."""
        self._open[intent.key.digest] = intent

    def end(self, intent: edit_intent.Intent) -> None:
        """Counts an edit as closed."""
        self._open.pop(intent.key.digest, None)

    def start(self, registered: Iterable[projects.Project], now: int) -> Iterator[str]:
        """Closes what an earlier process left open in the registered roots; `now` is in Unix seconds."""
        self._read()
        roots = {project.root: project for project in registered}
        for intent in list(self._open.values()):
            if intent.root in roots:
                yield from self._close(intent, roots[intent.root], now)
        for record in self._store.records(kept_answers.UNSWEPT):
            yield from self._sweep(record, roots)

    def close_those_in(self, project: projects.Project, key: kept_answers.Key, now: int) -> Iterator[str]:
        """Closes what is open in a Project's root, so that a later edit's bytes are never taken for its own.

        Raises:
            RequestFailed: `edit_outcome_unknown`, where it stays open, or where the key's own edit does.

        """
        if key.digest in self._damaged:
            raise edit_failures.unknown([])
        for intent in list(self._open.values()):
            if intent.root == project.root:
                yield from self._close(intent, project, now)
        for intent in self._open.values():
            if intent.key.digest == key.digest or _overlap(intent.root, project.root):
                raise edit_failures.still_open(intent.paths)

    def _read(self) -> None:
        for record in self._store.records(edit_intent.INTENT):
            try:
                intent = self._store.read(record, edit_intent.INTENT)
            except kept_answers.Damaged:
                self._damaged.add(record)
                log.warning("action=edit_intent_damaged record=%s", record)
                continue
            if intent is not None:
                self._open[record] = intent

    def _close(self, intent: edit_intent.Intent, project: projects.Project, now: int) -> Iterator[str]:
        outcomes: list[edit_undo.Outcome] = []
        try:
            with (
                paths.open_root(project) as root,
                edit_seats.found_again(root, intent, self._own) as seats,
            ):
                yield from edit_undo.steps(seats, outcomes)
            diverged = diverged_failure(outcomes)
            if diverged is not None:
                keep_end(self._answers, intent, diverged, now)
                yield "end kept"
            self._store.withdraw(intent.key.digest)
        except (OSError, paths.RootReplaced):
            log.warning("action=edit_still_open project=%s record=%s", project.id, intent.key.digest)
            return
        self.end(intent)
        _report(intent, project, outcomes)
        yield "closed"

    def _sweep(self, record: str, roots: dict[str, projects.Project]) -> Iterator[str]:
        try:
            intent = self._store.read(record, kept_answers.UNSWEPT)
            if intent is None or intent.root not in roots:
                return
            with (
                paths.open_root(roots[intent.root]) as root,
                edit_seats.found_again(root, intent, self._own) as seats,
            ):
                yield from edit_undo.sweep(seats)
            self._store.settle(intent)
        except (OSError, paths.RootReplaced, kept_answers.Damaged):
            log.warning("action=edit_unswept record=%s", record)


def diverged_failure(outcomes: list[edit_undo.Outcome]) -> failures.RequestFailed | None:
    """Returns the end of an interrupted edit that left something; None where all is as before."""
    if not any(outcome.is_left for outcome in outcomes):
        return None
    return edit_failures.ended("edit_recovery_diverged", {"paths": [outcome.shown() for outcome in outcomes]})


def keep_end(
    answers: kept_answers.KeptAnswers,
    intent: edit_intent.Intent,
    end: failures.RequestFailed,
    now: int,
) -> None:
    """Leaves the end of an edit as the answer of its key, where it has one and has no answer yet.

    Raises:
        OSError: it could not be written.

    """
    if not intent.is_keyed:
        return
    try:
        answers.keep(intent.key, edit_failures.recorded(end), now)
    except kept_answers.Conflict:
        log.info("action=edit_end_kept_already record=%s", intent.key.digest)


def _overlap(root: str, other: str) -> bool:
    return projects.lies_within(root, other) or projects.lies_within(other, root)


def _report(intent: edit_intent.Intent, project: projects.Project, outcomes: list[edit_undo.Outcome]) -> None:
    log.info("action=edit_undone project=%s record=%s", project.id, intent.key.digest)
    for target, outcome in zip(intent.targets, outcomes, strict=True):
        if outcome.is_left:
            log.warning(
                "action=edit_recovery_diverged project=%s record=%s state=%s backup=%s",
                project.id,
                intent.key.digest,
                outcome.state,
                "none" if outcome.backup is None else target.backup,
            )
