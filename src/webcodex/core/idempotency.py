"""Makes the two digests that tell a replayed request from another one under the same key (G-06, G-07)."""

import hashlib
import json
from collections.abc import Mapping

from webcodex.core.json_value import Json


def request_hash(parameters: Mapping[str, Json]) -> str:
    """Returns the digest of all parameters but the key, their defaults filled in (G-06)."""
    text = json.dumps(parameters, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def key_hash(key: str) -> str:
    """Returns what is kept of a key; the key itself may be anything and is never stored."""
    return hashlib.sha256(key.encode()).hexdigest()
