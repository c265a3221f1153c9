"""How much of anything is taken: what a server, a page or a handler can make large, and that would else stay in memory,
in the store or in a log.

Each line: what is meant, why this number, and what happens beyond it. What a person may want to change is a setting
(settings.py) and not here. docs/limits.md has the same table, settings included; a test compares the two.
"""

from __future__ import annotations

KB = 1024

# -- an answer's head
HEADER_LINE = 32 * KB  # bytes of a header line: content security policies grow long. Beyond: `protocol`
HEADER_LINES = 128  # header lines of an answer; browsers take about as many kilobytes. Beyond: `protocol`
ANSWER_HEADERS = 256 * KB  # bytes of all headers of an answer, as in browsers. Beyond: `protocol`
INTERIM_ANSWERS = 20  # answers of status 1xx before the real one: usual are none or one. Beyond: `flood`

# -- HTTP/1.1
BODY_OVERHEAD = (
    512 * KB
)  # bytes that are no body (headers, chunk sizes), besides half of the body. Beyond: `flood`

# -- HTTP/2
FRAME_BYTES = 16 * KB  # bytes of a frame: what HTTP/2 starts with, and we offer no more. Beyond: `protocol`
SETTINGS_FRAME = (
    600  # bytes of a SETTINGS frame: 100 settings, of which fewer than 10 are defined. Beyond: `flood`
)
EMPTY_FRAMES = 5_000  # frames of an exchange that bring nothing: about 0.1 s of work. Beyond: `flood`
FRAME_SHARE = 64  # bytes of a body that pay for one frame: in smaller crumbs no server sends a whole page
