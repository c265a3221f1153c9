"""Journals whose rows go to an object store, as others see them. What they are made of is imported by those who make
one."""

from __future__ import annotations

from shoal.errors import SinkAway, UsageError
from shoal.frontier.protocol import Journal
from shoal.sink.journals import Several
from shoal.sink.ownership import FileClaim


class InObjects(Journal):
    """A journal of an output in an object store."""

    option = "-o"  # that names the output

    def claim(self, asked: FileClaim, *, replace_any: bool = False) -> None:
        """Makes the job the owner of what is there, and shows that it may write."""
        raise NotImplementedError


def object_journals(journal: Journal | None) -> list[InObjects]:
    """Those of a journal that are in object stores, and known before the first row comes."""
    if isinstance(journal, InObjects):
        return [journal]
    if isinstance(journal, Several):
        parts = [*journal.known("objects"), *journal.known("archive")]
        return [one for part in parts for one in object_journals(part)]
    return []


def claim_objects(journal: Journal | None, asked: FileClaim, *, replace_any: bool = False) -> None:
    """Makes the job the owner of what it writes to object stores, and shows that it may write there."""
    for one in object_journals(journal):
        try:
            one.claim(asked, replace_any=replace_any)
        except SinkAway as error:
            if error.lasts:
                raise UsageError(f"{one.option} {error.sink}: {error.reason}") from None
            raise
