"""Tells from a request's credential who sent it (C-22 rows 3 and 4); never says why it does not know.

Keeps no token between two requests: each looks its token up, so it sees every change (C-08).

``Unauthorized``      no, unknown, expired, revoked or disabled credential: 401 (M-05)
``WrongCredential``   a good credential of a kind this path does not take: 403 (M-06)
"""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Callable, Iterable
from typing import Final

from webcodex.core import access, limits
from webcodex.core.access import Credential
from webcodex.server.settings import RESERVED_PREFIXES, Settings
from webcodex.storage import accounts
from webcodex.storage.database import Database, StoreError

log = logging.getLogger(__name__)

RUNNER_PATH: Final = "/api/agents/ws"
ACCOUNT_PATHS: Final = frozenset(
    {
        "/api/users/me",
        "/api/tokens/list",
        "/api/tokens/register_hash",
        "/api/tokens/revoke",
        "/api/agent-tokens/register_hash",
    }
)  # C-05
SENTENCES: Final = {
    Credential.PAT: "personal access tokens are not allowed on agent transport endpoints",
    Credential.RUNNER: "agent tokens are only allowed on agent transport endpoints",
    Credential.ACCOUNT: "account credentials are only allowed on account self-service endpoints",
}

_SCHEME: Final = b"bearer "
_TOKEN_BYTES: Final = 512
_RESERVED: Final = tuple(prefix.encode() for prefix in RESERVED_PREFIXES)
_KINDS: Final = {
    b"wc_pat_": Credential.PAT,
    b"wc_agent_": Credential.RUNNER,
    b"wc_acct_": Credential.ACCOUNT,
}
_CLOSE_S: Final = 5.0


class Unauthorized(Exception):
    """Nobody known sent the request."""


class WrongCredential(Exception):
    """The credential is good, but not on this path; ``sentence`` may be shown."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


def is_taken(kind: Credential, path: str) -> bool:
    """Says whether ``path`` takes credentials of ``kind`` (20.1)."""
    match kind:
        case Credential.BOOTSTRAP | Credential.LOCAL_DEV:
            return True
        case Credential.RUNNER:
            return path == RUNNER_PATH
        case Credential.ACCOUNT:
            return path in ACCOUNT_PATHS
        case Credential.PAT:
            return path != RUNNER_PATH


class Authentication:
    """Knows the credentials of one installation."""

    def __init__(self, settings: Settings, database: Database, now: Callable[[], int]) -> None:
        self._database = database
        self._now = now
        token = settings.token
        self._bootstrap_digest = None if token is None else hashlib.sha256(token.encode()).digest()
        self._local_dev = access.everyone(Credential.LOCAL_DEV) if settings.auth_disabled else None
        self._notes: dict[str, asyncio.Task[None]] = {}

    async def caller(
        self, headers: Iterable[tuple[bytes, bytes]], path: str, query_token: str | None = None
    ) -> access.Caller:
        """Returns who sent a request with these ``headers``, names in lower case, to ``path``.

        ``query_token`` counts only for a Runner token on its own path and without a header (C-06).

        Raises:
            Unauthorized: C-22 row 3.
            WrongCredential: C-22 row 4.
            StoreUnavailable: the tokens could not be read.

        """
        if self._local_dev is not None:
            return self._local_dev
        token = _sent(headers)
        if token is not None:
            return await self._verified(token, path)
        if query_token is None or path != RUNNER_PATH:
            raise Unauthorized
        token = query_token.encode("utf-8", "replace")
        if _kind(token) is not Credential.RUNNER:
            raise Unauthorized
        return await self._verified(token, path)

    async def close(self) -> None:
        """Waits a little for the uses that are being noted, then gives them up."""
        if self._notes:
            await asyncio.wait(self._notes.values(), timeout=_CLOSE_S)
        for note in self._notes.values():
            note.cancel()

    async def _verified(self, token: bytes, path: str) -> access.Caller:
        if len(token) > _TOKEN_BYTES or token.startswith(_RESERVED):
            raise Unauthorized
        digest = hashlib.sha256(token)
        if self._bootstrap_digest is not None and hmac.compare_digest(
            digest.digest(), self._bootstrap_digest
        ):
            return access.everyone(Credential.BOOTSTRAP)
        kind = _kind(token)
        if kind is None:
            raise Unauthorized
        token_hash = digest.hexdigest()
        found = await self._database.read(lambda tx: accounts.token_of_hash(tx, token_hash))
        now = self._now()
        if found is None or found[0].kind != kind.value or not _may_be_used(*found, now):
            raise Unauthorized
        if not is_taken(kind, path):
            raise WrongCredential(SENTENCES[kind])
        self._note_use(found[0], now)
        return _caller(*found)

    def _note_use(self, token: accounts.Token, now: int) -> None:
        used, token_id = token.last_used_at, token.token_id
        if token_id in self._notes or (used is not None and now - used < limits.TOKEN_TOUCH_S):
            return
        note = asyncio.get_running_loop().create_task(self._write_use(token_id, now))
        self._notes[token_id] = note
        note.add_done_callback(lambda _note: self._notes.pop(token_id, None))

    async def _write_use(self, token_id: str, now: int) -> None:
        try:
            await self._database.write(lambda tx: accounts.touch(tx, token_id, now))
        except StoreError as error:
            log.warning("action=token_use_not_noted token=%s error=%s", token_id, type(error).__name__)


def _sent(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    values = [value for name, value in headers if name == b"authorization"]
    if not values:
        return None
    value = values[0]
    if len(values) > 1 or value[: len(_SCHEME)].lower() != _SCHEME:
        raise Unauthorized
    return value[len(_SCHEME) :].strip(b" ")


def _kind(token: bytes) -> Credential | None:
    return next((kind for prefix, kind in _KINDS.items() if token.startswith(prefix)), None)


def _may_be_used(token: accounts.Token, user: accounts.User, now: int) -> bool:
    is_expired = token.expires_at is not None and token.expires_at <= now
    return not is_expired and token.revoked_at is None and user.disabled_at is None


def _caller(token: accounts.Token, user: accounts.User) -> access.Caller:
    return access.Caller(
        credential=Credential(token.kind),
        user_id=user.user_id,
        username=user.username,
        role=access.Role(user.role),
        scopes=frozenset(token.scopes),
        client_id=token.allowed_client_id,
        authority=access.group_of_user(user.user_id),
    )
