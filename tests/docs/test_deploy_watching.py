"""The dashboard, alert rules and scrape configurations: every query can be read, and every metric in it exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from docs.deploy_kustomize import render
from docs.deploy_schema import Deployment
from shoal.inspect.host import CONDITIONS
from shoal.telemetry.endpoint import parse_address
from shoal.telemetry.metrics import PROCESS, STORE

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "shoal.json").read_text("utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text("utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
SCRAPES = [
    scrape
    for name in ("prometheus", "kubernetes")
    for scrape in yaml.safe_load((DEPLOY / "prometheus" / f"{name}.yaml").read_text())["scrape_configs"]
]
DOC = (ROOT / "docs" / "metrics.md").read_text("utf-8")
PORT = 9464

LABELS = {
    name: {*metric.labels, *extra}
    for metric in [*PROCESS, *STORE]
    for name, extra in (
        [(f"{metric.name}_bucket", {"le"}), (f"{metric.name}_sum", ()), (f"{metric.name}_count", ())]
        if metric.kind == "histogram"
        else [(metric.name, ())]
    )
} | {"up": set()}
COUNTERS = {metric.name for metric in PROCESS if metric.kind == "counter"} | {
    f"shoal_fetch_seconds_{part}" for part in ("bucket", "sum", "count")
}
UNITS = {"short", "reqps", "percentunit", "s", "bytes", "Bps"}


def panel_queries() -> Iterator[tuple[str, str, str]]:
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m"), target["legendFormat"]


PANEL_QUERIES = list(panel_queries())
QUERIES = [expr for _, expr, _ in PANEL_QUERIES] + [rule["expr"] for rule in RULES]


def selectors(expr: str) -> list[tuple[str, set[str], bool]]:
    """Of every metric in a query: its name, the labels it is chosen by, and whether a range of it is taken."""
    found: list[tuple[str, set[str], bool]] = []

    def visit(node: Any, ranged: bool = False) -> None:
        if isinstance(node, promql_parser.MatrixSelector):
            visit(node.vector_selector, True)
        elif isinstance(node, promql_parser.VectorSelector):
            labels = {matcher.name for matcher in node.matchers.matchers}
            found.append((str(node.name), labels, ranged))
        else:
            for name in ("expr", "lhs", "rhs"):
                if (part := getattr(node, name, None)) is not None:
                    visit(part)
            for part in getattr(node, "args", None) or ():
                visit(part)

    visit(promql_parser.parse(expr))
    return found


@pytest.mark.parametrize("expr", QUERIES)
def test_every_query_asks_for_what_exists(expr: str) -> None:
    asked = selectors(expr)
    assert asked
    for name, labels, ranged in asked:
        assert name in LABELS, name
        assert labels <= LABELS[name] | {"instance", "job"}
        assert ranged or name not in COUNTERS, f"{name} means nothing without a rate"


@pytest.mark.parametrize("expr", [expr for expr in QUERIES if re.search(r"\b(rate|increase)\(", expr)])
def test_rates_are_of_counters(expr: str) -> None:
    ranged = {name for name, _, ranged in selectors(expr) if ranged}
    assert ranged <= COUNTERS


def test_a_wrong_query_would_be_found() -> None:
    assert selectors('rate(shoal_page_total{job="x"}[5m]) > 1') == [("shoal_page_total", {"job"}, True)]
    with pytest.raises(ValueError):
        promql_parser.parse("sum by (rate(shoal_pages_total[5m])")


@pytest.mark.parametrize("expr", QUERIES)
def test_figures_of_the_store_are_never_summed_over_those_who_tell_them(expr: str) -> None:
    """Two coordinators tell of the same store."""
    store = {metric.name for metric in STORE}
    for name in {name for name, _, _ in selectors(expr)} & store:
        wrapped = re.findall(rf"(?:max|min)(?: by \([\w, ]+\))? ?\((?:delta\()?{name}\b|max\({name}\b", expr)
        assert len(wrapped) == len(re.findall(rf"\b{name}\b", expr)), name


# -- Grafana


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name for _, expr, _ in PANEL_QUERIES for name, _, _ in selectors(expr)}
    left_out = {"up", "shoal_job_running"}  # the state of jobs is in shoal_jobs
    assert LABELS.keys() - shown == left_out


def test_the_dashboard_can_be_imported() -> None:
    assert BOARD["schemaVersion"] >= 36
    assert BOARD.get("id") is None  # or it would overwrite another
    identities = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(identities)) == len(identities)
    for panel in PANELS:
        assert panel["type"] in ("stat", "timeseries", "heatmap")
        for place in (panel, *panel["targets"]):
            assert place["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"].get("unit", "s") in UNITS
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_the_variables_lead_somewhere() -> None:
    variables = {one["name"]: one for one in BOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "job", "instance"]
    for name, label in (("job", "job_name"), ("instance", "instance")):
        match = re.fullmatch(r"label_values\((\w+), (\w+)\)", variables[name]["query"]["query"])
        assert match is not None
        assert match[2] == label
        assert match[1] in LABELS
    used = {word for _, expr, _ in PANEL_QUERIES for word in re.findall(r"\$(\w+)", expr)}
    assert used == {"job", "instance"}


@pytest.mark.parametrize(("title", "expr", "legend"), PANEL_QUERIES)
def test_legends_name_labels_that_are_kept(title: str, expr: str, legend: str) -> None:
    wanted = set(re.findall(r"{{(\w+)}}", legend))
    kept = {label for group in re.findall(r"by \(([\w, ]+)\)", expr) for label in group.split(", ")}
    assert wanted <= kept


def test_panels_do_not_overlap() -> None:
    for a, b in combinations([panel["gridPos"] for panel in BOARD["panels"]], 2):
        assert (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in BOARD["panels"])


# -- alerts


def test_every_alert_is_documented_and_no_other() -> None:
    described = re.findall(r"^\| `(Shoal\w+)` \| .+ \|$", DOC, re.MULTILINE)
    assert described == [rule["alert"] for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_the_matter(rule: dict[str, Any]) -> None:
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"].keys() == {"summary", "description"}
    kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([\w, ]+)\)", rule["expr"])))) | {"instance"}
    assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= kept
    assert re.fullmatch(r"\d+m", rule.get("for", "0m"))


def test_alerts_name_states_that_exist() -> None:
    asked = {
        one
        for expr in QUERIES
        for words in re.findall(r'condition=~"([^"]+)"', expr)
        for one in words.split("|")
    }
    assert asked
    assert asked <= set(CONDITIONS)
    states = {
        one
        for expr in QUERIES
        for words in re.findall(r'state=~?"([^"]+)"', expr)
        for one in words.split("|")
    }
    assert states <= {"pending", "delayed", "leased", "done", "dead", "running"}


# -- scraping


def test_what_is_scraped_is_what_answers() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    services = [name for one in SCRAPES for found in one.get("dns_sd_configs", []) for name in found["names"]]
    assert services == ["worker", "coordinator", "browser"]
    for name in services:
        service = compose["services"][name]
        assert parse_address(after(service["command"], "--metrics")) == ("0.0.0.0", PORT)
        assert f"127.0.0.1:{PORT}/healthz" in service["healthcheck"]["test"][-1]
    assert [found["port"] for one in SCRAPES for found in one.get("dns_sd_configs", [])] == [PORT]
    assert all(
        re.match(r"shoal", one["job_name"]) for one in SCRAPES
    )  # which the alert about processes asks for


def test_pods_are_probed_and_scraped_where_they_answer() -> None:
    made = [one for one in render(DEPLOY / "kubernetes" / "base") if isinstance(one, Deployment)]
    deployments = [one for one in made if one.metadata.name != "dashboard"]  # which is no part of the crawl
    assert {one.metadata.name for one in deployments} == {"worker", "coordinator"}
    for one in deployments:
        [container] = one.spec.template.spec.containers
        assert parse_address(after(container.args, "--metrics")) == ("0.0.0.0", PORT)
        assert [(port.name, port.container_port) for port in container.ports] == [("metrics", PORT)]
        assert container.startup_probe and container.startup_probe.http_get  # noqa: PT018
        assert container.startup_probe.http_get.path == "/readyz"
        assert container.liveness_probe and container.liveness_probe.http_get  # noqa: PT018
        assert container.liveness_probe.http_get.path == "/healthz"
        told = one.spec.template.metadata.annotations
        assert told == {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT)}
    wanted = {
        name for one in SCRAPES for rule in one.get("relabel_configs", []) for name in rule["source_labels"]
    }
    assert {"__meta_kubernetes_pod_annotation_prometheus_io_scrape"} <= wanted


def after(words: list[str], word: str) -> str:
    return words[words.index(word) + 1]
