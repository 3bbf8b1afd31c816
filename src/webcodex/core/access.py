"""Says who a caller is and which scopes it carries (20.1, 20.2, 20.5)."""

import functools
import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Scope(StrEnum):
    """The closed list of scopes (C-10)."""

    RUNTIME_READ = "runtime:read"
    PROJECT_READ = "project:read"
    PROJECT_WRITE = "project:write"
    JOB_RUN = "job:run"
    SESSION_COLLABORATE = "session:collaborate"
    COMMUNICATION_READ = "communication:read"
    COMMUNICATION_MANAGE = "communication:manage"
    CODING_AGENT_RUN = "coding_agent:run"
    MEMORY_READ = "memory:read"
    MEMORY_MANAGE = "memory:manage"
    SKILL_READ = "skill:read"
    SKILL_MANAGE = "skill:manage"
    ACCOUNT_MANAGE = "account:manage"
    ADMIN = "admin"
    AGENT_REGISTER = "agent:register"
    AGENT_POLL = "agent:poll"
    AGENT_RESULT = "agent:result"
    AGENT_JOB_UPDATE = "agent:job_update"


RUNNER_SCOPES: Final = (Scope.AGENT_REGISTER, Scope.AGENT_POLL, Scope.AGENT_RESULT, Scope.AGENT_JOB_UPDATE)
CODING_SCOPES: Final = (
    Scope.RUNTIME_READ,
    Scope.PROJECT_READ,
    Scope.PROJECT_WRITE,
    Scope.JOB_RUN,
    Scope.SESSION_COLLABORATE,
    Scope.COMMUNICATION_READ,
    Scope.CODING_AGENT_RUN,
)  # C-14


class Credential(StrEnum):
    """The kinds of credential, and the absence of one where that is allowed (C-01..C-05)."""

    BOOTSTRAP = "bootstrap"
    LOCAL_DEV = "local-dev"
    PAT = "pat"
    RUNNER = "agent"
    ACCOUNT = "account"


class Role(StrEnum):
    """What a user is to the installation (M-57)."""

    USER = "user"
    ADMIN = "admin"


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Whoever sent a request, as its credential proves it."""

    credential: Credential
    user_id: str | None = None
    username: str | None = None
    role: Role = Role.USER
    scopes: frozenset[str] = frozenset()
    client_id: str | None = None
    authority: str = ""

    @property
    def is_everyone(self) -> bool:
        """Says whether every scope and every Project is this caller's (C-01, C-03, C-15)."""
        return self.credential in {Credential.BOOTSTRAP, Credential.LOCAL_DEV}

    @property
    def is_admin(self) -> bool:
        """Says whether this caller may manage other users (M-57)."""
        return self.is_everyone or (self.role is Role.ADMIN and has_scope(self, Scope.ACCOUNT_MANAGE))


def has_scope(caller: Caller, scope: Scope) -> bool:
    """Says whether ``caller`` has ``scope`` (C-11)."""
    return caller.is_everyone or scope.value in caller.scopes or Scope.ADMIN.value in caller.scopes


def first_missing(caller: Caller, scopes: tuple[Scope, ...]) -> Scope | None:
    """Returns the first of ``scopes`` that ``caller`` lacks, in their order (M-07)."""
    return next((scope for scope in scopes if not has_scope(caller, scope)), None)


def fingerprint(kind: str, identity: str) -> str:
    """Returns the stored name of an authority group; it never appears in an answer (C-18, C-19)."""
    text = f"webcodex.workflow-session-authority.v1\0{kind}\0{identity}"
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def everyone(credential: Credential) -> Caller:
    """Returns the bootstrap or local-dev caller; the two are groups of their own (C-18)."""
    return Caller(credential=credential, authority=fingerprint(credential.value, credential.value))


def group_of_user(user_id: str) -> str:
    """Returns the authority group of one user: all its PATs and its account credential (C-19)."""
    return fingerprint("managed-user", user_id)


def requested_by(caller: Caller) -> str:
    """Returns the principal that a Runner keeps idempotency keys under (R-57); an opaque digest."""
    return caller.authority
