"""Makes the digests that tell a replayed request from another one under the same key (G-06, G-07, R-57)."""

import hashlib
import json
from collections.abc import Mapping

from webcodex.core.json_value import Json


def request_hash(parameters: Mapping[str, Json]) -> str:
    """Returns the digest of the canonical JSON of all parameters but the key, defaults filled in (G-06)."""
    text = json.dumps(parameters, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def key_hash(key: str) -> str:
    """Returns what is kept of a key; the key itself may be anything and is never stored."""
    return hashlib.sha256(key.encode()).hexdigest()


def project_key(requested_by: str, project: str, key: str) -> bytes:
    """Returns the 32 bytes that a key stands for, of one principal in one canonical Project (R-57)."""
    return hashlib.sha256(f"{requested_by}\0{project}\0{key}".encode()).digest()
