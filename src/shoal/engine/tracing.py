"""Traces of a task's path, with OpenTelemetry: a span for every lease, with those of its fetch, handler and settlement.

    shoal.task ── fetch        the request and its answer
              ├── handle       the handler's time
              └── settle       from the handler's end until the store has it

The steps of the path do not know that they are traced: `runtime/job_runner.py` wraps them.
A URL is shown with its path, but without the values of its query.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from shoal import __version__
from shoal.engine.served import Pages
from shoal.errors import UsageError
from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import Dead, Failure, Lease, Moved, Outcome, Retry, Settlement, Task
from shoal.policy.outcomes import kind_of
from shoal.spider.handlers import Yielded, collect

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

    from shoal.spider.page import Page
    from shoal.spider.spider import Handler

log = logging.getLogger("shoal")

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EXPORTER = "OTEL_TRACES_EXPORTER"
_MOST_OPEN = 10_000  # spans that wait for their settlement
_VALUES = re.compile(r"(?<==)[^&]+|(?<![^&])[^&=]+(?![^&])")  # also of what has no name


@asynccontextmanager
async def tracing_if(wanted: bool, environ: Mapping[str, str] = os.environ) -> AsyncIterator[Tracing | None]:
    """Traces if `wanted`, or if the environment names somewhere to send spans to and the packages are there."""
    told = any(environ.get(name) for name in (*_ENDPOINTS, _EXPORTER))
    if environ.get(_EXPORTER) == "none" or not (wanted or told):
        yield None
        return
    try:
        provider = _provider(environ)
    except UsageError as error:
        if wanted:
            raise
        log.warning("no traces, though the environment asks for them: %s", error)
        yield None
        return
    try:
        yield Tracing(provider.get_tracer("shoal", __version__))
    finally:
        await asyncio.to_thread(provider.shutdown)  # it may wait for the network


def _provider(environ: Mapping[str, str]) -> TracerProvider:
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise UsageError(f"traces need the package {error.name}: pip install 'shoal[otel]'") from None
    service = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": "shoal"}
    provider = TracerProvider(resource=Resource.create({**service, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(_exporter(environ)))
    return provider


def _exporter(environ: Mapping[str, str]) -> SpanExporter:
    """Exports to a collector if its package is installed; otherwise, or if told so, to stderr."""
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    if environ.get(_EXPORTER) != "console":
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # type: ignore[import-not-found]
                OTLPSpanExporter,
            )
        except ModuleNotFoundError:
            if any(environ.get(name) for name in _ENDPOINTS):
                raise UsageError(
                    "traces cannot be sent without the package opentelemetry-exporter-otlp-proto-http: "
                    f"install it, or set {_EXPORTER}=none"
                ) from None
        else:
            exporter: SpanExporter = OTLPSpanExporter()
            return exporter
    return ConsoleSpanExporter(out=sys.stderr, formatter=_as_line)


def _as_line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"


class Tracing:
    """Wraps the parts of a job's path."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def transport(self, inner: Transport) -> Transport:
        return _TracedTransport(inner, self._tracer)

    def pages(self, inner: Pages) -> Pages:
        return _TracedPages(inner, self._tracer)

    async def collect(
        self, handler: Handler, page: Page, *, deadline: float, monotonic: Callable[[], float]
    ) -> Yielded:
        with _within(self._tracer.start_span("handle")) as span:
            span.set_attribute("shoal.handler", handler.name)
            try:
                yielded = await collect(handler, page, deadline=deadline, monotonic=monotonic)
            except Exception as error:
                _failed(span, type(error).__name__)
                raise
            span.set_attributes({"shoal.items": len(yielded.items), "shoal.links": len(yielded.requests)})
            return yielded


