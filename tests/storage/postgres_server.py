"""Runs one PostgreSQL for the tests of all workers, and gives each test a database of its own.

It listens on a private socket folder alone. It does not wait for the disk, since no test cuts the power. Its
template orders text by the rules of English, so that a test sees whether our own order depends on that.
"""

import contextlib
import fcntl
import itertools
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg
import pytest

from webcodex.storage.postgres import PostgresDatabase

STEP_S: Final = 60
_INITDB: Final = ("-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
_SETTINGS: Final = (
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    "max_connections=200",
    "shared_buffers=32MB",
    "autovacuum=off",
    "log_min_messages=fatal",
)
_EMPTY: Final = """
    DO $$
    DECLARE name text;
    BEGIN
        SET LOCAL session_replication_role = replica;
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
            IF name NOT IN ('alembic_version', 'wc_counters') THEN
                EXECUTE format('DELETE FROM %I', name);
            END IF;
        END LOOP;
        UPDATE wc_counters SET value = 0;
    END $$
"""
_numbers: Final = itertools.count(1)


class Absent(Exception):
    """This machine has no PostgreSQL."""


class Cluster:
    """One running PostgreSQL, with an empty database at the present schema as its template."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def url(self, name: str = "postgres") -> str:
        """Returns the address of one of its databases."""
        return f"postgresql:///{name}?user=postgres&host={quote(str(self.folder), safe='')}"

    def start(self) -> None:
        """Makes the cluster and waits until it answers."""
        shutil.chown(self.folder, _owner())
        data = str(self.folder / "data")
        self._run("initdb", "-D", data, *_INITDB)
        settings = (*_SETTINGS, f"unix_socket_directories={self.folder}")
        options = " ".join(f"-c {setting}" for setting in settings)
        self._run("pg_ctl", "-D", data, "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def make_template(self) -> None:
        """Leaves the template that each test's database is copied from."""
        self.execute(
            "CREATE DATABASE template TEMPLATE template0 "
            "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'"
        )
        PostgresDatabase(self.url("template")).close()

    def stop(self) -> None:
        """Ends it and removes what it stored."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, statement: str) -> list[Any]:
        """Carries out a statement beside all databases of the tests."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return [] if cursor.description is None else cursor.fetchall()

    @contextmanager
    def fresh(self, template: str = "template") -> Iterator[str]:
        """Gives the URL of a new database and drops it in the end, whoever uses it."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def emptied(self) -> Iterator[str]:
        """Gives the URL of this process's own database, without a row of the test before.

        For tests that leave the tables as they are: to empty them is far cheaper than to copy the template.
        """
        name = f"worker_{os.getpid()}"
        if not self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
            self.execute(f"CREATE DATABASE {name} TEMPLATE template")
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute(_EMPTY)
        yield self.url(name)

    def _run(self, program: str, *words: str) -> None:
        command = [str(_programs() / program), *words]
        if os.geteuid() == 0:
            command = ["runuser", "-u", _owner(), "--", *command]
        ended = subprocess.run(
            command,
            cwd=self.folder if self.folder.is_dir() else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=STEP_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr.decode(errors="replace")


@contextmanager
def shared(folder: Path) -> Iterator[Cluster]:
    """Gives the cluster of all workers that name ``folder``: the first starts it, the last stops it."""
    register = folder / "postgres.json"
    try:
        _programs()
    except Absent as absent:
        if "CI" in os.environ:
            raise
        pytest.skip(str(absent))
    with _alone(folder):
        known = json.loads(register.read_text()) if register.exists() else None
        cluster = Cluster(Path(known["folder"])) if known else _started()
        users = 1 + (known["users"] if known else 0)
        register.write_text(json.dumps({"folder": str(cluster.folder), "users": users}))
    try:
        yield cluster
    finally:
        with _alone(folder):
            users = json.loads(register.read_text())["users"] - 1
            register.write_text(json.dumps({"folder": str(cluster.folder), "users": users}))
            if users == 0:
                register.unlink()
                cluster.stop()


def _started() -> Cluster:
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="webcodex-pg-", dir="/tmp")))  # a socket's path is short
    cluster.start()
    cluster.make_template()
    return cluster


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _programs() -> Path:
    """Returns the folder of the newest PostgreSQL on this machine."""
    versioned = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    found = sorted(versioned, key=lambda path: int(path.parents[1].name))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise Absent("PostgreSQL is not installed here, so its half of the tests is left out")
    return Path(on_path).resolve().parent


def _owner() -> str:
    """Returns who runs PostgreSQL, which refuses root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    raise Absent("PostgreSQL refuses root, and this machine has no user postgres")
