"""Decides what attempts to validate prove: their scope, their verdict and the status of a Session (30.6).

Never says that the present files are correct: changes made outside recorded tools are not seen (S-44).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from webcodex.core import handoff_facts, idempotency
from webcodex.core.handoff_facts import ScopeVerdict, ValidationStatus, Verdict
from webcodex.core.json_value import JsonObject

SCOPES: Final = 256  # S-41, verdicts kept of one Session

_EXITED: Final = frozenset({"completed", "failed"})
_WITHOUT_PROOF: Final = frozenset({"stopped", "timed_out", "lost"})
_NOT_PASSED: Final = frozenset({Verdict.FAILED, Verdict.INCONCLUSIVE})


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What one line of attempts checks; ``name`` is the caller's own word for it, empty without one."""

    identity: str
    name: str

    @property
    def shown(self) -> str:
        """Returns the identity as answers and events show it (H-10)."""
        return handoff_facts.process_scope_identity(self.name, self.identity)


def scope_of(argv: Sequence[str], cwd: str, validation_scope: str | None) -> Scope:
    """Returns the scope of a ``run_process``: the given word, else the hash of what runs where (S-41)."""
    if validation_scope is not None:
        return Scope(identity=validation_scope, name=validation_scope)
    return Scope(identity=idempotency.request_hash({"argv": list(argv), "cwd": cwd}), name="")


def verdict_of(state: str, exit_code: int | None) -> Verdict | None:
    """Returns the verdict of a Job in that state, or none while it has not ended or when it never ran (S-40).

    Only a proven exit code passes or fails; a Job that was ended from outside proves nothing.
    """
    if state in _WITHOUT_PROOF:
        return Verdict.INCONCLUSIVE
    if state not in _EXITED:
        return None
    if exit_code is None:
        return Verdict.INCONCLUSIVE
    return Verdict.PASSED if exit_code == 0 else Verdict.FAILED


def status_of(scopes: Iterable[ScopeVerdict], *, has_overflowed: bool) -> ValidationStatus:
    """Returns what the newest verdicts say together; ``has_overflowed`` is a 257th scope (S-43)."""
    lines = list(scopes)
    after = {line.verdict for line in lines if line.is_after}
    before = {line.verdict for line in lines if not line.is_after}
    if Verdict.FAILED in after:
        return ValidationStatus.FAILED
    if Verdict.INCONCLUSIVE in after or has_overflowed:
        return ValidationStatus.INCONCLUSIVE
    if after and before & _NOT_PASSED:
        return ValidationStatus.INCONCLUSIVE
    if after:
        return ValidationStatus.PASSED
    return ValidationStatus.STALE if before else ValidationStatus.NOT_RUN


def event_facts(scope: Scope, verdict: Verdict) -> JsonObject:
    """Returns what an event says of an ended attempt: its shown scope and its verdict (S-10, S-12)."""
    return {"validation": {"scope": scope.shown, "verdict": verdict.value}}
