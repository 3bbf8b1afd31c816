"""Makes tokens; the plaintext exists only in the answer that shows it once (C-08, C-09)."""

import hashlib
from typing import Final

from webcodex.core import ids
from webcodex.core.access import Credential
from webcodex.server.accounts_bodies import DEFAULT_NAME
from webcodex.storage import accounts
from webcodex.tools.ports import Services

PREFIXES: Final = {
    Credential.PAT: "wc_pat_",
    Credential.RUNNER: "wc_agent_",
    Credential.ACCOUNT: "wc_acct_",
}
PREFIX_CHARS: Final = 16
_ENTROPY_BYTES: Final = 32


def minted(
    services: Services,
    user: accounts.User,
    kind: Credential,
    *,
    name: str = DEFAULT_NAME,
    scopes: tuple[str, ...] = (),
    client_id: str | None = None,
    expires_at: int | None = None,
) -> tuple[str, accounts.Token]:
    """Returns a new plaintext token of ``kind`` and what is stored of it."""
    secret = PREFIXES[kind] + services.entropy(_ENTROPY_BYTES).hex()
    token = accounts.Token(
        token_id=ids.mint("tok_", services.entropy(ids.ENTROPY_BYTES)),
        user_id=user.user_id,
        kind=kind.value,
        name=name,
        token_hash=hashlib.sha256(secret.encode()).hexdigest(),
        token_prefix=secret[:PREFIX_CHARS],
        scopes=scopes,
        allowed_client_id=client_id,
        created_at=services.now(),
        last_used_at=None,
        revoked_at=None,
        expires_at=expires_at,
    )
    return secret, token
