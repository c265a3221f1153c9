"""Arguments of spiders: `-a category=books` for a function that makes a spider.

    def spider(category: str, limit: int = 10) -> Spider: ...

An argument is text, and the signature says what it is read as. It is written NAME=VALUE everywhere: on the command
line, in the note of a job, and for worker processes. Arguments that are secret are never written down: only where they
are, as env:NAME or file:PATH.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.inspect import (
    AnyType,
    FrozenSetType,
    ListType,
    Metadata,
    SetType,
    StrType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from shoal.errors import SpiderError, UsageError
from shoal.limits import ARGUMENTS
from shoal.settings.typed_text import describe, parse
from shoal.spider.spider import Spider, place_of_code
from shoal.text import MASK, command, without_secrets


class _SecretMark:
    pass


Secret: TypeAlias = Annotated[str, _SecretMark]
"""The type of an argument of a spider that must not be written down, such as a password."""

_REQUIRED: Any = inspect.Parameter.empty
# Names of arguments that are secret, whatever their type: api_key, accessToken, password …
_SECRET_NAME = re.compile(
    r"pass(w|phrase)|pwd|secret|token|credential|cookie|authorization|bearer|(api|access|private|auth|signing)_?key",
    re.I,
)
_KEY = re.compile(r"[\w-]+:\w+(\s|\Z)")
_LONGEST_KEY = 5 * ARGUMENTS  # with quotes; a store may hold anything
_REFERENCE = re.compile(r"(env|file):")
_READABLE = 24  # characters of a job's name that tell its arguments
_MANY = (ListType, SetType, FrozenSetType, VarTupleType)


class Parameter(Struct, frozen=True):
    """A parameter of a factory."""

    name: str
    hint: Any
    info: Type
    default: Any = _REQUIRED
    text: str = ""  # what it means
    secret: bool = False

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def allowed(self) -> str:
        """What may be given: "a whole number"."""
        return describe(self.info)

    def read(self, texts: Sequence[str]) -> Any:
        """The value that was given: once, or several times for a list."""
        many = isinstance(self.info, _MANY)
        if self.secret:
            texts = [_found(self.name, text) for text in texts]
        if len(texts) > 1 and not many:
            raise UsageError(f"-a {self.name} is given {len(texts)} times: give it once")
        try:
            plain = [parse(self.info, text) for text in texts]
            value: Any = [one for part in plain for one in _listed(part)] if many else plain[0]
            value = msgspec.convert(value, self.hint, strict=False, dec_hook=_path)
            as_text(value)  # what cannot be written down, such as a number that is none, cannot be noted
            return value
        except (ValueError, RecursionError, msgspec.ValidationError):
            shown = MASK if self.secret else texts[0][:40]
            raise UsageError(f"-a {self.name}={shown}: {self.name} must be {self.allowed}") from None


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _path(kind: type, value: Any) -> Any:
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    raise ValueError(f"{kind.__name__} cannot be read from text")


class Factory(Struct, frozen=True):
    """A function that makes a spider, and its address."""

    function: Callable[..., Any]
    address: str  # FILE.py:name, for messages

    @property
    def name(self) -> str:
        """What the notes of jobs call it: the same on all machines, wherever the file is."""
        path, _, function = self.address.rpartition(":")
        stem = Path(path).stem if path.endswith(".py") else path.rpartition(".")[2]
        return f"{stem}:{function}"

    def parameters(self) -> dict[str, Parameter]:
        signature = inspect.signature(self.function)
        hints = self._hints(signature)
        return {
            name: _parameter(name, hints.get(name), one.default, self.address)
            for name, one in signature.parameters.items()
            if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        }

    def _hints(self, signature: inspect.Signature) -> dict[str, Any]:
        """The types of the parameters. That of the result may be imported for type checkers only."""
        given = {
            name: one.annotation
            for name, one in signature.parameters.items()
            if one.annotation is not _REQUIRED
        }
        names = getattr(inspect.unwrap(self.function), "__globals__", {})
        try:
            return get_type_hints(SimpleNamespace(__annotations__=given), names, names, include_extras=True)
        except Exception as error:
            where = place_of_code(self.function) or self.address
            raise SpiderError(f"{where}: the types of its arguments cannot be read: {error}") from None

    def read(self, pairs: Sequence[str]) -> Arguments:
        """What the function is called with."""
        parameters = self.parameters()
        texts = _by_name(pairs)
        self._check_names(texts, parameters)
        given = {name: one for name, one in parameters.items() if name in texts}
        values = {name: one.read(texts[name]) for name, one in given.items()}
        # One that is given as its default makes no other spider.
        told = [
            one for name, one in given.items() if one.secret or one.required or values[name] != one.default
        ]
        noted = {one.name: _noted(one, values[one.name], texts[one.name]) for one in told}
        return Arguments(
            values,
            MadeBy(
                self.name,
                tuple(f"{name}={text}" for name, (text, _) in noted.items()),
                secret=tuple(one.name for one in told if one.secret),
                kept_back=tuple(name for name, (_, whole) in noted.items() if not whole),
            ),
            tuple(str(part) for one in told if one.secret for part in _listed(values[one.name])),
        )

    def _check_names(self, texts: Mapping[str, Sequence[str]], parameters: Mapping[str, Parameter]) -> None:
        for name in texts:
            if name not in parameters:
                near = difflib.get_close_matches(name, parameters, 1)
                known = f"it has {', '.join(parameters)}" if parameters else "it has none"
                meant = f"did you mean {near[0]!r}? {known}" if near else known
                raise UsageError(f"{self.address} has no argument {name!r}; {meant}")
        missing = [name for name, one in parameters.items() if one.required and name not in texts]
        if missing:
            wanted = " ".join(f"-a {name}=…" for name in missing)
            raise UsageError(
                f"{self.address} needs {wanted}; {command(f'crawl {self.address} --help-args')} lists them"
            )


def returns_spider(function: Callable[..., Any]) -> bool:
    """Whether the function says so. The name may be imported for type checkers only."""
    result = getattr(function, "__annotations__", {}).get("return")
    return result is Spider or (
        isinstance(result, str) and result.rpartition(".")[2].strip("'\"") == "Spider"
    )


class MadeBy(Struct, frozen=True):
    """The factory that made a spider, and with which arguments: as a job notes them."""

    factory: str  # its name
    arguments: tuple[str, ...] = ()  # NAME=VALUE, without those that are as by default
    secret: tuple[str, ...] = ()  # names of those that are secret: they make no other job
    kept_back: tuple[str, ...] = ()  # names of those whose values are not noted

    @property
    def key(self) -> str:
        """What jobs call the spider: `shop:spider category=books`. A worker makes it from that."""
        return shlex.join([self.factory, *self.arguments])

    @property
    def identity(self) -> tuple[str, ...]:
        """The arguments that make another job."""
        return self.without_secret(self.arguments)

    def without_secret(self, pairs: Sequence[str]) -> tuple[str, ...]:
        """In alphabetical order: parameters may change their places."""
        return tuple(sorted(pair for pair in pairs if pair.partition("=")[0] not in self.secret))


class Arguments(Struct, frozen=True):
    """What a factory is called with."""

    values: dict[str, Any]
    made_by: MadeBy
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Arguments({' '.join(self.made_by.arguments)})"


def spider_key(spider: Spider) -> str:
    """What jobs call the spider."""
    return spider.name if spider.made_by is None else spider.made_by.key


def read_key(key: str) -> tuple[str, tuple[str, ...]]:
    """The factory and the arguments in what a job calls its spider; ("", ()) for a spider that was not made by one."""
    if not _KEY.match(key) or len(key) > _LONGEST_KEY:
        return "", ()
    try:
        factory, *pairs = shlex.split(key)
    except ValueError:
        return "", ()
    return factory, tuple(pairs)


def job_name(spider: Spider) -> str:
    """The name of the spider's job, if none is given: `shop-books-7ebc4d90`. Other arguments are another job."""
    own = spider.made_by.identity if spider.made_by is not None else ()
    if not own:
        return spider.name
    values = " ".join(pair.partition("=")[2] for pair in own)
    short = re.sub(r"\W+", "-", values, flags=re.ASCII)[:_READABLE].strip("-")
    digest = hashlib.sha256("\n".join(own).encode("utf-8", "replace")).hexdigest()[:8]
    return "-".join(part for part in (spider.name, short, digest) if part)


