"""How requests to the shop's API are signed."""

from __future__ import annotations

import hashlib
import hmac

API_KEY = "shop-api-key"
VALID = 30.0  # seconds that a signature is good for


def signature(path: str, at: str, key: str = API_KEY) -> str:
    """For the headers X-Time and X-Signature: HMAC-SHA256 of the path with its query, a line break, and the time."""
    return hmac.new(key.encode(), f"{path}\n{at}".encode(), hashlib.sha256).hexdigest()


def is_signed(path: str, at: str, given: str, now: float) -> bool:
    try:
        fresh = abs(now - float(at)) <= VALID
    except ValueError:
        return False
    return fresh and hmac.compare_digest(given, signature(path, at))
