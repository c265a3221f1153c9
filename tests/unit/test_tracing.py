"""The path of a task as spans, with the SDK's own exporters."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from shoal import Spider
from shoal.engine.tracing import Tracing, shown_url, tracing_if
from shoal.errors import UsageError
from shoal.fetch.transport import FetchRequest
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Claim, JobSpec
from shoal.model import Failure, Outcome, Response, Settlement, Task
from shoal.policy.load import Traffic
from shoal.runtime.job_runner import JobRunner
from shoal.settings import Settings
from shoal.sink.file_sink import FileSink
from shoal.sink.jsonl import MemoryJournal

URL = "http://site.test/list?page=2&token=sesame"


class Script:
    """A transport that answers as told."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    async def fetch(self, request: FetchRequest) -> Outcome:
        return self._outcome

    async def close(self) -> None: ...


def page(status: int = 200, **headers: str) -> Response:
    return Response(URL, status, headers, b"<a href=/x>x</a>", elapsed=0.1, wire_bytes=16)


def spider_with(handler: Any) -> Spider:
    spider = Spider("traced", start=URL)
    spider.handler(handler)
    return spider


def listing(page: Any) -> Any:
    yield {"url": page.url}
    yield from page.follow_all("a")


def failing(page: Any) -> Any:
    raise ValueError("sesame")


