"""The baseline of durable writes: plain SQLite, so many rows to a commit, in one thread."""

import sqlite3
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path


def rows_a_second(table: str, rows: Sequence[tuple[object, ...]], *, group: int) -> float:
    """Returns how many of ``rows`` go into a fresh ``table`` per second, ``group`` of them to a commit.

    ``table`` is the part of CREATE TABLE after the name.
    """
    marks = ", ".join("?" * len(rows[0]))
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL").close()
        connection.execute("PRAGMA synchronous=FULL").close()
        connection.execute(f"CREATE TABLE bare {table}")
        began = time.perf_counter()
        for first in range(0, len(rows), group):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(f"INSERT INTO bare VALUES ({marks})", rows[first : first + group])
            connection.execute("COMMIT")
        rate = len(rows) / (time.perf_counter() - began)
        connection.close()
    return rate
