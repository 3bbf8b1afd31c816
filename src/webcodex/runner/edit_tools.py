"""Answers `edit_project_files`: all edits of a request or none, and once per key (R-54..R-57)."""

import contextlib
import errno
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Final

from webcodex.core import ids
from webcodex.protocol import bounds, fields
from webcodex.runner import (
    deadline,
    edit_apply,
    edit_failures,
    edit_intent,
    edit_plan,
    edit_recovery,
    edit_request,
    edit_seats,
    edit_undo,
    failures,
    kept_answers,
    own_files,
    path_form,
    paths,
    projects,
)

log = logging.getLogger(__name__)

_REPLY_ROOM_BYTES: Final = bounds.MAX_REPLY_BYTES - 4096
"""What an answer may take here, so that the Server's own members still fit."""

_Stopped = OSError | path_form.PathRefused | edit_plan.TooLong | failures.RequestFailed
_STOPPED: Final = (OSError, path_form.PathRefused, edit_plan.TooLong, failures.RequestFailed)


class Edits:
    """The edits of this Runner, one at a time; `clock` gives Unix seconds, `token` 32 unguessable digits."""

    def __init__(
        self,
        *,
        client_id: str,
        own: own_files.OwnFiles,
        answers: kept_answers.KeptAnswers,
        clock: Callable[[], int],
        token: Callable[[], str],
    ) -> None:
        self._client_id = client_id
        self._own = own
        self._answers = answers
        self._store = edit_intent.Store(answers)
        self._recovery = edit_recovery.Recovery(self._store, answers, own)
        self._clock = clock
        self._token = token
        self._turn = threading.Lock()

    def recover(self, registered: Iterable[projects.Project]) -> None:
        """Closes every edit that an earlier process left open, as far as its root is registered."""
        with self._turn:
            for _ in self._recovery.start(registered, self._clock()):
                pass

    def recovery_steps(self, registered: Iterable[projects.Project]) -> Iterator[str]:
        """Does what `recover` does, one effect at a time."""
        return self._recovery.start(registered, self._clock())

    def edit(
        self,
        project: projects.Project,
        requested_by: str,
        body: fields.JsonObject,
        until: deadline.Deadline,
    ) -> dict[str, Any]:
        """Returns the reply of R-55 without its `project`; blocks until the edit is whole or undone.

        An edit that has not begun by its deadline is dropped; one that has is finished (R-45).

        Raises:
            RequestFailed: a word of R-56.

        """
        with self._turn:
            steps = self.steps(project, requested_by, body, until)
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    reply: dict[str, Any] = end.value
                    return reply

    def steps(
        self,
        project: projects.Project,
        requested_by: str,
        body: fields.JsonObject,
        until: deadline.Deadline,
    ) -> Generator[str, None, dict[str, Any]]:
        """Does what `edit` does, one effect at a time; the caller sees to it that no other edit runs."""
        request = edit_request.parse(body)
        if not project.allow_patch:
            raise edit_failures.refused("policy_rejected")
        key, now = self._key(project, requested_by, request), self._clock()
        _check_time(until)
        yield from self._recovery.close_those_in(project, key, now)
        kept = self._kept(key)
        if kept is not None:
            return edit_failures.replayed(kept)
        with _told(), self._place_for(request, key, now), paths.open_root(project) as root:
            changes = edit_plan.check(root, request.edits, self._own)
            answer = _answer(changes)
            differing = [change for change in changes if change.before != change.after]
            _check_time(until)
            if differing:
                intent = self._intent(project, key, differing, answer, now)
                yield from self._carry_out(root, intent, differing)
            elif request.key is not None:
                self._answers.keep(key, answer, now)
        return edit_failures.first(answer)

    def _key(
        self, project: projects.Project, requested_by: str, request: edit_request.Request
    ) -> kept_answers.Key:
        """Returns the key of a request; one without a key of its own gets a name that is no digest."""
        request_hash = request.hash(str(ids.ProjectId(self._client_id, project.id)))
        if request.key is None:
            return kept_answers.Key(digest=self._token(), request_hash=request_hash)
        digest = kept_answers.digest(
            requested_by=requested_by, client_id=self._client_id, project_id=project.id, key=request.key
        )
        return kept_answers.Key(digest=digest.hex(), request_hash=request_hash)

    def _kept(self, key: kept_answers.Key) -> dict[str, Any] | None:
        try:
            return self._answers.find(key)
        except kept_answers.Conflict as error:
            raise edit_failures.refused("idempotency_conflict") from error
        except kept_answers.Damaged as error:
            raise edit_failures.unknown([]) from error

    @contextlib.contextmanager
    def _place_for(self, request: edit_request.Request, key: kept_answers.Key, now: int) -> Iterator[None]:
        """Holds a place for the answer of a key, where there is one."""
        if request.key is None:
            yield
            return
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._answers.make_room(key, now))
            except kept_answers.Full as error:
                raise edit_failures.refused("idempotency_capacity") from error
            except kept_answers.Conflict as error:
                raise edit_failures.refused("idempotency_conflict") from error
            yield

    def _intent(
        self,
        project: projects.Project,
        key: kept_answers.Key,
        changes: Sequence[edit_plan.Change],
        answer: dict[str, Any],
        now: int,
    ) -> edit_intent.Intent:
        made = {names: None for change in changes for names in change.place.missing}
        intent = edit_intent.Intent(
            key=key,
            root=project.root,
            targets=tuple(self._target(change) for change in changes),
            made=tuple(sorted(made, key=len)),
            answer=answer,
            begun_at=now,
        )
        is_long = edit_intent.size_bytes(intent) > kept_answers.MAX_RECORD_BYTES
        if is_long or len(made) > edit_intent.MAX_MADE:
            raise edit_failures.refused("edit_too_large")
        return intent

    def _target(self, change: edit_plan.Change) -> edit_intent.Target:
        token = self._token()
        return edit_intent.Target(
            names=change.place.names,
            op=change.op,
            before=change.before,
            after=change.after,
            temporary=f".wc-{token}.new",
            backup=f".wc-{token}.old",
        )

    def _carry_out(
        self, root: int, intent: edit_intent.Intent, changes: Sequence[edit_plan.Change]
    ) -> Iterator[str]:
        """Makes the changes of an intent and commits it, or undoes them."""
        seats = edit_seats.Seats()
        self._recovery.begin(intent)
        try:
            try:
                self._store.write(intent)
                yield "intent"
                yield from edit_apply.steps(root, intent, changes, self._own, seats)
                self._store.commit(intent)
            except _STOPPED as error:
                yield from self._undo(intent, seats, error)
            yield "committed"
            self._make_durable(intent)
            self._recovery.end(intent)
            yield "commit synced"
            yield from self._sweep(intent, seats)
        finally:
            seats.close()

    def _make_durable(self, intent: edit_intent.Intent) -> None:
        try:
            self._store.sync()
        except OSError as error:
            self._recovery.end(intent)
            log.warning("action=edit_commit_unsure record=%s", intent.key.digest)
            raise edit_failures.unknown(intent.paths) from error

    def _undo(
        self, intent: edit_intent.Intent, seats: edit_seats.Seats, stopped_by: _Stopped
    ) -> Iterator[str]:
        """Undoes what was done, and raises what the request ends with."""
        outcomes: list[edit_undo.Outcome] = []
        left = None
        try:
            yield from edit_undo.steps(seats, outcomes)
            if any(outcome.is_left for outcome in outcomes):
                shown = [outcome.shown() for outcome in outcomes]
                left = edit_failures.ended("edit_partially_applied", {"paths": shown})
                edit_recovery.keep_end(self._answers, intent, left, self._clock())
                yield "end kept"
            self._store.withdraw(intent.key.digest)
        except OSError as error:
            log.warning("action=edit_still_open record=%s", intent.key.digest)
            raise edit_failures.unknown(intent.paths) from error
        self._recovery.end(intent)
        yield "withdrawn"
        if left is not None:
            raise left from stopped_by
        with _told():
            raise stopped_by

    def _sweep(self, intent: edit_intent.Intent, seats: edit_seats.Seats) -> Iterator[str]:
        """Removes the backups; where that fails, the next start does."""
        try:
            yield from edit_undo.sweep(seats)
            self._store.settle(intent)
        except OSError:
            log.warning("action=edit_unswept record=%s", intent.key.digest)


def _answer(changes: Sequence[edit_plan.Change]) -> dict[str, Any]:
    changed = [change.path for change in changes if change.before != change.after]
    answer = {
        "applied": True,
        "state_changed": bool(changed),
        "files": [
            {
                "path": change.path,
                "op": change.op.value,
                "before_sha256": change.before,
                "after_sha256": change.after,
            }
            for change in changes
        ],
        "changed_paths": changed,
    }
    if fields.encoded_bytes(answer) > _REPLY_ROOM_BYTES:
        raise edit_failures.refused("edit_too_large")
    return answer


def _check_time(until: deadline.Deadline) -> None:
    if not until.remaining_s():
        raise failures.RequestFailed(failures.TIMEOUT)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turns what stops an edit within the block into its refusal."""
    try:
        yield
    except paths.RootReplaced as error:
        raise failures.RequestFailed(failures.ROOT_REPLACED) from error
    except path_form.PathRefused as error:
        raise edit_failures.refused(error.reason) from error
    except edit_plan.TooLong as error:
        raise edit_failures.refused("path_changed") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise edit_failures.refused("path_changed") from error
        denied = error.errno in {errno.EACCES, errno.EPERM}
        raise edit_failures.refused("permission_denied" if denied else "io_error") from error
