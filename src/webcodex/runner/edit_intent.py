"""Keeps what an edit is about to do until it is done or undone (R-55); must never touch a project.

One file per edit beside the kept answers. Its suffix is its state: `.intent` while the files may be half
changed; `.unswept` from the commit on, while backups are left; then it is the kept answer, or gone where
there was no key. The answer stands in the intent already, so the commit is one rename and nothing else.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webcodex.protocol import fields
from webcodex.runner import edit_request, kept_answers, path_form, private_files

INTENT: Final = ".intent"
MAX_MADE: Final = 256
"""Directories that one request may make."""

_KEYED: Final = re.compile(r"[0-9a-f]{64}")
_KEYLESS: Final = re.compile(r"[0-9a-f]{32}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_BESIDE: Final = re.compile(r"\.wc-[0-9a-f]{32}\.(?:new|old)")
_MAX_ROOT_CHARS: Final = 8192


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One file of an edit: its hashes before and after, None for absence, and the names used beside it."""

    names: tuple[str, ...]
    op: str
    before: str | None
    after: str | None
    temporary: str
    backup: str

    @property
    def path(self) -> str:
        """The file as replies name it."""
        return "/".join(self.names)

    @property
    def backup_path(self) -> str:
        """Its backup as replies name it."""
        return "/".join((*self.names[:-1], self.backup))


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """One edit as it is written down before anything changes; `made` are directories, outermost first."""

    key: kept_answers.Key
    root: str
    targets: tuple[Target, ...]
    made: tuple[tuple[str, ...], ...]
    answer: Mapping[str, Any]
    begun_at: int

    @property
    def is_keyed(self) -> bool:
        """Whether its answer is kept for a replay."""
        return _KEYED.fullmatch(self.key.digest) is not None

    @property
    def paths(self) -> list[str]:
        """Every path it may change."""
        return [target.path for target in self.targets]


class Store:
    """The intents of one state directory."""

    def __init__(self, answers: kept_answers.KeptAnswers) -> None:
        self._answers = answers
        self._folder = answers.directory

    def write(self, intent: Intent) -> None:
        """Leaves the intent on the disk, durably.

        Raises:
            OSError: it cannot be written; it may be there all the same.

        """
        private_files.write(self._path(intent.key.digest, INTENT), _encoded(intent))

    def commit(self, intent: Intent) -> None:
        """Makes the intent the answer, by one rename.

        Raises:
            OSError: it was not renamed.

        """
        self._path(intent.key.digest, INTENT).rename(self._path(intent.key.digest, kept_answers.UNSWEPT))
        if intent.is_keyed:
            self._answers.adopted(intent.key, intent.begun_at)

    def sync(self) -> None:
        """Makes the renames so far durable.

        Raises:
            OSError: whether they are is unknown.

        """
        private_files.sync_directory(self._folder)

    def settle(self, intent: Intent) -> None:
        """Leaves the kept answer alone once nothing is left to sweep; without a key nothing at all."""
        unswept = self._path(intent.key.digest, kept_answers.UNSWEPT)
        if intent.is_keyed:
            unswept.rename(self._path(intent.key.digest, kept_answers.FINAL))
        else:
            unswept.unlink()

    def withdraw(self, record: str) -> None:
        """Removes an intent that left nothing behind, durably; one that is not there is fine.

        Raises:
            OSError: it may still be there.

        """
        path = self._path(record, INTENT)
        if os.path.lexists(path):  # a read-only file system refuses to remove what is not there, too
            path.unlink()
        self.sync()

    def records(self, suffix: str) -> list[str]:
        """Returns the names of the records in one state, without the suffix, in order."""
        found = [path.stem for path in self._folder.iterdir() if path.suffix == suffix]
        return sorted(name for name in found if _KEYED.fullmatch(name) or _KEYLESS.fullmatch(name))

    def read(self, record: str, suffix: str) -> Intent | None:
        """Returns a record; None when it is not there.

        Raises:
            Damaged: it cannot be read or understood.

        """
        try:
            content, _ = private_files.read(
                self._path(record, suffix), most_bytes=kept_answers.MAX_RECORD_BYTES
            )
        except FileNotFoundError:
            return None
        except (OSError, private_files.NotPrivate) as error:
            raise kept_answers.Damaged from error
        members = kept_answers.decoded(content, record)
        try:
            return _decoded(record, members)
        except (fields.Malformed, path_form.PathRefused) as error:
            raise kept_answers.Damaged from error

    def _path(self, record: str, suffix: str) -> Path:
        return self._folder / (record + suffix)


def size_bytes(intent: Intent) -> int:
    """Returns how long the record of an intent is; one longer than `MAX_RECORD_BYTES` is never read."""
    return len(_encoded(intent))


def _encoded(intent: Intent) -> bytes:
    targets = [
        {
            "path": target.path,
            "op": target.op,
            "before": target.before,
            "after": target.after,
            "temporary": target.temporary,
            "backup": target.backup,
        }
        for target in intent.targets
    ]
    made = [{"path": "/".join(names)} for names in intent.made]
    edit = {"root": intent.root, "targets": targets, "made": made}
    return kept_answers.encoded(intent.key, dict(intent.answer), intent.begun_at, edit=edit)


def _decoded(record: str, members: dict[str, Any]) -> Intent:
    source = fields.Fields(members, "record")
    edit = source.nested("edit")
    return Intent(
        key=kept_answers.Key(digest=record, request_hash=source.matching("request_hash", _HASH)),
        root=edit.text("root", most=_MAX_ROOT_CHARS),
        targets=edit.each("targets", _target, most=edit_request.MAX_EDITS),
        made=edit.each("made", _names, most=MAX_MADE),
        answer=source.object("answer"),
        begun_at=source.integer("kept_at"),
    )


def _target(source: fields.Fields) -> Target:
    return Target(
        names=_names(source),
        op=source.word("op", frozenset(edit_request.Op)),
        before=_hash_or_none(source, "before"),
        after=_hash_or_none(source, "after"),
        temporary=source.matching("temporary", _BESIDE),
        backup=source.matching("backup", _BESIDE),
    )


def _names(source: fields.Fields) -> tuple[str, ...]:
    return path_form.parse(source.text("path", most=path_form.MAX_PATH_BYTES))


def _hash_or_none(source: fields.Fields, name: str) -> str | None:
    return None if source.whole().get(name) is None else source.matching(name, _HASH)
