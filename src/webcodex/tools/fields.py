"""Declares the argument types that several tools share, with their bounds and descriptions."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from webcodex.core import limits


def _within_project_bytes(value: str) -> str:
    if not 1 <= len(value.encode()) <= limits.PROJECT_BYTES:
        raise ValueError("1 to 1,024 bytes")
    return value


ProjectName = Annotated[
    str,
    AfterValidator(_within_project_bytes),
    Field(description="Project: canonical id agent:<client_id>:<project_id>, or a project_ref such as ~p1."),
]
CanonicalProject = Annotated[
    str,
    AfterValidator(_within_project_bytes),
    Field(description="Exact canonical Project id agent:<client_id>:<project_id>."),
]
SessionName = Annotated[
    str,
    Field(max_length=136, description="Workflow Session: wc_sess_... or a session_ref such as ~s1."),
]
CANONICAL_SESSION: Final = r"^wc_sess_[A-Za-z0-9_-]{1,128}$"
CanonicalSession = Annotated[
    str, Field(pattern=CANONICAL_SESSION, description="Exact canonical Workflow Session id, wc_sess_...")
]
Digest = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{64}$", description="Lowercase SHA-256; a correlation key, no authority."),
]
Instruction = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=limits.INSTRUCTION_CHARS),
    Field(description="What the user asked for, in their words; 1 to 4,000 characters."),
]
