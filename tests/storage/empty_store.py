"""Makes an empty database once per process; migrating costs more than a whole test."""

import functools
import tempfile
from pathlib import Path

from webcodex.storage.engine import SqliteDatabase


@functools.cache
def content() -> bytes:
    """The bytes of an empty database at the present schema."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        SqliteDatabase(path).close()
        return path.read_bytes()
