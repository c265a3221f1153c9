"""Messages of errors are one line, whatever they repeat."""

from __future__ import annotations

import pytest

from shoal.admit.sending import typed_url
from shoal.errors import ShoalError, StoreError, UrlError


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain, with a café", "plain, with a café"),
        ("two\nlines", "two\\nlines"),
        ("a\x85b\u2028c", "a\\x85b\\u2028c"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("half \ud800", "half \\ud800"),
        ("", ""),
    ],
)
def test_what_would_begin_a_line_or_command_a_terminal_is_written_as_an_escape(
    given: str, shown: str
) -> None:
    assert str(StoreError(given)) == shown
    assert issubclass(StoreError, ShoalError)


def test_a_word_that_is_repeated_cannot_break_the_line() -> None:
    with pytest.raises(UrlError) as caught:
        typed_url("ftp://a\x85b/")
    assert len(str(caught.value).splitlines()) == 1