async def spans_of(
    outcome: Outcome, handler: Any = listing, *, settle: bool = True
) -> dict[str, ReadableSpan]:
    """The spans of one lease, by name."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider.get_tracer("test"))
    frontier, settings = MemoryFrontier(), Settings(robots=False, retry_base=0.0)
    await frontier.open_job(JobSpec("job", spider="traced"))
    await frontier.add("job", [Task(URL, host="site.test", parent=77, depth=1, fingerprint=1)])
    [lease] = (await frontier.claim(Claim("me", ["job"], {"normal": 1}, 1))).leases
    crew = JobRunner(
        "job",
        spider_with(handler),
        settings,
        frontier,
        FileSink(MemoryJournal()),
        traffic=Traffic(),
        transport=Script(outcome),
        tracing=tracing,
    )
    settlement = await crew.pages.process(lease)
    assert isinstance(settlement, Settlement)
    if settle:
        assert [span.name for span in exporter.get_finished_spans() if span.name == "shoal.task"] == []
        crew.pages.settled(settlement, True)
    await crew.close()
    return {span.name: span for span in exporter.get_finished_spans()}


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_page_has_a_span_with_its_fetch_its_handler_and_its_settlement() -> None:
    spans = await spans_of(page())
    assert set(spans) == {"shoal.task", "fetch", "handle", "settle"}
    task = spans["shoal.task"]
    assert task.parent is None
    assert {span.parent.span_id for span in spans.values() if span.parent} == {task.context.span_id}
    told = attributes(task)
    assert told["shoal.job"] == "job"
    assert told["shoal.host"] == "site.test"
    assert told["shoal.lane"] == "normal"
    assert told["shoal.parent"] == 77
    assert told["shoal.attempt"] == 1
    assert (told["shoal.outcome"], told["shoal.verdict"]) == ("ok", "done")
    assert (told["shoal.found"], told["shoal.rows"]) == (1, 1)
    fetch = attributes(spans["fetch"])
    assert (fetch["http.response.status_code"], fetch["http.response.body.size"]) == (200, 16)
    assert attributes(spans["handle"])["shoal.items"] == 1
    assert attributes(spans["settle"])["shoal.accepted"] is True
    assert all(span.status.status_code is StatusCode.UNSET for span in spans.values())


async def test_spans_follow_one_another_in_time() -> None:
    spans = await spans_of(page())
    task, fetch, handle, settle = (spans[name] for name in ("shoal.task", "fetch", "handle", "settle"))
    times = [task.start_time, fetch.start_time, fetch.end_time, handle.start_time, handle.end_time]
    times += [settle.start_time, settle.end_time, task.end_time]
    assert times == sorted(times)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("outcome", "kind", "verdict"),
    [
        (Failure("timeout", "no", elapsed=1.0), "timeout", "retry"),
        (page(404), "http_404", "dead"),
        (page(503), "http_503", "retry"),
    ],
)
async def test_a_failure_is_an_error_by_its_kind(outcome: Outcome, kind: str, verdict: str) -> None:
    spans = await spans_of(outcome)
    assert set(spans) == {"shoal.task", "fetch", "settle"}
    task = spans["shoal.task"]
    assert (attributes(task)["shoal.outcome"], attributes(task)["shoal.verdict"]) == (kind, verdict)
    assert (task.status.status_code, task.status.description) == (StatusCode.ERROR, kind)


async def test_a_redirect_is_not_an_error() -> None:
    spans = await spans_of(page(302, Location="/elsewhere"))
    assert attributes(spans["shoal.task"])["shoal.verdict"] == "moved"
    assert attributes(spans["fetch"])["shoal.outcome"] == "redirect"
    assert spans["shoal.task"].status.status_code is StatusCode.UNSET


async def test_nothing_secret_is_told() -> None:
    """Neither the values of a query nor what an exception says."""
    spans = await spans_of(page(), failing)
    assert spans["handle"].status.description == "ValueError"
    assert attributes(spans["shoal.task"])["shoal.outcome"] == "handler"
    assert "sesame" not in "".join(span.to_json() for span in spans.values())


async def test_a_page_whose_settlement_is_unknown_is_still_open() -> None:
    assert set(await spans_of(page(), settle=False)) == {"fetch", "handle"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://a/b", "http://a/b"),
        ("http://a/b?x=1&y=&z=s%20t", "http://a/b?x=REDACTED&y=&z=REDACTED"),
        ("http://a/?secret", "http://a/?REDACTED"),
        ("http://a/?a=1&secret&b=2=3", "http://a/?a=REDACTED&REDACTED&b=REDACTED"),
    ],
)
def test_a_url_is_shown_without_the_values_of_its_query(url: str, shown: str) -> None:
    assert shown_url(url) == shown


# -- on and off


@pytest.mark.parametrize("environ", [{}, {"OTEL_SERVICE_NAME": "x"}, {"OTEL_TRACES_EXPORTER": "none"}])
async def test_it_is_off_unless_somebody_wants_it(environ: dict[str, str]) -> None:
    async with tracing_if(False, environ) as tracing:
        assert tracing is None


async def test_the_environment_can_say_no() -> None:
    async with tracing_if(True, {"OTEL_TRACES_EXPORTER": "none"}) as tracing:
        assert tracing is None


async def test_spans_go_to_stderr_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with tracing_if(True, {"OTEL_TRACES_EXPORTER": "console"}) as tracing:
        assert tracing is not None
        tracing._tracer.start_span("one").end()
        tracing._tracer.start_span("two").end()
    out, err = capsys.readouterr()
    assert out == ""
    spans = [json.loads(line) for line in err.splitlines()]
    assert [span["name"] for span in spans] == ["one", "two"]
    assert spans[0]["resource"]["attributes"]["service.name"] == "shoal"


async def test_an_endpoint_without_its_exporter_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("shoal"), "propagate", True)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    with pytest.raises(UsageError, match="opentelemetry-exporter-otlp-proto-http"):
        async with tracing_if(True, endpoint):
            pass
    with caplog.at_level("WARNING", "shoal"):
        async with tracing_if(False, endpoint) as tracing:
            assert tracing is None  # it may be meant for another program
    assert "opentelemetry-exporter-otlp-proto-http" in caplog.text


async def test_a_missing_package_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(UsageError, match=r"pip install 'shoal\[otel\]'"):
        async with tracing_if(True, {}):
            pass


def test_nothing_is_loaded_while_it_is_off(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from shoal.runtime.crawl import execute\n"
        "from shoal.engine.tracing import tracing_if\n"
        "async def main():\n"
        "    async with tracing_if(False) as tracing: assert tracing is None\n"
        "asyncio.run(main())\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.strip() == "False"