def _by_name(pairs: Sequence[str]) -> dict[str, list[str]]:
    """The texts of each argument. The value is never quoted in a message: it may be a secret."""
    texts: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"-a {name[:40]}: write it as name=value, for example -a category=books")
        if not text.isascii() and not _is_utf8(text):
            raise UsageError(f"-a {name[:40]}: its value is not UTF-8 text")
        texts.setdefault(name.strip(), []).append(text)
    length = sum(map(len, pairs))
    if length > ARGUMENTS:
        raise UsageError(
            f"-a: arguments of {length:,} characters, at most {ARGUMENTS:,} are noted with a job: put them in a file, "
            "and give its path"
        )
    return texts


def _is_utf8(text: str) -> bool:
    """Bytes of the command line that are not, are lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parameter(name: str, hint: Any, default: Any, where: str) -> Parameter:
    if hint is None:  # without a type: that of the default
        hint = type(default) if isinstance(default, bool | int | float) else str
    notes = get_args(hint)[1:] if hasattr(hint, "__metadata__") else ()
    said = [note for note in notes if isinstance(note, str)]
    said += [note.description for note in notes if isinstance(note, msgspec.Meta) and note.description]
    try:
        info = type_info(hint)
        if isinstance(info, Metadata):
            info = info.type
    except Exception as error:
        raise SpiderError(f"{where}: argument {name!r} has a type that cannot be read: {error}") from None
    # A number such as max_tokens is none.
    secret = _is_marked(hint) or (_is_text(info) and _SECRET_NAME.search(name) is not None)
    return Parameter(name, hint, info, default, said[0] if said else "", secret)


def _is_marked(hint: Any) -> bool:
    """Whether it is a Secret, or may be one: `Secret | None`, `list[Secret]`."""
    return _SecretMark in getattr(hint, "__metadata__", ()) or any(
        _is_marked(part) for part in get_args(hint)
    )


def _is_text(info: Type) -> bool:
    if isinstance(info, UnionType):
        return any(_is_text(one) for one in info.types)
    return _is_text(info.item_type) if isinstance(info, _MANY) else isinstance(info, StrType | AnyType)


def _noted(parameter: Parameter, value: Any, texts: Sequence[str]) -> tuple[str, bool]:
    """The value as text, and whether it can be read again from that: it cannot if a secret was left out."""
    if parameter.secret:
        where_it_is = len(texts) == 1 and _REFERENCE.match(texts[0]) is not None
        return (texts[0] if where_it_is else MASK), where_it_is
    text = as_text(value)
    shown = without_secrets(text)
    return shown, shown == text


def as_text(value: Any) -> str:
    """A value as it is written after NAME=."""
    plain = msgspec.to_builtins(value, enc_hook=str)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, allow_nan=False)


def _found(name: str, text: str) -> str:
    """A secret, from where it is: env:NAME, file:PATH, or the text itself."""
    kind, _, where = text.partition(":")
    if kind == "env":
        if where not in os.environ:
            raise UsageError(f"-a {name}={text}: there is no variable {where} in the environment; set it")
        return os.environ[where]
    if kind == "file":
        try:
            return Path(where).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"-a {name}={text}: cannot be read: {error}") from None
    return text
