"""Hooks: functions of a spider or a plugin that run at certain points of a crawl, and the order they run in.

    @spider.before_request
    def sign(request): ...

`hook_calls.py` runs them; docs/hooks.md says when each runs, how often, and what it may do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import isasyncgenfunction, isclass, iscoroutinefunction, signature
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, get_args, overload

from msgspec import Struct

from shoal.errors import SpiderError
from shoal.model import Task
from shoal.model.request import name_of_handler
from shoal.spider.redefining import is_redefined

HookKind = Literal[
    "before_request",
    "after_response",
    "on_item",
    "on_job_start",
    "on_job_end",
    "on_process_start",
    "on_process_end",
    "on_dead_letter",
]
KINDS: tuple[HookKind, ...] = get_args(HookKind)

# What a hook of each kind is called with.
GIVEN: Mapping[HookKind, tuple[str, ...]] = {
    "before_request": ("request",),
    "after_response": ("page",),
    "on_item": ("item", "page"),
    "on_job_start": ("job",),
    "on_job_end": ("job",),
    "on_process_start": (),
    "on_process_end": (),
    "on_dead_letter": ("letter",),
}

Function: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Function)
HandlerName: TypeAlias = Function | str


class Hook(Struct, frozen=True):
    kind: HookKind
    function: Function
    name: str  # of the function; of a plugin's method, with its class
    order: float = 0.0  # lower runs first
    handlers: frozenset[str] | None = None  # it runs for pages of these alone; None: of all

    def __str__(self) -> str:
        return f"{self.kind} hook {self.name}"

    def __post_init__(self) -> None:
        """One that cannot be called is told before the crawl, and not for each page."""
        if problem := problem_of_call(self.function, self.name.rpartition(".")[2], GIVEN[self.kind]):
            raise SpiderError(f"{self} {problem}")


# -- whether a function can be called


def problem_of_call(function: Function, name: str, given: Sequence[str]) -> str:
    """Why a function cannot be called with these arguments, and what to write; "" if it can, or does not say."""
    try:
        signature(_called(function), follow_wrapped=False).bind(*given)
    except TypeError as error:
        begin = "async def" if iscoroutinefunction(function) or isasyncgenfunction(function) else "def"
        taken = ", ".join(given)
        return f"cannot be called with ({taken}): {error}; write {begin} {name}({taken})"
    except ValueError:
        pass
    return ""


def problem_of_handler(function: Function, name: str) -> str:
    """The same for a handler. A class is one only if its objects are something that a handler may return."""
    if isclass(function) and not _makes_answers(function):
        return f"is a class; write def {name}(page)"
    return problem_of_call(function, name, ("page",))


def _called(function: Function) -> Function:
    """What says truly which arguments the function takes. A decorator may give its function the signature of the one
    that it wraps, and call that with more."""
    if type(function) is MethodType:
        return MethodType(_called(function.__func__), function.__self__)
    if type(function) is FunctionType:
        code, closure = function.__code__, function.__closure__
        bare = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
        bare.__kwdefaults__ = function.__kwdefaults__
        return bare
    if type(function) in (partial, BuiltinFunctionType) or isclass(function):
        return function
    call = getattr(type(function), "__call__", None)  # noqa: B004  # of an object, whatever that says of itself
    return MethodType(call, function) if type(call) is FunctionType else _anything


def _anything(*given: object) -> None: ...


def _makes_answers(made: type) -> bool:
    """Whether an object of the class may be an item or a request, or gives some."""
    if type(made) is not type or any("__new__" in vars(base) for base in made.__mro__[:-1]):
        return True  # it may make anything
    gives = ("__iter__", "__aiter__", "__await__", "__attrs_attrs__", "__dataclass_fields__")
    return any(hasattr(made, name) for name in gives)


class Hooks:
    """All hooks of a spider and its plugins, each kind in the order in which it runs."""

    __slots__ = KINDS

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        ordered = sorted(hooks, key=lambda hook: hook.order)  # those of the same order stay as they were

        def of(kind: HookKind) -> tuple[Hook, ...]:
            return tuple(hook for hook in ordered if hook.kind == kind)

        self.before_request = of("before_request")
        self.after_response = of("after_response")
        self.on_item = of("on_item")
        self.on_job_start = of("on_job_start")
        self.on_job_end = of("on_job_end")
        self.on_process_start = of("on_process_start")
        self.on_process_end = of("on_process_end")
        self.on_dead_letter = of("on_dead_letter")

    def __repr__(self) -> str:
        counts = {kind: len(getattr(self, kind)) for kind in KINDS}
        return f"<Hooks: {', '.join(f'{count} {kind}' for kind, count in counts.items() if count) or 'none'}>"

    @staticmethod
    def for_handler(hooks: tuple[Hook, ...], handler: str) -> Sequence[Hook]:
        """Those of the hooks that run for pages of the handler."""
        if all(hook.handlers is None for hook in hooks):
            return hooks
        return [hook for hook in hooks if hook.handlers is None or handler in hook.handlers]


NO_HOOKS = Hooks()


class OutgoingRequest:
    """A request that is about to be sent, as `before_request` hooks see it.

    What they change holds for this attempt only. Nothing of it is stored: the next attempt begins with the request
    as it was yielded.
    """

    __slots__ = ("body", "headers", "method", "pool", "proxy", "session", "task", "url")

    def __init__(self, task: Task) -> None:
        self.task = task
        self.url = task.url
        self.method = task.method
        self.headers: dict[str, str] = dict(task.headers or {})
        self.body = task.body
        self.pool = task.pool
        self.proxy = task.options.proxy
        self.session = task.session

    def __repr__(self) -> str:
        return f"<OutgoingRequest {self.method} {self.task.url}, attempt {self.attempt}>"

    @property
    def handler(self) -> str:
        """The name of the handler that its page is for; "": the spider's first."""
        return self.task.handler

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `meta` of the request; it cannot be changed."""
        return MappingProxyType(self.task.meta or {})

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self.task.attempt


class JobSummary(Struct, frozen=True, kw_only=True):
    """A job, as hooks at its start and its end see it."""

    name: str
    spider: str
    state: str = "running"  # at its end: "finished"
    done: int = 0  # pages
    dead: int = 0  # dead letters
    rows: int = 0
    retried: int = 0
    left: int = 0  # pages that are left in the queue, if a budget ended it
    seconds: float = 0.0  # since it was made
    output: str = ""  # where its rows go, without a password
    counts: dict[str, int] = {}  # its own counters, and what was dropped


class HookOptions(TypedDict, total=False):
    """The options of all decorators of hooks."""

    order: float


class PageHookOptions(HookOptions, total=False):
    """… and of those that run for pages."""

    handler: HandlerName | Sequence[HandlerName]


def objects_among(settings: dict[str, object]) -> tuple[object, ...]:
    """Takes the plugins out of a spider's settings that are given as objects. Names of plugins stay: a file, the
    environment or a flag may replace them, as any setting."""
    given = settings.get("plugins")
    if not isinstance(given, list | tuple):
        return ()
    settings["plugins"] = names = [one for one in given if isinstance(one, str)]
    if not names:
        del settings["plugins"]
    return tuple(one for one in given if not isinstance(one, str))


class HookDecorators:
    """The decorators of a spider by which functions become hooks."""

    __slots__ = ("hooks",)

    name: str

    def __init__(self) -> None:
        self.hooks: list[Hook] = []

    def add_hook(self, kind: HookKind, function: Function, **options: Unpack[PageHookOptions]) -> Hook:
        """Registers a hook, as the decorators do."""
        where = f"spider {self.name!r}: {kind}"
        if not callable(function):
            raise SpiderError(f"{where}: a hook is a function, not {function!r}")
        order, wanted = options.get("order", 0.0), options.get("handler")
        if isinstance(order, bool) or not isinstance(order, int | float) or order != order:
            raise SpiderError(f"{where}: order is {order!r}; give a number: lower runs first")
        names = None
        if wanted is not None:
            several = wanted if isinstance(wanted, list | tuple) else [wanted]
            names = frozenset(one if isinstance(one, str) else name_of_handler(one) for one in several)
        name = getattr(function, "__qualname__", "") or type(function).__name__
        hook = Hook(kind, function, name.rpartition("<locals>.")[2], order, names)
        for place, known in enumerate(self.hooks):
            same = (known.kind, known.name) == (kind, hook.name)
            if same and is_redefined(known.function, function):  # a cell of a notebook was run again
                self.hooks[place] = hook
                return hook
        self.hooks.append(hook)
        return hook

    def _register(self, kind: HookKind, function: Function | None, options: Mapping[str, Any]) -> Any:
        def register(function: Function) -> Function:
            self.add_hook(kind, function, **options)
            return function

        return register if function is None else register(function)

    @overload
    def before_request(self, function: F, /) -> F: ...
    @overload
    def before_request(self, /, **options: Unpack[PageHookOptions]) -> Callable[[F], F]: ...
    def before_request(self, function: Function | None = None, /, **options: Unpack[PageHookOptions]) -> Any:
        """Decorator for a hook `(request)`, which runs each time before a page is fetched. It may change the
        request, and may raise Retry or Drop."""
        return self._register("before_request", function, options)

    @overload
    def after_response(self, function: F, /) -> F: ...
    @overload
    def after_response(self, /, **options: Unpack[PageHookOptions]) -> Callable[[F], F]: ...
    def after_response(self, function: Function | None = None, /, **options: Unpack[PageHookOptions]) -> Any:
        """Decorator for a hook `(page)`, which runs before the handler. It may raise Retry or Drop, or return
        another page (`page.replace`)."""
        return self._register("after_response", function, options)

    @overload
    def on_item(self, function: F, /) -> F: ...
    @overload
    def on_item(self, /, **options: Unpack[PageHookOptions]) -> Callable[[F], F]: ...
    def on_item(self, function: Function | None = None, /, **options: Unpack[PageHookOptions]) -> Any:
        """Decorator for a hook `(item, page)`, which runs for each item. It returns the item, another one or a list
        of several; or nothing, if it left the item as it was or changed it in place. It may raise Drop."""
        return self._register("on_item", function, options)

    @overload
    def on_job_start(self, function: F, /) -> F: ...
    @overload
    def on_job_start(self, /, **options: Unpack[HookOptions]) -> Callable[[F], F]: ...
    def on_job_start(self, function: Function | None = None, /, **options: Unpack[HookOptions]) -> Any:
        """Decorator for a hook `(job)`, which runs once for a job, before its first page."""
        return self._register("on_job_start", function, options)

    @overload
    def on_job_end(self, function: F, /) -> F: ...
    @overload
    def on_job_end(self, /, **options: Unpack[HookOptions]) -> Callable[[F], F]: ...
    def on_job_end(self, function: Function | None = None, /, **options: Unpack[HookOptions]) -> Any:
        """Decorator for a hook `(job)`, which runs once when the job is finished. The job has its counts."""
        return self._register("on_job_end", function, options)

    @overload
    def on_process_start(self, function: F, /) -> F: ...
    @overload
    def on_process_start(self, /, **options: Unpack[HookOptions]) -> Callable[[F], F]: ...
    def on_process_start(self, function: Function | None = None, /, **options: Unpack[HookOptions]) -> Any:
        """Decorator for a hook `()`, which runs in every process that works on pages of the spider, before its first
        page."""
        return self._register("on_process_start", function, options)

    @overload
    def on_process_end(self, function: F, /) -> F: ...
    @overload
    def on_process_end(self, /, **options: Unpack[HookOptions]) -> Callable[[F], F]: ...
    def on_process_end(self, function: Function | None = None, /, **options: Unpack[HookOptions]) -> Any:
        """Decorator for a hook `()`, which runs at the end of each such process, unless it is killed."""
        return self._register("on_process_end", function, options)

    @overload
    def on_dead_letter(self, function: F, /) -> F: ...
    @overload
    def on_dead_letter(self, /, **options: Unpack[HookOptions]) -> Callable[[F], F]: ...
    def on_dead_letter(self, function: Function | None = None, /, **options: Unpack[HookOptions]) -> Any:
        """Decorator for a hook `(letter)`, which runs after a page was given up."""
        return self._register("on_dead_letter", function, options)
