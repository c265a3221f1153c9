"""The bytes of a request."""

from __future__ import annotations

import pytest

from shoal.fetch.failures import InvalidUrlError
from shoal.fetch.http_request import split_url


@pytest.mark.parametrize(
    "url",
    [
        *("http://a.test?b=1\r\nX: 1", "http://a.test?b=/ HTTP/1.0", "http://a.test\r\n.b.test/"),
        *("http://a.test\0/", "http://a.test /", "http://a.test:80\n/"),
    ],
)
def test_a_url_that_would_smuggle(url: str) -> None:
    with pytest.raises(InvalidUrlError):
        split_url(url)
