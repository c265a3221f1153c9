"""Settings from all their layers: defaults < shoal.toml < the spider < environment SHOAL_* < flags.

A later layer replaces a key's value. Only tables for hosts are merged, key by key, so that a spider with one host does
not undo an operator's tables for eight hundred.

Every value is checked where it is read, so that an error names the key, its source and what is allowed.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from shoal.errors import SettingsError
from shoal.events import event
from shoal.limits import HOST_TABLES
from shoal.settings import ARGUMENT_VARIABLE, HOST_KEYS, POOL_KEYS, HostSettings, PoolSettings, Settings
from shoal.settings.typed_text import common_bound, describe, parse
from shoal.text import unreadable_url

DEFAULT_FILE = Path("shoal.toml")
PREFIX = "SHOAL_"
HOST, PROXIES = "host", "proxies"
# Where things are and what they are called: read by the command line, not settings of a crawl.
NOT_SETTINGS = frozenset(
    {
        "SHOAL_STORE",
        "SHOAL_CONFIG",
        "SHOAL_JOB",
        "SHOAL_LOG",
        "SHOAL_LOG_FORMAT",
        "SHOAL_METRICS",
        "SHOAL_DASHBOARD_TOKEN",
        "SHOAL_GUARDIAN",
        "SHOAL_REDIS_USERNAME",
        "SHOAL_REDIS_PASSWORD",
    }
)

# Variables that Kubernetes sets in every container for a service named shoal or shoal-….
_SERVICE = re.compile(
    r"SHOAL_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_SERVICE_ADDRESS = re.compile(r"(?:tcp|udp|sctp)://.+")  # the value of SHOAL_PORT
_ALL = "docs/settings.md lists them all"
_MOST_TOLD = 100
_told: set[str] = set()  # unknown variables that were reported

# RFC 9110: a token, and no control characters. Letters beyond ASCII are sent as UTF-8.
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udc7f\udd00-\udfff]*")
# Settings of a pool that name a header, or begin the names of headers; "" is none.
_NAMES = frozenset({"header_prefix", "status_header", "url_header", "cost_header"})

Types = Mapping[str, Any]


def _given(type_: Any) -> Any:
    """A type without None."""
    rest = [one for one in get_args(type_) if one is not type(None)]
    return rest[0] if get_origin(type_) in (Union, UnionType) and len(rest) == 1 else type_


_TYPES: Types = {field.name: field.type for field in msgspec.structs.fields(Settings)}
_HOST_TYPES: Types = {
    field.name: _given(field.type)
    for field in msgspec.structs.fields(HostSettings)
    if field.name in HOST_KEYS
}
_POOL_TYPES: Types = {field.name: _given(field.type) for field in msgspec.structs.fields(PoolSettings)}
_VARIABLES: Mapping[str, str] = {PREFIX + name.upper(): name for name in _TYPES}


def load(
    config_file: Path | None,
    spider: Mapping[str, object],
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    *,
    flag: str = "flag",
) -> Settings:
    """One Settings from all layers; a later layer replaces a key's value. A flag that is None was not given. `flag` is
    what messages call one."""
    given: dict[str, Any] = {}
    for key, value, source in _layers(config_file, spider, environ, flags, flag):
        if key == HOST:
            given[key] = _with_tables(given.get(key, {}), value, source.removesuffix(f": {HOST}"))
        elif key == PROXIES and isinstance(value, dict):
            given[key] = {name: _pool(name, pool, source) for name, pool in value.items()}
        else:
            given[key] = _checked(key, value, source)
    return Settings(**given)


def read_host_settings(pairs: Mapping[str, str], source: str) -> HostSettings:
    """A host's settings from key=value as typed."""
    given: dict[str, Any] = {}
    for key, text in pairs.items():
        where = f"{source}: {_known_of_host(key, source)}"
        given[key] = _checked(key, _parsed(key, text, where, _HOST_TYPES), where, _HOST_TYPES)
    return _plain(given)


def allowed(key: str) -> str:
    """What may be written for a setting: "a whole number, at least 1"."""
    return describe(inspect.type_info(_TYPES[key]))


