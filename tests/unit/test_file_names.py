"""Names of files: from Content-Disposition as others read it, and safe on every system."""

from __future__ import annotations

import warnings
from email.message import Message

import pytest
from aiohttp.multipart import content_disposition_filename, parse_content_disposition
from hypothesis import given
from hypothesis import strategies as st

from shoal.sink.file_names import disposition_name, file_name, safe_name


def by_email(header: str) -> str:
    message = Message()
    message["Content-Disposition"] = header
    return message.get_filename() or ""


def by_aiohttp(header: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return content_disposition_filename(parse_content_disposition(header)[1]) or ""


BOTH = [
    ("attachment", ""),
    ("inline; filename=a.pdf", "a.pdf"),
    ('attachment; filename="a b.pdf"', "a b.pdf"),
    ('attachment; filename="a;b.pdf"', "a;b.pdf"),
    ("attachment; filename*=UTF-8''na%C3%AFve%20file.txt", "naïve file.txt"),
    ("attachment; filename*=iso-8859-1'en'%A3%20rates", "£ rates"),
    ("attachment; FileName=a.pdf", "a.pdf"),
    ("attachment;filename=a.pdf;size=3", "a.pdf"),
]


@pytest.mark.parametrize(("header", "name"), BOTH)
def test_others_read_the_same(header: str, name: str) -> None:
    assert disposition_name(header) == name == by_aiohttp(header) == by_email(header)


ODD = [
    # RFC 6266: filename* is preferred, wherever it stands; email knows one of them only.
    ("attachment; filename=plain.txt; filename*=UTF-8''%E2%82%AC.txt", "€.txt"),
    ("attachment; filename*=UTF-8''%E2%82%AC.txt; filename=plain.txt", "€.txt"),
    # What is no such value counts as if it were not there.
    ("attachment; filename*=UTF-8''%FF.txt; filename=plain.txt", "plain.txt"),
    ("attachment; filename*=broken; filename=plain.txt", "plain.txt"),
    (r'attachment; filename="a \"quoted\" name.txt"', 'a "quoted" name.txt'),
    ("attachment; filename=a b.txt", "a b.txt"),  # as browsers read it
    ('attachment; filename=""', ""),
    ("attachment; filename=", ""),
    ('attachment; filename="open', ""),
    # Bytes beyond ASCII, as aiohttp gives them.
    ('attachment; filename="' + "ü.txt".encode().decode("ascii", "surrogateescape") + '"', "ü.txt"),
    ('attachment; filename="' + b"\xfc.txt".decode("ascii", "surrogateescape") + '"', "ü.txt"),
    ("attachment; filename=first.txt; filename=second.txt", "first.txt"),
    ("", ""),
    (";;;=;", ""),
]


@pytest.mark.parametrize(("header", "name"), ODD)
def test_odd_headers(header: str, name: str) -> None:
    assert disposition_name(header) == name


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\win.ini", "win.ini"),
        ("/", ""),
        ("..", ""),
        (".htaccess", "htaccess"),
        ("con", "_con"),
        ("NUL.txt", "_NUL.txt"),
        ("com1.tar.gz", "_com1.tar.gz"),
        ("console.txt", "console.txt"),
        ("a\0b\nc.txt", "abc.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("-rf", "rf"),
        ('a<b>:"c|d?e*f.txt', "a_b___c_d_e_f.txt"),
        ("trailing. . ", "trailing"),
        ("x" * 500 + ".pdf", "x" * 146 + ".pdf"),
        ("ü" * 200 + ".pdf", "ü" * 73 + ".pdf"),
        ("a." + "b" * 300, ("a." + "b" * 300)[:149]),
    ],
)
def test_names_that_are_not_safe(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@given(st.text())
def test_every_name_is_safe(name: str) -> None:
    safe = safe_name(name)
    assert safe_name(safe) == safe
    assert len(safe.encode()) <= 150
    assert not set(safe) & set('/\\\0\n<>:"|?*')
    assert safe not in (".", "..")


@given(st.text(), st.text())
def test_any_header_is_read(header: str, url: str) -> None:
    assert isinstance(disposition_name(header), str)


def test_the_url_gives_a_name() -> None:
    assert file_name("", "http://x.test/a/b%20c.pdf?x=/y.exe#z", "") == "b c.pdf"
    assert file_name("", "http://x.test/", "application/pdf") == "file.pdf"
    assert file_name("", "http://x.test/report", "application/pdf") == "report.pdf"
    assert file_name("", "http://x.test/%2e%2e%2f%2e%2e%2fpasswd", "") == "passwd"
    assert file_name("", "http://x.test/", "") == "file"
    assert file_name("named.bin", "http://x.test/other.pdf", "application/pdf") == "named.bin"
