"""Pages from WARC files, whoever wrote them: each as a task and a response, for its handler.

A file is read twice. `survey` looks at all its records and notes where answers are; the caller chooses among them.
`PageReader` then reads the chosen ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct, field

from shoal.admit.identity import host_key
from shoal.admit.sending import sent_url
from shoal.archive.http_record import read_response, status_of, type_of
from shoal.archive.records import METADATA_TYPE, Metadata
from shoal.archive.warc_source import WarcError
from shoal.archive.warc_stream import Broken, Record, WarcFile
from shoal.errors import UsageError
from shoal.model import DEFAULT_LANE, Response, Task

SUFFIXES = (".warc", ".warc.gz", ".warc.zst")
NOT_SHOWN = "answers that were given to no handler"
_HEAD = 8 * 1024  # bytes of an answer that tell its status and type
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+")
_REQUEST = (b"WARC/1.1\r\nWARC-Type: request\r\n", b"WARC/1.0\r\nWARC-Type: request\r\n")
_NOTE = 1024 * 1024
_NO_PAGES = ("image/", "audio/", "video/", "font/", "text/css", "text/javascript", "application/javascript")
_METADATA = msgspec.json.Decoder(Metadata)


class Choice(Struct, frozen=True):
    """Which answers of an archive are wanted."""

    url: str = ""  # a pattern; "": any
    job: str = ""
    handler: str = ""
    since: float = 0.0
    statuses: frozenset[int] = frozenset()  # that are given to handlers besides 2xx


class Answer(Struct):
    """Where an answer is, and what is needed to choose it."""

    place: int  # the offset of its record; -N: it is the Nth record, and has no offset
    at: float
    id: bytes  # stands for the id of its record
    body: bytes = b""  # … of the record with its body, if that is another one
    noted: int = 0  # where its metadata is, as `place`
    has_note: bool = False
    request: bytes = b""  # stands for what was asked: method, URL, body
    same: bytes = b""  # … and for which handler
    asked: bytes = b""  # as `request`, before redirects
    is_page: bool = False  # for a handler, and wanted
    why_not: str = ""


class Survey(Struct):
    """What a file holds."""

    answers: list[Answer] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    handlers: dict[str, int] = field(default_factory=dict)  # how many pages each has
    records: int = 0


def archive_files(given: Path | str) -> list[Path]:
    """The WARC files in a folder and those below it, by name; or the one file."""
    if address := _ADDRESS.match(str(given)):  # a Path has one slash
        url = f"{address[1]}://{str(given)[address.end() :]}"
        raise UsageError(f"--from {url}: copy the files to a folder on this machine first, and name that")
    place = Path(given)
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise UsageError(f"--from {place}: there is no such file or folder")
    found = sorted(path for path in place.rglob("*.warc*") if path.name.endswith(SUFFIXES) and path.is_file())
    if not found:
        raise UsageError(f"--from {place}: there are no WARC files ({', '.join(SUFFIXES)}) in it")
    return found


def key_of(*words: str) -> bytes:
    return blake2b("\n".join(words).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def request_key(url: str, variant: str = "") -> bytes:
    """What an answer is found by. `variant`: as in the metadata of the archive."""
    return key_of(variant, url)


# -- looking


class _Looking:
    """The survey of one file."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._by_id: dict[str, Answer] = {}
        self._methods: dict[str, str] = {}  # by the id of the answer, if its request came first
        self.survey = Survey()

    def add(self, record: Record) -> None:
        self.survey.records += 1
        place = record.offset if record.offset >= 0 else -self.survey.records
        if record.type in ("response", "revisit"):
            self._answer(record, place)
        elif record.type == "request":
            self._request(record)
        elif record.type == "metadata" and record.headers.get("content-type") == METADATA_TYPE:
            self._metadata(record, place)

    def _answer(self, record: Record, place: int) -> None:
        url = record.url
        if not url.startswith(("http://", "https://")):
            return  # of a name server, or about the archive itself
        answer = Answer(place, _time(record.headers.get("warc-date", "")), key_of(record.id))
        if record.type == "revisit":
            answer.body = key_of(record.headers.get("warc-refers-to", ""))
        method = self._methods.pop(record.id, "GET")
        answer.request = answer.asked = answer.same = request_key(url, "" if method == "GET" else method)
        status = status_of(record.block)
        answer.why_not = self._why_not(record, url, status, answer.at)
        answer.is_page = not answer.why_not
        self.survey.answers.append(answer)
        if record.id:
            self._by_id[record.id] = answer

    def _why_not(self, record: Record, url: str, status: int, at: float) -> str:
        """Why an answer is no page, as far as that can be told without metadata; "": it is one."""
        choice = self._choice
        if choice.url and not fnmatchcase(url, choice.url):
            return "answers to other URLs"
        if at < choice.since:
            return "answers that are older"
        if status == 304 or not status:
            return "answers without a page"
        if not 200 <= status < 300 and status not in choice.statuses:
            return "redirects" if 300 <= status < 400 else f"answers with status {status}"
        return "pictures, scripts and the like" if type_of(record.block).startswith(_NO_PAGES) else ""

    def _request(self, record: Record) -> None:
        method = record.block.partition(b" ")[0].decode("ascii", "replace")
        of = record.headers.get("warc-concurrent-to", "")
        if method == "GET" or not of:
            return
        if (answer := self._by_id.get(of)) is None:
            self._methods[of] = method
        elif not answer.has_note:
            answer.request = answer.asked = answer.same = request_key(record.url, method)

    def _metadata(self, record: Record, place: int) -> None:
        answer = self._by_id.get(record.headers.get("warc-concurrent-to", ""))
        note = note_of(record.block)
        if answer is None or note is None:
            return
        choice = self._choice
        answer.has_note, answer.noted = True, place
        answer.request = request_key(record.url, note.variant)
        answer.asked = request_key(note.asked, note.variant) if note.asked else answer.request
        answer.same = key_of(note.variant, record.url, note.handler, note.session, _text(note))
        if answer.why_not in ("answers to other URLs", "answers that are older"):
            return
        answer.why_not = ""
        if not note.page:
            answer.why_not = "redirects" if note.verdict == "moved" else NOT_SHOWN
        elif choice.job and note.job != choice.job:
            answer.why_not = "answers of other jobs"
        elif choice.handler and note.handler != choice.handler:
            answer.why_not = "answers for other handlers"
        answer.is_page = not answer.why_not
        if answer.is_page:
            handlers = self.survey.handlers
            handlers[note.handler] = handlers.get(note.handler, 0) + 1


