"""Makes the block of external reports in a brief (H-14); a report is a claim and never a verdict (H-15)."""

import re
from typing import Final

from webcodex.core import evidence, handoff_facts, limits, observations
from webcodex.core.json_value import JsonObject

SHOWN: Final = 5  # H-14
UNREAD_REASON: Final = "read_unavailable"  # H-14

_CORRELATION_KEY: Final = re.compile(r"[0-9a-f]{64}")
_TOOL: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
_INT32: Final = range(-(2**31), 2**31)


def readable(reports: handoff_facts.ReportFacts) -> handoff_facts.ReportFacts:
    """Returns the reports by (recorded_at, adapter_id, event_id), or why there are none to show.

    One stored row that breaks its bounds makes all of them ``projection_unavailable`` (H-14).
    """
    if isinstance(reports, handoff_facts.ReportsMissing):
        return reports
    if len(reports) > limits.OBSERVATIONS_PER_SESSION or not all(map(_is_within_bounds, reports)):
        return handoff_facts.ReportsMissing.PROJECTION
    return tuple(sorted(reports, key=_place))


def block(reports: handoff_facts.ReportFacts) -> JsonObject:
    """Returns the closed block with the last five reports, oldest first, or with nulls (H-14)."""
    known = readable(reports)
    if isinstance(known, handoff_facts.ReportsMissing):
        return {
            "status": "unavailable",
            "reason_code": known.value,
            "provenance": evidence.EXTERNAL_REPORT,
            "coverage": evidence.external_coverage(UNREAD_REASON),
            "total": None,
            "returned": None,
            "truncated": None,
            "unknown_count": None,
            "observations": None,
        }
    shown = [observations.shown(observation) for observation in known[-SHOWN:]]
    return {
        "status": "available",
        "reason_code": None,
        "provenance": evidence.EXTERNAL_REPORT,
        "coverage": evidence.external_coverage(),
        "total": len(known),
        "returned": len(shown),
        "truncated": len(shown) < len(known),
        "unknown_count": sum(claim(observation) is observations.Status.UNKNOWN for observation in known),
        "observations": shown,
    }


def claim(observation: observations.Observation) -> observations.Status:
    """Returns what a stored report claims (O-08)."""
    return observations.status(observation.report.exit_code)


def _place(observation: observations.Observation) -> tuple[int, str, str]:
    return observation.recorded_at, observation.report.adapter_id, observation.report.event_id


def _is_within_bounds(observation: observations.Observation) -> bool:
    report = observation.report
    return (
        _CORRELATION_KEY.fullmatch(report.adapter_id) is not None
        and _CORRELATION_KEY.fullmatch(report.event_id) is not None
        and _TOOL.fullmatch(report.tool) is not None
        and (report.exit_code is None or report.exit_code in _INT32)
        and observation.recorded_at > 0
    )
