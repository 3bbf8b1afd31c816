"""Sets up what the Runner says about itself: one line each on stderr, with identifiers only."""

import logging
import sys
from typing import Final

_LINE: Final = "%(asctime)s level=%(levelname)s %(message)s"


class Formatter(logging.Formatter):
    """Shows an exception by its class alone: its text and its traceback may hold a path."""

    def formatException(self, ei: object) -> str:  # noqa: N802 - the name logging calls
        """Returns ``error=<class>``."""
        error = ei[1] if isinstance(ei, tuple) else None
        return f"error={type(error).__name__}"

    def format(self, record: logging.LogRecord) -> str:
        """Returns one line, whatever the record holds."""
        record.exc_text = None
        record.stack_info = None
        return " ".join(super().format(record).split())


def begin() -> None:
    """Sends every log line of this process to stderr; those of libraries from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(_LINE))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("webcodex").setLevel(logging.INFO)
