"""Keeps on the disk which Jobs were admitted, what runs them, and how they ended (R-47, R-64, R-66).

One private file per Job. It holds the record, which after the end includes the log's tail, and never the
arguments, the input or the environment of a process.
"""

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webcodex.protocol import fields, records
from webcodex.runner import job_record, kept_answers, left_processes, private_files

SCHEMA_VERSION: Final = 1
MAX_BYTES: Final = 256 * 1024
_FOLDER: Final = "runner-jobs-v1"
_SUFFIX: Final = ".json"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """All that is durable of one Job."""

    job: job_record.Record
    request_hash: str
    key: kept_answers.Key | None
    tree: left_processes.Recorded | None


class JobStore:
    """The Jobs of one state directory; `damaged` are the ids' hashes whose files cannot be understood."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir / _FOLDER
        self._directory.mkdir(mode=0o700, exist_ok=True)
        private_files.sync_directory(state_dir)
        self._damaged: set[str] = set()

    def write(self, entry: Entry) -> None:
        """Leaves what is known of a Job on the disk, durably and as a whole.

        Raises:
            OSError: it cannot be written.

        """
        content = json.dumps(
            {"schema_version": SCHEMA_VERSION, **records.wire(entry)},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        private_files.write(self._path(entry.job.job_id), content.encode())

    def remove(self, job_id: str) -> None:
        """Leaves nothing of a Job on the disk; after a power failure it may be there again."""
        self._path(job_id).unlink(missing_ok=True)

    def is_damaged(self, job_id: str) -> bool:
        """Says whether there is a Job of that id of which nothing else can be said."""
        return _digest(job_id) in self._damaged

    def read_all(self) -> list[Entry]:
        """Returns every Job that was kept; one that cannot be understood is reported and stays closed."""
        found: list[Entry] = []
        for path in sorted(self._directory.iterdir()):
            if path.suffix != _SUFFIX:
                path.unlink()  # what a write that was cut short left behind
                continue
            try:
                content, _ = private_files.read(path, most_bytes=MAX_BYTES)
                entry = _entry(fields.decode(content.decode()))
            except (OSError, private_files.NotPrivate, fields.Malformed, UnicodeDecodeError):
                log.error("action=job_record_damaged record=%s", path.stem[:16])  # noqa: TRY400 - no paths in logs
                self._damaged.add(path.stem)
            else:
                found.append(entry)
        return found

    def _path(self, job_id: str) -> Path:
        return self._directory / (_digest(job_id) + _SUFFIX)


def _digest(job_id: str) -> str:
    """Returns a name that differs from another's also where a file system takes no account of case."""
    return hashlib.sha256(job_id.encode()).hexdigest()


def _entry(members: dict[str, Any]) -> Entry:
    source = fields.Fields(members, "job")
    source.integer("schema_version", least=SCHEMA_VERSION, most=SCHEMA_VERSION)
    key = source.nested("key") if source.object_or_none("key") is not None else None
    tree = source.nested("tree") if source.object_or_none("tree") is not None else None
    return Entry(
        job=job_record.Record.read(source.nested("job")),
        request_hash=source.text("request_hash", most=64),
        key=None
        if key is None
        else kept_answers.Key(
            digest=key.text("digest", most=64), request_hash=key.text("request_hash", most=64)
        ),
        tree=None if tree is None else left_processes.Recorded.read(tree),
    )
