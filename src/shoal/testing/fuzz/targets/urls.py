"""URLs: as pages write them, as people type them, as redirects name them."""

from __future__ import annotations

from shoal.admit import Admission, trap
from shoal.admit.canonical import Canonicaliser
from shoal.admit.identity import fingerprint, host_key, origin, site
from shoal.admit.sending import sent_url
from shoal.admit.typed import typed_url
from shoal.errors import UrlError
from shoal.html.pagination import largest_number, query_value, with_query_value
from shoal.model import Refused, Request, Task
from shoal.settings import Settings
from shoal.testing.fuzz.reader import as_text, lines

_SETTINGS = Settings()
_canonical = Canonicaliser(["extra", "ad_*"])
_START = Task("https://a.example/dir/page?q=1", host="a.example", parent=1, headers={"Cookie": "secret"})


def url(data: bytes) -> None:
    """A URL that is sent is sent again as it is, can be encoded, and has a host key without userinfo or blanks; its
    canonical form is its own canonical form, on the same host."""
    link, base = (as_text(part) for part in lines(data, 2))
    for found in (sent_url(link), sent_url(link, base or "https://a.example/dir/page?q=1", routes=True)):
        if found is not None:
            check_sent(found)


def check_sent(found: str) -> None:
    assert found.startswith(("http://", "https://")), found
    assert sent_url(found, routes=True) == found, "it would be sent in another way"
    canonical = _canonical(found)
    assert _canonical(canonical) == canonical, "canonicalising it again changes it"
    assert host_key(canonical) == host_key(found), "its canonical form is on another host"
    host = host_key(found)
    assert host, "no host"
    assert not set(host) & set(" \t\r\n@/?#\\%"), host
    assert host == host.lower(), host
    assert host_key(origin(found) + "/") == host, "host key and origin differ"
    assert host.endswith(site(host)), site(host)
    assert 0 <= fingerprint(canonical) < 2**63
    found.encode("ascii")
    trap(canonical, _SETTINGS)


def typed(data: bytes) -> None:
    """What a person types is a URL to send, or an error of one line that shows no password."""
    word = as_text(data)
    try:
        found = typed_url(word)
    except UrlError as error:
        check_line(str(error))
        return
    check_sent(found)


def check_line(message: str) -> None:
    assert message, "an empty message"
    assert len(message.splitlines()) == 1, message
    assert "s3cret@" not in message, "it shows a password"


def admission(data: bytes) -> None:
    """A link or a redirect becomes a task or is refused with a reason; secrets go to no other
    origin, and what is refused shows no userinfo."""
    link, base = (as_text(part) for part in lines(data, 2))
    admission = Admission(_SETTINGS, ["https://a.example/"])
    parent = _START
    for to in (
        admission.admit(Request(link, base=base or None), parent),
        admission.moved(parent, link, ("a=1",), 303),
    ):
        if isinstance(to, Refused):
            assert to.reason
            assert "@" not in to.url.partition("://")[2].partition("/")[0], "it shows userinfo"
            assert len(to.url) <= _SETTINGS.max_url_length, len(to.url)
            continue
        check_sent(to.url)
        assert to.host == host_key(to.url)
        if origin(to.url) != origin(parent.url):
            assert not to.headers, "a cookie goes to another origin"


def paging(data: bytes) -> None:
    """A parameter that was set in a URL is found there, and numbers in texts are small enough to count with."""
    name, value, url = (as_text(part) for part in lines(data, 3))
    if _is_unicode(name + value):
        assert query_value(with_query_value(url, name, value), name) == value
    query_value(url, name)
    number = largest_number(url)
    assert number is None or 0 <= number < 10**16


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
