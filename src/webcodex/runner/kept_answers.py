"""Keeps the answers of changes that carry an idempotency key, over restarts (R-57); must never run a change.

One private file per key. The caller looks with `find`, takes its place with `make_room`, and within that
block keeps the answer. A file that cannot be understood fails its own key only, and closed.
"""

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webcodex.core import idempotency, ids
from webcodex.protocol import fields
from webcodex.runner import private_files

MOST: Final = 4096
"""Answers kept at once (R-57)."""

KEPT_FOR_S: Final = 24 * 3600
"""How long each answer is kept at least (R-57)."""

MAX_RECORD_BYTES: Final = 1024 * 1024

FINAL: Final = ".json"
UNSWEPT: Final = ".unswept"
"""An answer that serves already, while what its change left behind is still to be removed (R-55)."""

_FOLDER: Final = "kept-answers"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Conflict(Exception):
    """The key already stands for another request (`idempotency_conflict`)."""


class Full(Exception):
    """As many answers are kept as may be, and none may leave yet (`idempotency_capacity`)."""


class Damaged(Exception):
    """The answer of this key cannot be read, so its change must not run; the outcome is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """What one idempotency key stands for: `digest` in hex, and the G-06 hash of its request."""

    digest: str
    request_hash: str


def digest(*, requested_by: str, client_id: str, project_id: str, key: str) -> bytes:
    """Returns the 32 bytes under which a key's answer is kept, over the canonical Project id (R-57, G-05)."""
    return idempotency.project_key(requested_by, str(ids.ProjectId(client_id, project_id)), key)


class KeptAnswers:
    """The kept answers of one state directory; safe for several threads of the one process that holds it."""

    def __init__(self, state_dir: Path) -> None:
        self.directory = state_dir / _FOLDER
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self._lock = threading.Lock()
        self._taken: set[str] = set()
        self._kept_at: dict[str, int | None] = {}
        for path in self.directory.iterdir():
            if path.name.startswith("."):
                path.unlink()  # what a write that was cut short left behind
            elif path.suffix in {FINAL, UNSWEPT} and _DIGEST.fullmatch(path.stem):
                self._kept_at[path.stem] = None

    def find(self, key: Key) -> dict[str, Any] | None:
        """Returns the answer kept for a key; None when there is none.

        Raises:
            Conflict: the key stands for another request.
            Damaged: its file cannot be read or understood.

        """
        record = self._record(key.digest)
        if record is None:
            return None
        if record["request_hash"] != key.request_hash:
            raise Conflict
        answer: dict[str, Any] = record["answer"]
        return answer

    @contextlib.contextmanager
    def make_room(self, key: Key, now: int) -> Iterator[None]:
        """Holds a place for one more answer until the block ends, whether it was kept or not.

        `now` is in Unix seconds, and so is what `keep` takes. The oldest answer leaves if it may.

        Raises:
            Full: none may leave.
            OSError: one may, and cannot be removed.
            Conflict: another change holds the key's place at this moment, or has taken it.

        """
        with self._lock:
            if key.digest in self._taken or key.digest in self._kept_at:
                raise Conflict
            if len(self._kept_at) + len(self._taken) >= MOST:
                self._let_oldest_leave(now)
            self._taken.add(key.digest)
        try:
            yield
        finally:
            with self._lock:
                self._taken.discard(key.digest)

    def keep(self, key: Key, answer: dict[str, Any], now: int) -> None:
        """Leaves the answer of a key on the disk, durably and as a whole; only `renew` changes it.

        Raises:
            Conflict: the key has an answer.
            OSError: it cannot be written; whether it was kept is then for `find` to say.

        """
        with self._lock:
            if key.digest in self._kept_at:
                raise Conflict
            path = self._path(key.digest, FINAL)
            try:
                private_files.write(path, encoded(key, answer, now))
            finally:
                if path.exists():  # also where only the last step failed
                    self._kept_at[key.digest] = now

    def renew(self, key: Key, answer: dict[str, Any], now: int) -> None:
        """Puts in place of a kept answer what its change has come to since; it is kept anew from `now`.

        Raises:
            OSError: it cannot be written; one of the two is kept.

        """
        with self._lock:
            private_files.write(self._path(key.digest, FINAL), encoded(key, answer, now))
            self._kept_at[key.digest] = now

    def adopted(self, key: Key, now: int) -> None:
        """Counts an answer whose file was put into `directory` by a rename of the caller's."""
        with self._lock:
            self._kept_at[key.digest] = now

    def _path(self, key_digest: str, suffix: str) -> Path:
        return self.directory / (key_digest + suffix)

    def _record(self, key_digest: str) -> dict[str, Any] | None:
        for suffix in (FINAL, UNSWEPT, FINAL):  # an answer may become final between two looks
            try:
                content, _ = private_files.read(self._path(key_digest, suffix), most_bytes=MAX_RECORD_BYTES)
                return decoded(content, key_digest)
            except FileNotFoundError:
                continue
            except (OSError, private_files.NotPrivate) as error:
                raise Damaged from error
        return None

    def _let_oldest_leave(self, now: int) -> None:
        # What was kept while the clock was ahead has no age that anybody knows: its day begins now.
        kept = {
            key_digest: min(now, self._time_of(key_digest) if kept_at is None else kept_at)
            for key_digest, kept_at in self._kept_at.items()
        }
        self._kept_at.update(kept)
        for oldest in sorted(kept, key=kept.__getitem__):
            if now - kept[oldest] < KEPT_FOR_S:
                break
            if not self._path(oldest, UNSWEPT).exists():  # without it nobody would know what to sweep
                self._path(oldest, FINAL).unlink(missing_ok=True)
                del self._kept_at[oldest]
                return
        raise Full

    def _time_of(self, key_digest: str) -> int:
        """Returns when an answer was kept; for a damaged one, when its file was last written."""
        try:
            record = self._record(key_digest)
            return 0 if record is None else int(record["kept_at"])
        except Damaged:
            with contextlib.suppress(OSError):
                return int(os.lstat(self._path(key_digest, FINAL)).st_mtime)
            return fields.MAX_INTEGER


def encoded(key: Key, answer: dict[str, Any], now: int, **more: Any) -> bytes:
    """Returns the content of a record; `more` is for its writer alone."""
    members = {
        "digest": key.digest,
        "request_hash": key.request_hash,
        "kept_at": now,
        "answer": answer,
        **more,
    }
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()


def decoded(content: bytes, key_digest: str) -> dict[str, Any]:
    """Returns the members of the record kept under a digest.

    Raises:
        Damaged: it is not that record.

    """
    try:
        members = fields.decode(content.decode())
        source = fields.Fields(members, "record")
        source.matching("request_hash", _DIGEST)
        source.integer("kept_at")
        source.object("answer")
        source.word("digest", frozenset({key_digest}))
    except (fields.Malformed, UnicodeDecodeError) as error:
        raise Damaged from error
    return members
