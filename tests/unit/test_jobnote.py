"""The settings a job last ran by, as others read them."""

from __future__ import annotations

import msgspec

from shoal.frontier.values import JobSpec
from shoal.jobs.note import note_of, settings_of, write_note
from shoal.settings import Settings


def test_the_settings_come_back() -> None:
    settings = Settings(rate=0.25, hosts=["a.test"], depth=3, policies=["rate"])
    spec = JobSpec("job", settings=write_note(b"file:/rows.jsonl", settings))
    assert settings_of(spec) == settings
    assert note_of(spec).output == b"file:/rows.jsonl"


def test_secrets_are_not_written_down() -> None:
    secrets = {"headers": {"Authorization": "Bearer hunter2"}, "session_headers": {"me": {"X": "hunter2"}}}
    note = write_note(b"", Settings(**secrets, proxies={"dc": ["http://me:hunter2@h:1"]}))  # type: ignore[arg-type]
    assert b"hunter2" not in note
    assert settings_of(JobSpec("job", settings=note)) == Settings()


def test_what_another_version_wrote_counts_as_unknown() -> None:
    odd = msgspec.msgpack.encode({"settings": {"no_such_setting": 1}})
    for data in (b"", b"/somewhere/rows.jsonl", odd):
        assert settings_of(JobSpec("job", settings=data)) is None
