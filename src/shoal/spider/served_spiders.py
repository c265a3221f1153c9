"""The spiders of a worker, by what jobs call them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from shoal.errors import SpiderError, TrustError
from shoal.settings import ARGUMENT_VARIABLE
from shoal.spider.arguments import Factory, read_key
from shoal.spider.loading import make_spider
from shoal.spider.spider import Spider

_MADE = 1_000  # spiders that were made for jobs, and are kept


class ServedSpiders(dict[str, Spider]):
    """The spiders of files by name, and those that factories make when a job asks for them.

    If the store is not trusted, arguments are not: a job must not choose which file or variable of the worker is read,
    nor a private host, nor who gets the worker's headers."""

    def __init__(
        self,
        spiders: Mapping[str, Spider],
        factories: Mapping[str, Factory] | None = None,
        *,
        trusted: bool = True,
    ) -> None:
        super().__init__(spiders)
        self.factories = dict(factories or {})
        self._trusted = trusted
        self._made: OrderedDict[str, Spider] = OrderedDict()

    @property
    def names(self) -> tuple[str, ...]:
        """What a worker says that it has."""
        return (*self, *self.factories)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and read_key(key)[0] in self.factories)

    def __missing__(self, key: str) -> Spider:
        if key not in self._made:
            self._made[key] = self._make(key)
            if len(self._made) > _MADE:
                self._made.popitem(last=False)
        return self._made[key]

    def _make(self, key: str) -> Spider:
        factory, pairs = read_key(key)
        if factory not in self.factories:
            raise SpiderError(f"no spider named {key!r} is here")
        if not self._trusted:
            _check_references(self.factories[factory], pairs)
        spider = make_spider(self.factories[factory], pairs)
        spider.handler_named("")
        spider.start_is_typed = self._trusted or not pairs
        return spider


def _check_references(factory: Factory, pairs: Sequence[str]) -> None:
    """A job may name the variables that are there for this, and no other secret of the worker."""
    parameters = factory.parameters()
    for pair in pairs:
        name, _, text = pair.partition("=")
        known = parameters.get(name.strip())
        if known is not None and known.secret and not text.startswith(f"env:{ARGUMENT_VARIABLE}"):
            raise TrustError(
                f"-a {name}={text[:40]} is no secret that a job may read here; call the variable "
                f'{ARGUMENT_VARIABLE}…, or set trust = "store" in the settings of the workers'
            )
