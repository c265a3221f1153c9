"""Secrets in code and settings files: what is one, and what only looks like it."""

from __future__ import annotations

import ast

import pytest

from shoal.develop.code_secrets import secrets_in_code, secrets_in_settings


def found(code: str) -> list[tuple[int, str]]:
    return [(secret.line, secret.kind) for secret in secrets_in_code(ast.parse(code), code)]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("PASSWORD = 'hunter22'", "a value for PASSWORD"),
        ("self.api_key: str = 'k3y-0815'", "a value for api_key"),
        ("session['token'] = 'abc123'", "a value for token"),
        ("login(user='me', password='hunter22')", "a value for password"),
        ("data = {'user': 'me', 'password': 'hunter22'}", "a value for password"),
        ("Request(url, auth=('me', 'hunter22'))", "a value for password"),
        ("headers = {'Cookie': 'sid=1; theme=dark'}", "a value for Cookie"),
        ("headers = {'X-Api-Key': 'k3y-0815'}", "a value for X-Api-Key"),
        ("os.environ.get('SHOP_PASSWORD', 'hunter22')", "a value for SHOP_PASSWORD"),
        ("proxy = 'http://me:hunter22@proxy.test:8080'", "a password in a URL"),
        ("key = '''-----BEGIN RSA PRIVATE KEY-----\nMII'''", "a private key"),
        ("x = 'AKIA' 'IOSFODNN7EXAMPLE'", "an AWS key"),
        ("x = 'ghp_' '0123456789abcdefghijABCDEFGHIJ012345'", "a GitHub token"),
        ("x = 'Bearer ' 'abcdefgh12345678'", "credentials of a request"),
    ],
)
def test_a_secret(code: str, kind: str) -> None:
    assert found(f"\n{code}") == [(2, kind)]
    assert found(f"\n{code}  # not a secret") == [] or "\n" in code


@pytest.mark.parametrize(
    "code",
    [
        "password = os.environ['PASSWORD']",
        "password = ''",
        "password = 'env:SHOP_PASSWORD'",
        "token = 'csrf_token'",
        "api_key = 'YOUR_API_KEY'",
        "password_field = 'input.pw'",
        "token = 'input[name=csrf]'",
        "secret = 'it is in the other file'",
        "proxy = 'http://me:${PROXY_PASSWORD}@proxy.test'",
        "proxy = f'http://me:{word}@proxy.test'",
        "page.xpath('//a[@href]'), page.css('a[href]')",
        "url = 'https://shop.test:8080/a@b'",
        "'''Log in with http://me:hunter22@shop.test/'''",
        "def login():\n    '''password = \"hunter22\"'''",
    ],
)
def test_no_secret(code: str) -> None:
    assert found(code) == []


def test_settings_by_their_keys() -> None:
    table = {
        "rate": 1,
        "session_key": "hunter22",
        "proxies": {
            "eu": ["env:EU", "http://me:hunter22@p.test"],
            "us": {"urls": ["http://me:${PW}@p.test"]},
        },
        "host": {"shop.test": {"headers": {"Authorization": "Basic aHVudGVyMjI="}}},
    }
    assert [secret.key for secret in secrets_in_settings(table)] == [
        "session_key",
        "proxies.eu",
        "host.shop.test.headers.Authorization",
    ]
