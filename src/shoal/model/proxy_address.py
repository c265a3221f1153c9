"""The address of a proxy, as people write it: read, checked, and with variables of the environment.

No text of an error here holds the address: it may have a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from yarl import URL

SCHEMES = {"http": "http", "https": "https", "socks5": "socks5", "socks5h": "socks5"}
SOCKS_PORT = 1080
HOW = "write http://user:password@host:port, with https or socks5 as it may be"

_HOST = re.compile(r"\w[\w.-]*|[0-9a-fA-F:.]+")  # a name, an address
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_PASSWORD = re.compile(r":\$\{([^}]*)\}@")
_ENDS = re.compile(r"[$@/?#:\[\]\\\s]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = "PROXY"  # what the name of a variable must contain that a stored request may ask for


def parse_address(text: str) -> URL:
    """The URL of a proxy. Raises ValueError, without the address."""
    from yarl import URL

    scheme, marked, _ = text.partition("://")
    if marked and scheme.lower() not in SCHEMES:
        raise ValueError("its scheme is not http, https or socks5")
    try:
        url = URL(text if marked else f"http://{text}")
        host, port = url.host, url.explicit_port
    except (ValueError, IndexError):  # the latter for "[]@"
        raise ValueError("its host or its port (1 to 65535) cannot be read") from None
    if not host:
        raise ValueError("it names no host")
    if not _HOST.fullmatch(host) or ".." in host:
        raise ValueError("its host is no name and no address")
    if port == 0:
        raise ValueError("its port is not one of 1 to 65535")
    if url.path not in ("", "/") or url.query_string or url.fragment:
        raise ValueError("it has a path or a query, as a page has")
    return url


def is_address(text: str) -> bool:
    """Whether the proxy of a request is given by its address, and not by its name in the setting `proxies`."""
    return "://" in text or "${" in text


def check_asked(text: str) -> None:
    """Checks the proxy of a request: an address, also with ${VARIABLES}, or a name. Raises ValueError."""
    if not is_address(text):
        if not text.strip() or "@" in text:
            raise ValueError("it is neither a name in the setting proxies nor an address")
        return
    for name in _VARIABLE.findall(text):
        if not _NAME.fullmatch(name):
            raise ValueError("a ${VARIABLE} in it has a name that no variable can have")
        if _OURS not in name:
            raise ValueError(
                f"its variable {name} does not have {_OURS} in its name: a request is stored, and whoever writes to "
                "the store must not be able to read other secrets of a worker"
            )
    if _VARIABLE.fullmatch(text) is None:
        parse_address(_VARIABLE.sub("1", text))  # as good as any host, user or port


def variables_in(text: str) -> list[str]:
    return _VARIABLE.findall(text)


def filled_address(text: str, environ: Mapping[str, str]) -> str:
    """The address with its variables. A password that is one variable may have characters that end it in an address:
    such a one is percent-encoded here. Raises KeyError with the name of a missing variable."""

    def password(found: re.Match[str]) -> str:
        value = environ[found[1]]
        return f":{quote(value, safe='') if _ENDS.search(value) else value}@"

    return with_variables(_PASSWORD.sub(password, text), environ)


def with_variables(text: str, environ: Mapping[str, str], *, quoted: bool = False) -> str:
    """The text with ${NAME} replaced by the environment's variable, percent-encoded if it is to be `quoted`. Raises
    KeyError with the name of a missing one."""
    return _VARIABLE.sub(
        lambda found: quote(environ[found[1]], safe="") if quoted else environ[found[1]], text
    )
