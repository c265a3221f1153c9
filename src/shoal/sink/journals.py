"""Journals of outputs on this machine: what a format implements, and several of them as one.

Several outputs grow together: a page is settled when all of them have its rows. The store knows one position, the
length of a log beside the outputs. Each line of that log says how far each output was at one commit.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from shoal.errors import SinkError
from shoal.frontier.protocol import Journal
from shoal.model import Row
from shoal.sink.jsonl import JsonLines, StdoutJournal
from shoal.sink.outputs import Place, by_place, make_folders, read_output
from shoal.sink.ownership import FileClaim, Owner, claim, folder_of, owner_of

_LINE = 1 << 10  # bytes of the log that are read first to find its last line


@runtime_checkable
class LocalJournal(Journal, Protocol):
    """A journal that is a file on this machine, which several processes may write in turn."""

    owner: Owner | None  # the job that claimed it

    @property
    def path(self) -> Path: ...

    def write(self, committed: int, rows: Sequence[Row]) -> int:
        """`append` without making it durable."""
        ...

    def sync(self) -> None: ...

    def fileno(self) -> int:
        """A file to lock."""
        ...

    def check(self, committed: int) -> None:
        """Checks that it can be opened and is complete. Changes nothing, so others may be writing."""
        ...

    def finish(self, committed: int) -> None:
        """Makes the file what its readers expect: the job has ended, or stops for now. It may be called again, by
        several processes, and the job may go on later."""
        ...

    def read(self, committed: int) -> Iterator[dict[str, Any]]:
        """The rows that are committed."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Pausing(Protocol):
    """A journal with something to do when a run ends before its job."""

    def pause(self, committed: int) -> None:
        """Shows people what is committed, if that is quick. Others may be writing."""
        ...


def take(journal: LocalJournal, asked: FileClaim) -> None:
    """Claims the file for a job, and opens it: if somebody replaces it later, the new one is not ours."""
    if isinstance(journal, Several):
        journal.claim(asked)
        return
    claim(journal.path, asked)
    journal.owner = asked.owner
    journal.check(asked.committed or 0)


