"""Every bound of the local adapters, once, with its unit and its source in ``docs/spec/60-adapters.md``."""

MAX_BYTES = 131_072
"""Bytes of any file or response that is read (A-06)."""

STDIN_KEPT_BYTES = MAX_BYTES + 1
"""Bytes of stdin kept in memory: one more than fits, so that too much is seen as too much (A-04)."""

STDIN_SECONDS = 5.0
"""How long the host may take to write the payload and close (A-04)."""

SAVE_WAIT_SECONDS = 1.0
"""How long a run waits for the lock ``.save`` (A-12)."""

LOCK_POLL_SECONDS = 0.002
"""Pause between two tries for a lock that may be waited for."""

HOOK_SECONDS = 5.0
"""The one deadline of a hook-fed drain (A-31)."""

FLUSH_SECONDS = 15.0
"""The deadline of ``--flush`` (A-31)."""

SEND_SECONDS = 5.0
"""The longest single request of a drain (A-31)."""

WATCHDOG_MARGIN_SECONDS = 0.05
"""How much earlier than the watchdog the sockets give up (A-20)."""

SHARING_WAIT_SECONDS = 0.5
"""How long a file on Windows is tried again while another process, such as a scanner, has it open."""

OTHERS_SECONDS = 1.0
"""How long a hook-fed drain spends on reports of earlier runs (A-31)."""

OTHERS_COUNT = 16
"""How many reports of earlier runs a hook-fed drain sends (A-31)."""

PENDING_FILES = 256
"""Files an outbox holds before it takes no new one (A-30)."""

REJECTED_FILES = 1_024
"""Files ``rejected/`` holds (A-106)."""

HEADER_BYTES = 16_384
"""The header block of one response (A-19)."""

INTERIM_RESPONSES = 16
"""How many 1xx responses are skipped before the peer counts as broken."""

CHUNK_LINE_BYTES = 1_024
"""The size line of one chunk, extensions included."""

RECEIVE_BYTES = 65_536
"""Bytes asked of a socket or of stdin in one read."""

IDENTITY_CHARS = 256
"""Chars of a tool call's own identity (A-23)."""

RECOVERY_SECONDS = 10.0
"""The deadline of a recovery run fed by a host (A-54)."""

DISCOVERY_SECONDS = 30.0
"""The deadline of ``discover`` and ``associate`` (A-52)."""

RECOVERY_WAIT_SECONDS = 1.0
"""How long a recovery run waits for ``.lock`` (A-58)."""

INVENTORY_ROWS = 1_000
"""Projects or Sessions that one inventory may have (A-52)."""

BINDINGS = 64
"""Bindings in one registry (A-51)."""

ENTRY_ROOTS = 8
"""Directories from which one binding may be recalled (A-51)."""

SNAPSHOTS = 1_024
"""Snapshots before the one least recently written makes room (A-58)."""

CONTEXT_BYTES = 9_500
"""UTF-8 bytes, and so chars, that are put into a conversation at once (A-60)."""
