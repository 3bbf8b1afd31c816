"""When one piece of work has to be over: at its time, or earlier when nobody waits for it any more."""

import threading
from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True, kw_only=True, slots=True)
class Deadline:
    """A point on the monotonic clock, and an event that brings it forward to now."""

    at: float
    given_up: threading.Event

    def remaining_s(self) -> float:
        """Returns the seconds left, never less than 0; 0 once the work was given up."""
        return 0.0 if self.given_up.is_set() else max(0.0, self.at - monotonic())
