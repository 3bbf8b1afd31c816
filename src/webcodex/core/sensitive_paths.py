"""Says which project paths may hold secrets, by their names alone (R-13)."""

import itertools
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_NAME: Final = re.compile(
    r"\.git|\.ssh|\.gnupg|\.aws|\.azure"
    r"|\.env|\.env\.(?!(?:example|sample|template)\Z).*"
    r"|.*\.(?:pem|key|p12|pfx|keystore)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?!.*\.pub\Z).*"
    r"|\.netrc|\.npmrc|\.pypirc|\.git-credentials",
    re.DOTALL,
)
_PAIRS: Final = frozenset({(".docker", "config.json"), (".kube", "config"), (".codex", "auth.json")})


def is_sensitive(components: Sequence[str]) -> bool:
    """Says whether a path names or lies beneath what R-13 withholds, in any spelling of case and Unicode."""
    folded = [_fold(component) for component in components]
    if any(_NAME.fullmatch(name) for name in folded):
        return True
    return any(pair in _PAIRS for pair in itertools.pairwise(folded))


def _fold(component: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", component).casefold())
