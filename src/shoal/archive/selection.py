"""Which answers of an archive are read, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from shoal.archive.reader import Answer, Spot, Survey

OLDER = "older versions of a page"
NO_BODY = "answers whose body is in another archive"


class Selection:
    """The pages of all files, in the order of the archive: the newest of each, or all."""

    def __init__(self, surveys: Sequence[Survey], *, every: bool = False, limit: int | None = None) -> None:
        self._surveys = surveys
        self._bodies: dict[bytes, tuple[int, int]] = {}
        self._by_request: dict[bytes, tuple[int, Answer]] | None = None
        self.passed_over: Counter[str] = Counter()
        if any(answer.body for survey in surveys for answer in survey.answers):
            self._bodies = {
                answer.id: (number, answer.place) for number, answer in self._answers() if not answer.body
            }
        self.spots = self._spots(every, limit)

    def _answers(self) -> Iterator[tuple[int, Answer]]:
        for number, survey in enumerate(self._surveys):
            for answer in survey.answers:
                yield number, answer

    def _spots(self, every: bool, limit: int | None) -> list[Spot]:
        newest: dict[bytes, Answer] = {}
        for _, answer in self._answers():
            if answer.is_page and answer.at >= (newest[answer.same].at if answer.same in newest else 0.0):
                newest[answer.same] = answer
        spots: list[Spot] = []
        for number, answer in self._answers():
            if not answer.is_page:
                self.passed_over[answer.why_not] += 1
            elif not every and newest[answer.same] is not answer:
                self.passed_over[OLDER] += 1
            elif (spot := self._spot(number, answer)) is None:
                self.passed_over[NO_BODY] += 1
            elif limit is not None and len(spots) >= limit:
                self.passed_over["pages beyond --limit"] += 1
            else:
                spots.append(spot)
        return spots

    def _spot(self, number: int, answer: Answer) -> Spot | None:
        body = None
        if answer.body:
            body = self._bodies.get(answer.body)
            if body is None:
                return None
        return Spot(number, answer.place, answer.noted if answer.has_note else None, body, answer.at)

    def find(self, request: bytes) -> Spot | None:
        """The newest answer to a request: the page, or a redirect."""
        if self._by_request is None:
            self._by_request = {}
            for number, answer in sorted(self._answers(), key=lambda one: one[1].at):
                self._by_request[answer.asked] = number, answer
                self._by_request[answer.request] = number, answer
        found = self._by_request.get(request)
        return None if found is None else self._spot(*found)
