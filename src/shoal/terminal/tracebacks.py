"""Tracebacks as people read them: the lines of their own code, and not those of Shoal that led there."""

from __future__ import annotations

import re
from pathlib import Path

import shoal
from shoal.text import humanize

_FRAMES = 6
_FRAME = re.compile(r'  File "([^"\n]*)", line \d+.*\n?(?:    .*\n?)*')
_HEADER = "Traceback (most recent call last):\n"
_LEADING_ON = re.compile(r"\n\n(?:The above exception was|During handling of the above)")
_OWN = str(Path(shoal.__file__).parent)


def user_frames(trace: str) -> str:
    """The frames of a traceback that are the user's own code, the innermost last; if there are none, the last ones."""
    frames = [(found[1], found[0].rstrip("\n")) for found in _FRAME.finditer(trace)]
    own = [text for path, text in frames if _is_users(path)]
    return "\n".join((own or [text for _, text in frames])[-_FRAMES:])


def users_first(trace: str) -> str:
    """The traceback without what comes before the first line of the user's own code, if there is one. One that was
    caused by another has several parts."""
    first, *parts = trace.split(_HEADER)
    while len(parts) > 1 and not _has_users(parts[-1]) and any(map(_has_users, parts)):
        # Shoal's own words for an error of a hook: they are told beside the traceback.
        parts = parts[:-1]
        parts[-1] = _LEADING_ON.split(parts[-1])[0] + "\n"
    return first + "".join(_HEADER + _part(part) for part in parts)


def _part(text: str) -> str:
    left_out = at = 0
    while (found := _FRAME.match(text, at)) is not None:
        if _is_users(found[1]):
            if not left_out:
                return text
            return f"  … {humanize.plural(left_out, 'frame')} of Shoal; --json has all\n{text[at:]}"
        left_out, at = left_out + 1, found.end()
    return text


def _has_users(part: str) -> bool:
    return any(_is_users(found[1]) for found in _FRAME.finditer(part))


def _is_users(path: str) -> bool:
    return not path.startswith(_OWN) and "site-packages" not in path