class Several:
    """Several outputs as one journal."""

    def __init__(
        self, log: Path, key: str, places: Sequence[Place], make: Callable[[Place], Journal]
    ) -> None:
        self.key = key
        self.places = places
        self.owner: Owner | None = None
        self._log = JsonLines(log, key)
        self._make = make
        self._journals: dict[str, Journal] = {}
        self._dirty: dict[str, LocalJournal] = {}  # written, and not durable yet
        self.remote = False  # some are written over the network
        self.archive: Path | None = None  # the folder that the files of an archive are written to

    def __repr__(self) -> str:
        return f"<Several {', '.join(place.text for place in self.places)}>"

    @property
    def path(self) -> Path:
        return self._log.path

    def fileno(self) -> int:
        return self._log.fileno()

    def append(self, committed: int, rows: Sequence[Row]) -> int:
        end = self.write(committed, rows)
        self.sync()
        return end

    def write(self, committed: int, rows: Sequence[Row]) -> int:
        positions = dict(self.positions(committed))
        if not rows:
            self._cut(positions)
            return self._log.write(committed, ())
        for place, its_rows in by_place(self.places, rows).items():
            name = self._name(place)
            positions[name] = self._write(place, positions.get(name, 0), its_rows)
        line = msgspec.json.encode(positions) + b"\n"
        return self._log.write(committed, [Row(line)])

    def _write(self, place: Place, committed: int, rows: Sequence[Row]) -> int:
        journal = self._journal(place)
        if not isinstance(journal, LocalJournal):
            return journal.append(committed, rows)
        self._dirty[journal.key] = journal
        return journal.write(committed, rows)

    def _cut(self, positions: Mapping[str, int]) -> None:
        """Undoes what is not committed, also in files that hold nothing else."""
        for place in self._present(positions):
            if place.kind != "stdout":
                self._write(place, positions.get(self._name(place), 0), ())

    def _present(self, positions: Mapping[str, int]) -> list[Place]:
        """The places that have rows, or may have some that a process left which died before the commit."""
        found = {name: self._place(name) for name in positions}
        for place in self.places:
            for one in self._left(place) if place.is_template else [place]:
                if one.kind != "file" or one.path.exists():
                    found.setdefault(self._name(one), one)
        return list(found.values())

    def _left(self, place: Place) -> Iterator[Place]:
        """Files of ours, for any kind of item."""
        for path in _matching(place):
            if owner_of(path) == self.owner is not None:
                yield replace(place, target=str(path))

    def _journal(self, place: Place) -> Journal:
        name = self._name(place)
        if name not in self._journals:
            from shoal.sink.objects.in_objects import InObjects

            make_folders([place])
            journal = self._make(place)
            self._check_apart(place, journal)
            if isinstance(journal, LocalJournal) and self.owner is not None:
                # It may be a file of a kind of items that comes for the first time: only the others are claimed.
                claim(journal.path, FileClaim(self.owner))
                journal.owner = self.owner
            elif isinstance(journal, InObjects) and self.owner is not None:
                journal.claim(FileClaim(self.owner))
            self._journals[name] = journal
        return self._journals[name]

    def _check_apart(self, place: Place, journal: Journal) -> None:
        """{item} may stand for a name that an output for other items has."""
        if isinstance(journal, LocalJournal):
            path = os.path.realpath(journal.path)
            for other in self._journals.values():
                if isinstance(other, LocalJournal) and os.path.realpath(other.path) == path:
                    raise SinkError(
                        f"two outputs of this job are the same file, {place.target}: start again with --fresh, and"
                        " another name for one of them"
                    )

    def _name(self, place: Place) -> str:
        """By which the log knows it: a file by its path from the log, wherever the folder is and whoever names it."""
        if not place.is_here:
            return place.text
        target = os.path.relpath(os.path.realpath(place.target), os.path.realpath(self.path.parent))
        return replace(place, target=target).text

    def _place(self, name: str) -> Place:
        [place] = read_output([name], stored=True)
        if place.is_here:
            place = replace(place, target=os.path.join(self.path.parent, place.target))
        return place

    def known(self, kind: str) -> list[Journal]:
        """The journals of places of this kind, as far as they are known before the first row comes."""
        return [self._journal(one) for one in self.places if one.kind == kind and not one.is_template]

    def tend(self) -> int:
        """Bytes that wait to be uploaded; see `Spool.tend`."""
        tends = [getattr(journal, "tend", None) for journal in self._journals.values()]
        return sum(tend() for tend in tends if tend is not None)

    def positions(self, committed: int) -> Mapping[str, int]:
        """How far each output is when so much of the log is committed."""
        return self._read_log(committed) if committed else {}

    def _read_log(self, committed: int) -> Mapping[str, int]:
        """Its last line. It is read each time: another process may have written one of the same length."""
        data = b""
        while len(data) < committed and data.count(b"\n") < 2:
            length = min(committed, max(_LINE, 2 * len(data)))
            data = os.pread(self._log.fileno(), length, committed - length)
            if len(data) < length:  # it is shorter
                data = b""
                break
        try:
            return msgspec.json.decode(data[:-1].rpartition(b"\n")[2], type=dict[str, int])
        except ValueError:
            raise SinkError(
                f"{self.path} does not say how far the outputs of this job are: it was changed or removed; restore it"
                " or start again with --fresh"
            ) from None

    def sync(self) -> None:
        while self._dirty:
            self._dirty.popitem()[1].sync()
        self._log.sync()

    def claim(self, asked: FileClaim) -> None:
        for place in self.places:
            if place.kind == "file" and not place.is_template:
                claim(place.path, asked)
        take(self._log, asked)
        self.owner = asked.owner
        self.check(asked.committed or 0)

    def files(self, job: str) -> list[Path]:
        """All files that the outputs have or may have: those of a job of that name."""
        known = [place.path for place in self.places if place.kind == "file" and not place.is_template]
        matching = [path for place in self.places if place.is_template for path in _matching(place)]
        mine = [path for path in matching if (owner := owner_of(path)) is not None and owner.job == job]
        return [self.path, *known, *mine]

    def check(self, committed: int) -> None:
        self._log.check(committed)
        for journal, position in self._parts(committed):
            journal.check(position)

    def finish(self, committed: int) -> None:
        from shoal.sink.objects.object_parts import ObjectParts

        for journal, position in self._parts(committed):
            journal.finish(position)
        for name, position in self.positions(committed).items():
            if isinstance(part := self._journal(self._place(name)), ObjectParts):
                part.finish(position)
        known = self.positions(committed)
        for place in self.places:  # a file that was asked for is there, also if no rows came
            is_asked = place.kind == "file" and not place.is_template and not place.is_rest
            if is_asked and self._name(place) not in known:
                empty = self._journal(place)
                assert isinstance(empty, LocalJournal)
                empty.finish(0)

    def pause(self, committed: int) -> None:
        for journal, position in self._parts(committed):
            if isinstance(journal, Pausing):
                journal.pause(position)

    def read(self, committed: int) -> Iterator[dict[str, Any]]:
        """The rows of all outputs: those that several places take come several times."""
        for journal, position in self._parts(committed):
            yield from journal.read(position)

    def _parts(self, committed: int) -> Iterator[tuple[LocalJournal, int]]:
        for name, position in self.positions(committed).items():
            if isinstance(journal := self._journal(self._place(name)), LocalJournal):
                yield journal, position

    def forget(self) -> None:
        """Deletes the log: nobody will go on with these outputs."""
        for name in (self.path.name, f".{self.path.name}.id"):
            self.path.with_name(name).unlink(missing_ok=True)

    def close(self) -> None:
        for journal in self._journals.values():
            if isinstance(journal, LocalJournal | StdoutJournal):
                journal.close()
        self._journals.clear()
        self._log.close()


def _matching(place: Place) -> list[Path]:
    """The files that a template may mean, also those whose rows are all in a spool so far."""
    if place.kind != "file":
        return []
    folder, name = os.path.split(place.target)
    spool = os.path.join(folder, folder_of(Path(name)).name)
    spools = [Path(found) for found in glob.glob(_pattern(spool), include_hidden=True)]
    names = [found.with_name(found.name.removeprefix(".").removesuffix(".parts")) for found in spools]
    return sorted({*map(Path, glob.glob(_pattern(place.target))), *names})


def _pattern(template: str) -> str:
    return "*".join(glob.escape(part) for part in template.split("{item}"))
