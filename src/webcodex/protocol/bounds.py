"""Bounds and timings of the link, each once (R-30..R-47)."""

import re
from typing import Final

from webcodex.core import limits

GENERATION: Final = 2
"""The only protocol generation served (R-31)."""

CLOSE_PROTOCOL_ERROR: Final = 1002
"""The WebSocket close code after a malformed frame (R-30)."""

MAX_FRAME_BYTES: Final = 8 * 1024 * 1024
MAX_REPLY_BYTES: Final = 256 * 1024
"""What one call may answer (R-50)."""

MAX_OPEN_REQUESTS: Final = limits.RUNNER_OPEN_REQUESTS
MAX_PAGE_PROJECTS: Final = 64
MAX_PAGE_BYTES: Final = 256 * 1024
MAX_PAGES: Final = 64
"""Pages of one inventory: 4,096 Projects in all."""

HELLO_WITHIN_S: Final = 15.0
ONLINE_S: Final = 60.0
PING_EVERY_S: Final = 30.0
INVENTORY_WITHIN_S: Final = 120.0
MAX_RETIRED_INSTANCES: Final = 16
MAX_BUDGET_MS: Final = 3_600_000

CLIENT_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,80}")
PROJECT_ID: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,128}")
IDENTITY: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
PROVIDER_ID: Final = re.compile(r"[a-z0-9_.-]{1,64}")
