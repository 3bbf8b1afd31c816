"""Holds every bound once, with its unit and the requirement it comes from."""

from typing import Final

HTTP_BODY_BYTES: Final = 4 * 1024 * 1024  # M-01
JSON_DEPTH: Final = 64  # M-24a, nesting the parser accepts
JSON_INT: Final = 2**53 - 1  # M-24a
STORE_LOCK_WAIT_S: Final = 3.0  # O-15
STORE_READ_WAIT_S: Final = 0.25  # a reader of the write-ahead log waits for nobody
STORE_QUEUE: Final = 1024  # writes waiting for the writer thread
STORE_GROUP: Final = 256  # writes that share one commit
STORE_STATEMENT_S: Final = 5.0  # one statement of a database behind a network
STORE_ANSWER_S: Final = 10.0  # a transaction there, with its wait for a thread and for locks
STORE_CONNECT_S: Final = 3  # whole seconds, as libpq takes them
STORE_MIGRATE_S: Final = 120.0  # also the wait for another Server that migrates
STORE_READERS: Final = 4  # connections that read there
STORE_WRITERS: Final = 2  # connections that write there: while one commits, the other waits for its turn
STORE_ATTEMPTS: Final = 5  # runs of one transaction there that others hold up (O-10)
READY_WAIT_S: Final = 2.0  # M-59
DISPATCH_S: Final = 150.0  # M-28
HANDLER_S: Final = 140.0  # M-28
PROGRESS_EVERY_S: Final = 1.0  # M-21

PROJECT_BYTES: Final = 1024  # O-01
INSTRUCTION_CHARS: Final = 4000  # S-03
TITLE_CHARS: Final = 4000  # S-02
LIST_TITLE_CHARS: Final = 240  # S-03
SESSION_EVENTS: Final = 2000  # S-13
RESPONSE_EVENTS: Final = 200  # S-03
EVENT_PATHS: Final = 201  # S-12
EVENT_PATH_BYTES: Final = 512  # S-12
INPUT_SUMMARY_CHARS: Final = 240  # S-12

OBSERVATIONS_PER_SESSION: Final = 256  # O-10
OBSERVATIONS_TOTAL: Final = 65_536  # O-10

RUNNER_CALL_S: Final = 30.0
WORKSPACE_S: Final = 8.0  # H-07
RUNNER_OPEN_REQUESTS: Final = 256

JOB_GRACE_S: Final = 120
JOB_LOGS: Final = 256  # ended Jobs of one Project whose log text is kept; their states always are
JOB_SWEEP_S: Final = 30.0
JOB_POLL_S: Final = 1.0  # how soon an update that another Server stored is seen
JOB_SNAPSHOT_S: Final = 5.0  # for the two tails of a process that has been waited for

USERS_LISTED: Final = 1000
TOKENS_LISTED: Final = 200  # M-52
TOKEN_TOUCH_S: Final = 60  # C-08