def survey(path: Path, choice: Choice) -> Survey:
    """Raises OSError."""
    looking = _Looking(choice)
    with WarcFile(path) as file:
        for record in file.records(_looked_at, skipped=_is_get):
            if isinstance(record, Broken):
                looking.survey.broken.append(record)
            else:
                looking.add(record)
    if choice.job:  # only Shoal notes jobs
        for answer in looking.survey.answers:
            if answer.is_page and not answer.has_note:
                answer.is_page, answer.why_not = False, "answers of other jobs"
    return looking.survey


def _is_get(data: bytes) -> bool:
    """Whether a record is the request of an ordinary page, which tells nothing new: a third of all records."""
    return data.startswith(_REQUEST) and b"\r\n\r\nGET " in data


def _looked_at(headers: Mapping[str, str]) -> int:
    kind = headers.get("warc-type", "").lower()
    if kind in ("response", "revisit"):
        return _HEAD
    if kind == "request":
        return 16
    return _NOTE if kind == "metadata" and headers.get("content-type") == METADATA_TYPE else 0


def note_of(block: bytes) -> Metadata | None:
    try:
        return _METADATA.decode(block)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # of another tool


def _text(note: Metadata) -> str:
    if note.meta is None:
        return note.packed_meta
    return msgspec.json.encode(note.meta, order="deterministic").decode()


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


# -- reading


class Spot(Struct, frozen=True, array_like=True):
    """A page that is to be read: numbers of files, and places in them."""

    file: int
    place: int
    noted: int | None = None
    body: tuple[int, int] | None = None  # file and place of the record with its body
    at: float = 0.0


class ArchivedPage(Struct, frozen=True):
    task: Task
    response: Response
    asked_at: float
    record: str = ""  # the id of its record


class PageReader:
    """Reads pages at places that a survey found."""

    def __init__(self, files: Sequence[Path], *, cap: int, handler: str = "") -> None:
        self._files = files
        self._cap = cap
        self._handler = handler  # of pages that name none
        self._open: dict[int, _Placed] = {}

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open = {}

    def read(self, spot: Spot) -> ArchivedPage:
        """Raises WarcError, or OSError."""
        record = self._record(spot.file, spot.place)
        note = None
        if spot.noted is not None:
            note = note_of(self._record(spot.file, spot.noted).block)
        body = None
        if spot.body is not None:
            other = self._record(*spot.body)
            own = note is not None
            body = read_response(other.url, other.block, own=own, cap=self._cap).body
        note = note or Metadata()
        response = read_response(
            note.url or record.url,
            record.block,
            own=spot.noted is not None,
            cap=self._cap,
            body=body,
            elapsed=note.elapsed,
        )
        asked_at = note.fetched_at or spot.at
        id = record.id.strip("<>").removeprefix("urn:uuid:")
        return ArchivedPage(self._task(record.url, note), response, asked_at, id)

    def _task(self, url: str, note: Metadata) -> Task:
        return Task(
            url=url,
            handler=note.handler or self._handler,
            id=note.task,
            job=note.job,
            host=_host_of("/".join(url.split("/", 3)[:3])),
            lane=note.lane or DEFAULT_LANE,
            depth=note.depth,
            attempt=1,
            method=note.method,
            parent=note.parent,
            meta=note.task_meta(),
            hops=note.hops,
        )

    def _record(self, number: int, place: int) -> Record:
        file = self._open.get(number)
        if file is None:
            file = self._open[number] = _Placed(self._files[number])
        return file.read(place, self._cap + _NOTE)


@lru_cache(maxsize=1024)
def _host_of(origin: str) -> str:
    return host_key(sent_url(origin) or origin)


class _Placed:
    """The records of a file by their place."""

    def __init__(self, path: Path) -> None:
        self._file = WarcFile(path)
        self._path = path
        self._walk: Iterator[Record] = iter(())  # over the records of a file without members
        self._walked = 0

    def close(self) -> None:
        self._file.close()

    def read(self, place: int, most: int) -> Record:
        record = self._file.record(place, lambda _: most) if place >= 0 else self._nth(-place, most)
        if record.length > most:
            raise WarcError(f"it has {record.length:,} bytes; {most:,} are the most (setting max_body)")
        return record

    def _nth(self, number: int, most: int) -> Record:
        """In a file that is one large member, the only way is to read on from the last record, or from the start."""
        if number <= self._walked or not self._walked:
            self._walk = (one for one in self._file.records(lambda _: most) if isinstance(one, Record))
            self._walked = 0
        for record in self._walk:
            self._walked += 1
            if self._walked == number:
                return record
        raise WarcError("the file ends before it")
