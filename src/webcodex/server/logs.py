"""Sets up what the Server says about itself: one line each on stderr, with identifiers only (M-02)."""

import logging
import sys
from typing import Final

_LINE: Final = "%(asctime)s level=%(levelname)s %(message)s"
# Below warnings uvicorn names the path and query of a request, where a Runner's token may be.
_QUIET: Final = ("alembic", "uvicorn", "uvicorn.error", "uvicorn.access", "websockets", "mcp", "asyncio")


class Formatter(logging.Formatter):
    """Shows an exception as its class and place: its text and its traceback may hold input."""

    def formatException(self, ei: object) -> str:  # noqa: N802 - the name logging calls
        """Returns ``error=<class> at=<function>:<line>`` of the innermost frame."""
        error = ei[1] if isinstance(ei, tuple) else None
        if not isinstance(error, BaseException):
            return "error=unknown"
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = "unknown" if trace is None else f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}"
        return f"error={type(error).__name__} at={place}"

    def format(self, record: logging.LogRecord) -> str:
        """Returns one line, whatever the record holds."""
        record.exc_text = None
        record.stack_info = None
        return " ".join(super().format(record).split())


def begin() -> None:
    """Sends every log line of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(_LINE))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