def _layers(
    config_file: Path | None,
    spider: Mapping[str, object],
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    flag: str,
) -> Iterator[tuple[str, object, str]]:
    path = config_file or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    if path is not None:
        for key, value in _read_toml(path).items():
            yield _known(key, str(path)), value, f"{path}: {key}"
    for key, value in spider.items():
        yield _known(key, "spider"), value, f"spider: {key}"
    for variable, text in environ.items():
        if (
            not variable.startswith(PREFIX)
            or variable.startswith(ARGUMENT_VARIABLE)
            or variable in NOT_SETTINGS
        ):
            continue
        if (known := _VARIABLES.get(variable)) is not None:
            yield known, _parsed(known, text, variable), variable
        else:
            _tell_unknown(variable, text)
    for key, value in flags.items():
        if value is not None:
            source = f"{flag} {key}"
            key = _known(key, flag)
            yield key, _parsed(key, value, source) if isinstance(value, str) else value, source


def _read_toml(path: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be read ({error.strerror}); check the path or leave it out"
        ) from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        raise SettingsError(f"{path}: is not valid TOML: {error}") from None


def _known(key: str, source: str) -> str:
    if key in _TYPES:
        return key
    raise SettingsError(f"{source}: {key!r} is not a setting; {_suggestion(key, list(_TYPES))}")


def _tell_unknown(variable: str, text: str) -> None:
    """Reports a variable once. Not an error: others may have set it, and the next version may know it."""
    by_cluster = _SERVICE.fullmatch(variable) or (
        variable.endswith("_PORT") and _SERVICE_ADDRESS.fullmatch(text)
    )
    if variable not in _told and not by_cluster and len(_told) < _MOST_TOLD:
        _told.add(variable)
        shown = variable.encode(errors="replace").decode()  # a name may be any bytes
        event("variable_unknown", variable=shown, hint=_meant(variable))


def _meant(variable: str) -> str:
    # Compared without the prefix, which makes all of them similar.
    names = {name.removeprefix(PREFIX): name for name in (*_VARIABLES, *NOT_SETTINGS)}
    close = difflib.get_close_matches(variable.removeprefix(PREFIX).upper(), names, n=1, cutoff=0.7)
    return f"did you mean {names[close[0]]!r}?" if close else _ALL


def _suggestion(word: str, words: list[str]) -> str:
    close = difflib.get_close_matches(word, words, n=1)
    return f"did you mean {close[0]!r}?" if close else _ALL


# -- tables for hosts


def _with_tables(known: Mapping[str, HostSettings], value: object, source: str) -> dict[str, HostSettings]:
    if not isinstance(value, dict):
        raise SettingsError(f'{source}: {HOST} must be {allowed(HOST)}: [host."shop.example"]')
    tables = dict(known)
    for name, given in value.items():
        where = f'{source}: [host."{_short_name(name)}"]'
        pattern = _pattern(str(name), where)
        table = _table(given, where, source)
        tables[pattern] = _one_table(table, tables[pattern]) if pattern in tables else table
    if len(tables) > HOST_TABLES:
        raise SettingsError(f"{source}: {len(tables):,} tables for hosts; at most {HOST_TABLES:,} are taken")
    return tables


def _pattern(name: str, where: str) -> str:
    from shoal.policy.host_table import host_pattern

    try:
        return host_pattern(name)
    except ValueError as error:
        raise SettingsError(f"{where} is not a host: {error}") from None


def _table(given: object, where: str, source: str) -> HostSettings:
    if not isinstance(given, dict):
        raise SettingsError(f"{where} must be a table: {', '.join(HOST_KEYS)}")
    table: dict[str, Any] = {}
    for key, value in given.items():
        table[key] = _checked(_known_of_host(key, where), value, f"{where} {key}", _HOST_TYPES)
    return _plain(table, where=source)


def _plain(given: dict[str, Any], where: str = "") -> HostSettings:
    if given.get("pool") == "":  # none, as in the setting of that name
        given["pool"] = "direct"
    return HostSettings(**given, where=where)


def _one_table(later: HostSettings, earlier: HostSettings) -> HostSettings:
    from shoal.policy.host_table import over

    return msgspec.structs.replace(over(later, earlier), where=f"{earlier.where}, {later.where}")


