"""Holds the words that every projection shares when it says how far something is proven."""

from typing import Final

from webcodex.core.json_value import JsonObject

EXTERNAL_REPORT: Final = "external_report"  # O-05
ORDERING: Final = "server_recorded_at_then_identity"  # O-06


def external_coverage(reason: str = "source_sequence_unavailable") -> JsonObject:
    """Returns the coverage of external reports, which is never complete (O-07)."""
    return {"complete": False, "reason": reason, "ordering": ORDERING}
