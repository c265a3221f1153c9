"""What a standing job remembers of a page between two visits. It travels with the page's task.

Times are the frontier's. All of it together is a few hundred bytes: there may be very many pages.
"""

from __future__ import annotations

from msgspec import Struct


class KeptRow(Struct, frozen=True, array_like=True):
    """An item that the page yielded when its handler last ran."""

    table: str  # what kind of item it is
    ident: str  # the values of its key; "": it has none
    digest: bytes  # of its data
    data: bytes = b""  # its data, compressed; b"": it was too long to be kept


class PageRecord(
    Struct, frozen=True, array_like=True
):  # without names: there are very many. New fields go last
    visits: int = 0  # how often it was asked for and answered
    checked_at: float = 0.0  # when it was last asked for, and answered
    handled_at: float = 0.0  # when its handler last ran
    changed_at: float = 0.0  # when it was last found to be new or changed
    interval: float = 0.0  # seconds from then to the next visit, as it was planned
    etag: str = ""
    modified: str = ""  # the header Last-Modified
    useless: int = 0  # how often in a row the same body had another ETag
    body: bytes = b""  # the digest of the last body
    links: bytes = b""  # the digest of the requests that its handler yielded, if it yielded no items
    code: bytes = b""  # the digest of the handler's code: a page is read again when that has changed
    rows: tuple[KeptRow, ...] = ()
    rate: bytes = b""  # how often it changes, as policy/revisit.py writes it down
    gone: int = 0  # how often in a row it was not there any more (404, 410)
    missed: int = 0  # how often in a row a visit failed
    held: int = 0  # how often in a row its items were held back
    trouble: str = ""  # why the last visit failed
    start: str = ""  # where the next visit begins, if a redirect led here that is not for good
    first: int = 0  # the id of its task at the first visit, if nothing else tells it from other pages

    @property
    def due(self) -> float:
        """When its next visit was planned."""
        return self.checked_at + self.interval