def _known_of_host(key: str, where: str) -> str:
    if key in _HOST_TYPES:
        return key
    close = difflib.get_close_matches(key, _HOST_TYPES, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    raise SettingsError(
        f"{where}: {_short(key)} is not a setting of a host; {meant}there are {', '.join(HOST_KEYS)}"
    )


def _short_name(name: object) -> str:
    text = unreadable_url(str(name))  # it may be a URL
    return text if len(text) <= 100 else f"{text[:100]}…"


# -- pools of proxies


def _pool(name: object, given: object, source: str) -> list[str] | PoolSettings:
    """A list of addresses, or a table. Their values are never shown: addresses have passwords."""
    where = f"{source.removesuffix(f': {PROXIES}')}: [proxies.{_short_name(name)}]"
    if isinstance(given, str):
        given = [given]
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return given
    if isinstance(given, PoolSettings):
        given = msgspec.to_builtins(given)
    if not isinstance(given, dict):
        raise SettingsError(f"{where} must be a list of addresses, or a table: {', '.join(POOL_KEYS)}")
    table: dict[str, Any] = {}
    for key, value in given.items():
        if key not in _POOL_TYPES:
            close = difflib.get_close_matches(key, _POOL_TYPES, n=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            raise SettingsError(
                f"{where}: {_short(key)} is not a setting of a pool; {meant}there are {', '.join(POOL_KEYS)}"
            )
        table[key] = _checked(key, value, f"{where} {key}", _POOL_TYPES)
    return PoolSettings(**table)


# -- checking


def _checked(key: str, value: object, source: str, types: Types = _TYPES) -> Any:
    try:
        result: object = msgspec.convert(value, types[key])
    except msgspec.ValidationError:
        raise _refusal(key, value, source, types) from None
    if isinstance(result, float) and not math.isfinite(result):
        raise _refusal(key, value, source, types)
    _check_headers(key, result, source)
    return result


def _refusal(key: str, value: object, source: str, types: Types) -> SettingsError:
    info = inspect.type_info(types[key])
    # Only wrong numbers and switches are shown: headers and the like may hold secrets.
    plain = isinstance(info, inspect.IntType | inspect.FloatType | inspect.BoolType | inspect.UnionType)
    what = f"{_short(value)} is not allowed" if plain else "this value is not allowed"
    most = common_bound(info)
    if most is not None and any(most < number < math.inf for number in _numbers(value)):
        return SettingsError(f"{source}: {what}; {key} must be at most {most:,}")
    return SettingsError(f"{source}: {what}; {key} must be {describe(info)}")


def _numbers(value: object) -> list[float]:
    """The number that was given, or those in a list or a table."""
    if isinstance(value, dict):
        value = list(value.values())
    given = value if isinstance(value, list | tuple) else [value]
    return [one for one in given if isinstance(one, int | float)]


def _check_headers(key: str, value: Any, source: str) -> None:
    """Raises an error if a header cannot be sent. It names the header, never its value. Otherwise the first page would
    meet it, in every process."""
    if key == "headers":
        for name, text in value.items():
            _check_name(name, source)
            _check_value(text, source, f"the value of {_short(name)}")
    elif key == "session_headers":
        for session, headers in value.items():
            _check_headers("headers", headers, f"{source}: session {_short(session)}")
    elif key == "user_agent":
        _check_value(value, source, "its value")
    elif key in _NAMES and value:
        _check_name(value, source)


def _check_name(name: str, source: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        shown = _short(name.partition(":")[0])  # behind it may be the value
        raise SettingsError(
            f"{source}: {shown} is not the name of a header: one has ASCII letters, digits, - and _"
        )


def _check_value(text: str, source: str, what: str) -> None:
    if "\n" in text or "\r" in text:
        raise SettingsError(
            f"{source}: {what} has a line end, as text read from a file has one; no header may have that"
        )
    if not _HEADER_VALUE.fullmatch(text):
        raise SettingsError(f"{source}: {what} has a control character or half a character; no header may")


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no more than 4,300 digits
        return "a number with thousands of digits"
    return text if len(text) <= 40 else f"{text[:40]}…"


# -- text from the environment and from -s key=value


def _parsed(key: str, text: str, source: str, types: Types = _TYPES) -> object:
    try:
        return parse(inspect.type_info(types[key]), text.strip())
    except (ValueError, RecursionError):
        raise _refusal(key, text, source, types) from None
