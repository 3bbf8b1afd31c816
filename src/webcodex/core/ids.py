"""Makes and recognises the identifiers minted here (S-01, S-02, C-15, G-05)."""

import base64
import re
from dataclasses import dataclass
from typing import Final

ENTROPY_BYTES: Final = 12

_SESSION: Final = re.compile(r"wc_sess_[A-Za-z0-9_-]{1,128}")
_SESSION_REF: Final = re.compile(r"~s[1-9][0-9]{0,18}")
_PROJECT_REF: Final = re.compile(r"~p[1-9][0-9]{0,18}")
_CLIENT: Final = re.compile(r"[A-Za-z0-9._-]{1,80}")
_PROJECT: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


def mint(prefix: str, entropy: bytes) -> str:
    """Returns ``prefix`` followed by 16 characters of ``[A-Za-z0-9_-]`` made from 96 random bits (S-01)."""
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError("an identifier takes exactly 12 bytes of entropy")
    return prefix + base64.urlsafe_b64encode(entropy).decode("ascii")


def is_session_id(text: str) -> bool:
    """Says whether ``text`` has the form of a canonical Session id (S-01)."""
    return _SESSION.fullmatch(text) is not None


def session_ref_number(text: str) -> int | None:
    """Returns the number of a ``session_ref``, or none when ``text`` is not one (S-02)."""
    return int(text[2:]) if _SESSION_REF.fullmatch(text) else None


def project_ref_number(text: str) -> int | None:
    """Returns the number of a ``project_ref``, or none when ``text`` is not one (C-16)."""
    return int(text[2:]) if _PROJECT_REF.fullmatch(text) else None


def is_client_id(text: str) -> bool:
    """Says whether ``text`` names a Runner: 1..80 of ``[A-Za-z0-9._-]`` (M-57)."""
    return _CLIENT.fullmatch(text) is not None


def is_project_name(text: str) -> bool:
    """Says whether ``text`` is the ``<project_id>`` of a Project: 1..128 of ``[A-Za-z0-9._-]`` (R-03)."""
    return _PROJECT.fullmatch(text) is not None and text not in {".", ".."}


@dataclass(frozen=True, slots=True)
class ProjectId:
    """The two halves of a canonical Project id."""

    client_id: str
    project_id: str

    def __str__(self) -> str:
        """Returns ``agent:<client_id>:<project_id>`` (C-15)."""
        return f"agent:{self.client_id}:{self.project_id}"


def parse_project(text: str) -> ProjectId | None:
    """Returns the halves of a canonical Project id, or none when ``text`` is not one (C-15)."""
    kind, _, rest = text.partition(":")
    client_id, _, project_id = rest.partition(":")
    if kind != "agent" or not is_client_id(client_id) or not is_project_name(project_id):
        return None
    return ProjectId(client_id, project_id)
