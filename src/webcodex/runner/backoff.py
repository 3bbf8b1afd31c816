"""How long a Runner waits before it dials again (R-36); must never draw a random number itself."""

import enum
from dataclasses import dataclass, replace
from typing import Final

FIRST_S: Final = 1.0
LONGEST_S: Final = 30.0
GOOD_CONNECTION_S: Final = 60.0
_JITTER: Final = 0.2


class Parting(enum.Enum):
    """How the last attempt ended."""

    LOST = enum.auto()
    CREDENTIAL_REFUSED = enum.auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """The wait before the next attempt, without its jitter."""

    wait_s: float = FIRST_S

    def after(self, parting: Parting, *, connected_s: float, chance: float) -> tuple["Backoff", float]:
        """Returns the back-off after an attempt, and the seconds to wait now.

        `connected_s` is how long the Runner was registered; `chance` is from 0 to 1 and spreads the wait by
        20 % to either side.
        """
        if parting is Parting.CREDENTIAL_REFUSED:
            return self, LONGEST_S * _spread(chance)
        wait_s = FIRST_S if connected_s >= GOOD_CONNECTION_S else self.wait_s
        return replace(self, wait_s=min(2 * wait_s, LONGEST_S)), wait_s * _spread(chance)


def _spread(chance: float) -> float:
    return 1 - _JITTER + 2 * _JITTER * chance
