"""The dashboard, the alert rules, and docs/metrics.md use exactly the metrics and labels that workers export."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect.metrics import Histogram, Metric
from connectors.jdbc.sink.task import JdbcSinkTask
from connectors.jdbc.source.task import JdbcSourceTask
from connectors.mysql.metrics import progress_metrics as mysql_metrics
from connectors.postgres.monitoring.metrics import progress_metrics
from connectors.sink_support.errant_records import ErrantRecordHandler
from connectors.spark.delivery.metrics import table_metrics, task_metrics
from connectors.spark.delivery.timing import CommitTiming
from connectors.spark.tables.writer import TableProgress
from connectors.sqlite.metrics import progress_metrics as sqlite_metrics
from tests.unit.connectors.mysql import test_metrics as mysql
from tests.unit.connectors.postgres.test_metrics import SNAPSHOT, STREAMING
from tests.unit.worker.observability.worker_metrics.test_collector import VIEW
from worker.executor import ExecutorFigures
from worker.model import ErrorCounts, TaskId
from worker.observability.metrics.families import MetricFamily, gauge
from worker.observability.metrics.task_families import task_families
from worker.observability.metrics.task_figures import PluginFacts, TaskFigures, TaskNumbers, TaskPlugins
from worker.observability.verifications import StoredVerification
from worker.observability.worker_metrics.processes import ProcessTree, process_families
from worker.observability.worker_metrics.start_counts import StartFigures, Startups
from worker.observability.worker_metrics.verification_families import schedule_families, verification_families
from worker.observability.worker_metrics.worker_families import worker_families

ROOT = Path(__file__).parents[3]
METRIC = re.compile(r"\b((?:sluice|kafka_connect|process)_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPING = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
SCRAPED = {"instance", "job"}


def connectors_metrics() -> Iterator[Metric]:
    slot = {**STREAMING["slot"], "safe_wal_size": 1, "lag_seconds": 1.0}
    yield from progress_metrics(
        {**STREAMING, **SNAPSHOT, "seconds_left": 1, "slot": slot, "problems": STREAMING["problems"]}, "s"
    )
    yield from mysql_metrics({**mysql.STREAMING, **mysql.SNAPSHOT, "seconds_left": 1}, 2000)
    yield from sqlite_metrics({"phase": "snapshot", "events": 1, "lag_rows": 1, **SNAPSHOT, "seconds_left": 1}, "s")
    figures = ("files", "bytes", "deleted_rows", "index_keys", "index_bytes", "unavailable", "outdated")
    table, timing = TableProgress(version=1, table=dict.fromkeys(figures, 1)), CommitTiming(None, 1.0)
    table.committed(1.0)
    table.maintenance_times.observe(1.0)
    timing.observe_freshness(1.0)
    yield from table_metrics("t", table, timing, 1)
    yield from task_metrics(1, 1, {"in_use": "worker", "backlog": 1})
    yield from _Source.__new__(_Source).metrics()
    sink = JdbcSinkTask.__new__(JdbcSinkTask)
    sink._written, sink._errant_records = 1, ErrantRecordHandler(None)
    yield from sink.metrics()


class _Source(JdbcSourceTask):
    def progress(self) -> dict[str, Any]:
        return {"tables": 1, "rows": 1, "chunks_total": 1, "chunks_done": 1}


def exported() -> dict[str, set[str]]:
    """Returns the labels of every metric that workers export, by name."""
    times = Histogram()
    times.observe(1.0)
    one = PluginFacts("c", "v", "a")
    plugins = TaskPlugins(one, one, one, one, (one,), (one,))
    families: list[MetricFamily] = [gauge("sluice_scrape_seconds", "x").add(1.0)]
    for is_source in (True, False):
        figures = TaskFigures(
            TaskId("c", 0), is_source, TaskNumbers(), ErrorCounts(), times.figures(), times.figures(), {"t-0": 1}, plugins,
            list(connectors_metrics()),
        )  # fmt: skip
        families += task_families([figures])
    starts = StartFigures(Startups(), Startups(), {"c": 1, TaskId("c", 0): 1}, {"c": "call", TaskId("c", 0): "call"})
    families += worker_families(VIEW, starts, [ExecutorFigures("shared-1", 1, True, [])])
    families += process_families(ProcessTree(), {})
    results = {"c": StoredVerification(1, equal=True, rows=1, differences=0, unsettled=0, seconds=1.0, document={"source": "s"})}
    families += verification_families(results, lambda: results)
    families += schedule_families({"c": {"interval_ms": 1, "last_ms": 1, "error": "x", "next_ms": 2}})
    found: dict[str, set[str]] = {"up": set()}
    for family in families:
        for rendered in family.labels:
            found.setdefault(family.name, set()).update(re.findall(r'(\w+)="', rendered))
    found["sluice_process_cpu_seconds_total"] |= {"program"}
    found["sluice_process_resident_memory_bytes"] |= {"program"}
    for name in {family.name for family in families if family.kind.value == "histogram"}:
        labels = found.pop(name)
        found |= {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}
    return found


def problems(expression: str, metrics: dict[str, set[str]]) -> Iterator[str]:
    """Yields what an expression uses that is not exported."""
    used: set[str] = set()
    for name, selector in METRIC.findall(expression):
        if name not in metrics:
            yield f"no metric {name}"
            continue
        used |= metrics[name]
        yield from (f"{name} has no label {label}" for label in LABEL.findall(selector) if label not in metrics[name] | SCRAPED)
    for labels in GROUPING.findall(expression):
        yield from (f"no label {label}" for label in re.findall(r"\w+", labels) if label not in used | SCRAPED)


def alert_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((ROOT / "configs/prometheus/sluice-alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "configs/grafana/sluice.json").read_text())
    return found


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: str(rule["alert"]))
def test_alert_uses_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    metrics = exported()
    assert not list(problems(rule["expr"], metrics))
    assert rule["labels"]["severity"] in ("warning", "critical")
    known = {label for name, _ in METRIC.findall(rule["expr"]) for label in metrics[name]} | SCRAPED
    for text in rule["annotations"].values():
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= known


def test_every_panel_uses_metrics_and_labels_that_exist() -> None:
    metrics, board = exported(), dashboard()
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len(panels) > 25
    for panel in panels:
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            expression = target["expr"]
            assert not list(problems(expression, metrics)), panel["title"]
            known = {label for name, _ in METRIC.findall(expression) for label in metrics[name]} | SCRAPED
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= known
    for variable in board["templating"]["list"][1:]:
        assert not list(problems(variable["definition"], metrics))


SELECTOR = re.compile(r"\b(?:sluice|kafka_connect|process)_\w+(\{[^}]*\})?")


def test_dashboard_follows_the_rules_of_dashboard_linter() -> None:
    """Those of its rules that a change of the dashboard is likely to break: see docs/development/README.md."""
    board = dashboard()
    assert not board["editable"]
    source, *variables = board["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert [variable["name"] for variable in variables] == ["job", "instance", "connector"]
    for variable in variables:
        assert (variable["type"], variable["multi"], variable["refresh"]) == ("query", True, 2)
        assert variable["label"] == variable["name"].title()
        assert variable["datasource"]["uid"] == "${datasource}"
    assert [variable["allValue"] for variable in variables[:2]] == [".+", ".+"]
    for panel in board["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["title"]
        assert panel["targets"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            expression = target["expr"]
            selectors = SELECTOR.findall(expression)
            assert selectors
            for selector in selectors:
                assert selector.startswith('{job=~"$job", instance=~"$instance"'), (panel["title"], selector)
            counters = len(re.findall(r"_total\{", expression))
            assert counters == len(re.findall(r"\b(?:rate|irate|increase)\(\w+_total\{", expression)), panel["title"]
            assert expression.count("rate(") == expression.count("[$__rate_interval]")


def test_panels_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in own) < 24
        assert not own & cells
        cells |= own


def test_page_names_every_metric_and_no_other() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    named = {name for name in re.findall(r"`((?:sluice|kafka_connect|process)_\w+)`", page) if not name.endswith("_")}
    names = {re.sub(r"_seconds_(bucket|sum|count)$", "_seconds", name) for name in exported()} - {"up"}
    assert names - named == set()
    assert named - names == set()


def test_alerts_are_described() -> None:
    page = (ROOT / "docs/monitoring.md").read_text()
    assert {rule["alert"] for rule in alert_rules()} == set(re.findall(r"`(Sluice[A-Z]\w+)`", page))


def test_wrong_names_are_found() -> None:
    metrics = exported()
    assert list(problems('rate(sluice_missing_total{connector="a"}[5m])', metrics)) == ["no metric sluice_missing_total"]
    wrong = 'sum by (tabel) (sluice_table_files{conector=~"x"})'
    assert list(problems(wrong, metrics)) == ["sluice_table_files has no label conector", "no label tabel"]
