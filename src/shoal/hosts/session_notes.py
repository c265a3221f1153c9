"""Cookies and sessions in the store: one note for each session of a job, and one for each site that set cookies.

A note is encrypted if there is a `session_key`: AES-256-GCM, with a key made by scrypt. The name of the note is part of
what is authenticated, so that nobody can put the cookies of one session into another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import scrypt
from importlib import import_module
from typing import Protocol
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.errors import SessionKeyError, SettingsError
from shoal.fetch.cookie_jar import Cookie
from shoal.frontier.protocol import Notes
from shoal.limits import SESSION_NOTE
from shoal.text import UNREADABLE

_CLEAR, _SEALED = b"\x00", b"\x01"  # the first byte of a note
_NONCE = 12  # bytes
_SALT = b"shoal session_key"  # the same for all: any process with the key must be able to read the notes


class LoginState(Struct, frozen=True, omit_defaults=True):
    """Whether a session is logged in, and who is about to log it in. Times are the frontier's."""

    at: float = 0.0  # when it was logged in; 0: it is not
    good: bool = False  # a page was fetched since that looked logged in
    proven: bool = False  # … or after an earlier login
    holder: str = ""  # who logs it in …
    until: float = 0.0  # … and for how long nobody else does
    renewals: int = 0  # how often it was logged out
    failures: int = 0  # in a row
    troubles: int = 0  # failures in a row that may pass, such as a host that does not answer
    failed_at: float = 0.0
    reason: str = ""  # of the last failure
    urls: tuple[str, ...] = ()  # the pages of the login: those who are sent there are logged out


class SessionNote(Struct, frozen=True, omit_defaults=True):
    """What all processes know about a session, or about the cookies of a site."""

    cookies: list[Cookie] = []  # the latest last
    changed_at: float = 0.0  # when they were last written, in the frontier's time
    # -- of sessions only
    generation: int = 0  # grows when the session is begun anew
    ended: bool = False  # the next request begins it anew
    proxy: str = ""  # the name of its proxy; "": none
    left: str = ""  # the proxy of the generation before
    began: float = 0.0  # the frontier's time
    requests: int = 0
    origin: str = ""  # where it began
    headers: dict[str, str] = {}  # that the login gave it
    login: LoginState = LoginState()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SessionNote).decode


def session_note_key(job: str, name: str) -> str:
    return f"session/{_part(job)}/{name}"


def site_note_key(job: str, site: str) -> str:
    """The note of the cookies that requests without a session share."""
    return f"cookies/{_part(job)}/{site}"


def session_prefixes(job: str) -> tuple[str, str]:
    """How the keys of a job's notes begin."""
    return session_note_key(job, ""), site_note_key(job, "")


def _part(job: str) -> str:
    return quote(job, safe="")


class SessionNotes:
    """Reads and writes the notes."""

    def __init__(self, notes: Notes, key: str) -> None:
        self._notes = notes
        self._seal = Seal(key)

    async def read(self, key: str) -> tuple[SessionNote, int]:
        """The note, and its version (0: there is none)."""
        found = await self._notes.note(key)
        if found is None:
            return SessionNote(), 0
        try:
            return _decode(self._seal.open(key, found.value)), found.version
        except UNREADABLE:
            return SessionNote(), found.version  # written by another version

    async def write(self, key: str, note: SessionNote, version: int) -> bool:
        """Compare-and-set. The note must have been `bounded`."""
        return await self._notes.set_note(key, self._seal.close(key, _encode(note)), version)

    async def has_sites(self, job: str) -> bool:
        """Whether there may be notes of sites."""
        return await self._notes.note(site_note_key(job, "")) is not None

    async def mark_sites(self, job: str) -> None:
        """Called before the first note of a site is written."""
        await self._notes.set_note(site_note_key(job, ""), b"", 0)


def bounded(note: SessionNote) -> tuple[SessionNote, int]:
    """The note without its oldest cookies if it is too large, and how many those are."""
    kept = _latest(note.cookies)
    return (
        (note, 0)
        if len(kept) == len(note.cookies)
        else (
            replace(note, cookies=kept),
            len(note.cookies) - len(kept),
        )
    )


def _latest(cookies: Iterable[Cookie]) -> list[Cookie]:
    kept: list[Cookie] = []
    size = 0
    for cookie in reversed(list(cookies)):
        size += len(_encode(cookie))
        if size > SESSION_NOTE:
            break
        kept.append(cookie)
    return kept[::-1]


class _Cipher(Protocol):
    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...


class Seal:
    """Encrypts and decrypts notes."""

    def __init__(self, key: str) -> None:
        self._cipher: _Cipher | None = None
        self._invalid: type[Exception] = ValueError
        if not key:
            return
        try:
            aead = import_module("cryptography.hazmat.primitives.ciphers.aead")
            self._invalid = import_module("cryptography.exceptions").InvalidTag
        except ImportError:
            raise SettingsError(
                "session_key: needs the package cryptography: pip install 'shoal[crypto]'"
            ) from None
        self._cipher = aead.AESGCM(scrypt(key.encode(), salt=_SALT, n=2**14, r=8, p=1, dklen=32))

    def close(self, name: str, data: bytes) -> bytes:
        if self._cipher is None:
            return _CLEAR + data
        nonce = os.urandom(_NONCE)
        return _SEALED + nonce + self._cipher.encrypt(nonce, data, name.encode())

    def open(self, name: str, data: bytes) -> bytes:
        if data[:1] != _SEALED:
            return data[1:]
        what = f"the cookies in the note {name!r} are encrypted"
        do = "set SHOAL_SESSION_KEY to the key that they were written with, or start the job again with --fresh"
        if self._cipher is None:
            raise SessionKeyError(f"{what}, and there is no session_key: {do}")
        try:
            return self._cipher.decrypt(data[1 : 1 + _NONCE], data[1 + _NONCE :], name.encode())
        except self._invalid:
            raise SessionKeyError(f"{what} with another session_key: {do}") from None
