"""What kind of document a body is."""

from __future__ import annotations

import re

_HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
_UNTOLD = frozenset(("", "application/octet-stream", "unknown/unknown", "application/unknown"))
_SNIFF = 1024
_HTML_START = re.compile(
    rb"\s*(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*|<\?xml[^>]*>\s*)*"
    rb"<(?:!doctype\s+html|html|head|body|script|title|meta|div|table|h1|p|a|br)\b",
    re.IGNORECASE | re.DOTALL,
)


def is_html(media_type: str, body: bytes) -> bool:
    """By its media type (lower case, without parameters); if that says nothing, by how the body begins."""
    if media_type in _HTML_TYPES:
        return True
    return media_type in _UNTOLD and _HTML_START.match(body, 0, _SNIFF) is not None