class _TracedTransport:
    def __init__(self, inner: Transport, tracer: Tracer) -> None:
        self._inner = inner
        self._tracer = tracer

    async def fetch(self, request: FetchRequest) -> Outcome:
        with _within(self._tracer.start_span("fetch")) as span:
            span.set_attribute("http.request.method", request.method)
            outcome = await self._inner.fetch(request)
            kind = kind_of(outcome)
            span.set_attribute("shoal.outcome", kind)
            if outcome.status is not None:
                span.set_attribute("http.response.status_code", outcome.status)
            if isinstance(outcome, Failure):
                _failed(span, kind)
            else:
                span.set_attribute("http.response.body.size", outcome.wire_bytes or len(outcome.body))
            return outcome

    async def close(self) -> None:
        await self._inner.close()


class _TracedPages:
    def __init__(self, inner: Pages, tracer: Tracer) -> None:
        self._inner = inner
        self._tracer = tracer
        self._open: dict[int, tuple[Span, Span]] = {}  # token -> its task's span and that of its settlement

    async def process(self, lease: Lease) -> Settlement | None:
        span = self._tracer.start_span("shoal.task", attributes=_of_task(lease.task))
        settlement = None
        try:
            with _within(span, end=False):
                settlement = await self._inner.process(lease)
                if settlement is not None:
                    self._settling(span, settlement)
        except Exception:
            _failed(span, "unexpected")
            raise
        finally:
            if settlement is None:
                span.set_attribute("shoal.verdict", "released")
                span.end()
        return settlement

    def _settling(self, span: Span, settlement: Settlement) -> None:
        verdict = settlement.verdict
        kind = "redirect" if isinstance(verdict, Moved) else "ok"
        if isinstance(verdict, Retry | Dead):
            kind = verdict.failure.kind
            _failed(span, kind)
        span.set_attributes(
            {
                "shoal.verdict": type(verdict).__name__.lower(),
                "shoal.outcome": kind,
                "shoal.found": len(settlement.found),
                "shoal.rows": len(settlement.rows),
            }
        )
        if len(self._open) >= _MOST_OPEN:
            self._end(
                next(iter(self._open))
            )  # pages whose rows were not written are handed back without `settled`
        self._open[settlement.lease.token] = span, self._tracer.start_span("settle")

    def complete(self, settlement: Settlement) -> Settlement:
        return self._inner.complete(settlement)

    def settled(self, settlement: Settlement, accepted: bool) -> None:
        token = settlement.lease.token
        if token in self._open:
            self._open[token][1].set_attribute("shoal.accepted", accepted)
            self._end(token)
        self._inner.settled(settlement, accepted)

    def _end(self, token: int) -> None:
        task, settle = self._open.pop(token)
        settle.end()
        task.end()

    async def forget(self) -> None:
        await self._inner.forget()

    def sync(self, frontier_time: float) -> None:
        self._inner.sync(frontier_time)

    async def flush(self) -> None:
        await self._inner.flush()

    async def write_back(self, *, everything: bool = False) -> None:
        await self._inner.write_back(everything=everything)


def _within(span: Span, *, end: bool = True) -> AbstractContextManager[Span]:
    """Makes the span the parent of spans in the block. Texts of exceptions are not recorded: they are for the log."""
    from opentelemetry.trace import use_span

    return use_span(span, end_on_exit=end, record_exception=False, set_status_on_exception=False)


def _failed(span: Span, kind: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR, kind)


def _of_task(task: Task) -> dict[str, str | int]:
    return {
        "url.full": shown_url(task.url),
        "shoal.host": task.host,
        "shoal.job": task.job,
        "shoal.handler": task.handler,
        "shoal.lane": task.lane,
        "shoal.task": task.id,
        "shoal.parent": task.parent,  # the task whose page yielded this one; 0: none
        "shoal.depth": task.depth,
        "shoal.attempt": task.attempt,
    }


def shown_url(url: str) -> str:
    """Without the values of its query. Stored URLs have no user, password or fragment."""
    address, mark, query = url.partition("?")
    return address + mark + _VALUES.sub("REDACTED", query)
