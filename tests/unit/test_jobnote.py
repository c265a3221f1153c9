"""The settings a job last ran by, as others read them."""

from __future__ import annotations

import msgspec

from shoal.frontier.values import JobSpec
from shoal.jobs.note import note_of, settings_of, write_note
from shoal.settings import LONGEST, LONGEST_DAYS, MOST, Settings


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


def test_numbers_beyond_all_bounds_are_those_of_an_earlier_version() -> None:
    """The job goes on by its other settings, too."""
    given = {
        "handler_timeout": 1e300,
        "concurrency": 2**63,
        "keep_days": 1e9,
        "hosts": ["a.test"],
        "depth": 2**60,
    }
    spec = JobSpec("job", settings=msgspec.msgpack.encode({"settings": given}))
    assert settings_of(spec) == Settings(
        handler_timeout=LONGEST, concurrency=MOST, keep_days=LONGEST_DAYS, hosts=["a.test"], depth=MOST
    )


def test_what_another_version_wrote_counts_as_unknown() -> None:
    odd = msgspec.msgpack.encode({"settings": {"no_such_setting": 1}})
    for data in (b"", b"/somewhere/rows.jsonl", odd):
        assert settings_of(JobSpec("job", settings=data)) is None
