"""Parts of a connector's page whose resources a worker may not have: shown as the worker answers, and absent without it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import NewPage
from tests.cluster.worker_process import WorkerProcess

SOURCE = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/nowhere/else"}
HOSTILE = "<img src=x onerror=document.title='owned'>"
NOT_FOUND = {"error_code": 404, "message": "HTTP 404 Not Found"}


def answer(page: Page, pattern: str, body: Any, status: int = 200) -> None:
    def fulfill(route: Route) -> None:
        route.fulfill(status=status, content_type="application/json", body=json.dumps(body))

    page.route(pattern, fulfill)


def opened(worker: WorkerProcess, new_page: NewPage, tab: str, routes: dict[str, Any], status: int = 200) -> Page:
    worker.client.create("c", SOURCE)
    page = new_page("about:blank")
    for pattern, body in routes.items():
        answer(page, pattern, body, status)
    page.goto(f"{worker.url}/ui#/connectors/c/{tab}")
    return page


@pytest.mark.parametrize("tab", ["config", pytest.param("edit", marks=pytest.mark.long)])
def test_values_are_hidden_until_it_is_known_which_are_secret(worker: WorkerProcess, new_page: NewPage, tab: str) -> None:
    worker.client.create("c", SOURCE)
    sink = {"connector.class": "FileStreamSink", "topics": "lines", "file": "/nowhere/else"}
    for number in (88, 99):
        worker.client.put_config("d", {**sink, "pin": f"tandem-{number}"})
    held: list[Route] = []
    page = new_page("about:blank")
    page.route("**/connector-plugins/*Sink*/config", lambda route: held.append(route))
    page.goto(f"{worker.url}/ui#/connectors/c/{tab}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("c")
    expect(page.locator(".loading")).to_have_count(0)
    with page.expect_request("**/connector-plugins/*Sink*/config"):
        page.goto(f"{worker.url}/ui#/connectors/d/{tab}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("d")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert "tandem-" not in page.content()
    held[0].fulfill(json=[{"name": "pin", "type": "PASSWORD"}, {"name": "file", "type": "STRING"}])
    expect(page.locator("main")).to_contain_text("pin")
    assert "tandem-" not in page.content()


def test_log_lines_are_shown_as_text_and_followed(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("c", SOURCE)
    page = new_page("about:blank")
    asked: list[str] = []

    def logs(route: Route) -> None:
        asked.append(route.request.url)
        number = len(asked)
        if number > 3:
            return  # a request that waits for lines
        line = {
            "seq": number,
            "at_ms": 1_700_000_000_000,
            "level": "ERROR" if number == 2 else "INFO",
            "logger": "worker",
            "task": 0,
            "message": f"line {number} {HOSTILE}",
            "trace": "boom" if number == 2 else None,
            "worker_id": "w",
        }
        body = {"lines": [line], "next": f"w@1.{number}", "unavailable": []}
        route.fulfill(content_type="application/json", body=json.dumps(body))

    page.route("**/logs?**", logs)
    page.goto(f"{worker.url}/ui#/connectors/c/logs")
    log = page.get_by_role("log")
    expect(log.locator(".line")).to_have_count(3)
    expect(log.locator(".line").first).to_contain_text(HOSTILE)
    expect(log.locator(".line-error")).to_have_count(1)
    assert "after=w%401.1" in asked[1]
    page.get_by_label("Search these lines").fill("line 2")
    expect(log.locator(".line")).to_have_count(1)
    assert page.title() == "c – Sluice"
    page.unroute("**/logs?**")


@pytest.mark.long
def test_dead_letters_are_grouped_and_replayed_after_a_dry_run(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("c", SOURCE)
    page = new_page("about:blank")
    cause = {
        "id": "ab12",
        "count": 3,
        "last_ms": 1,
        "stage": "TRANSFORMATION",
        "transform": "cast",
        "exception_class": "x.DataException",
        "field": "id",
        "message": f"cannot cast {HOSTILE}",
        "hint": "Change transforms.cast.spec",
    }
    answer(page, "**/dead-letters/causes", {"connector": "c", "topic": "dlq", "letters": 3, "complete": True, "causes": [cause]})
    context = {
        "topic": "lines",
        "partition": 0,
        "offset": 5,
        "stage": "TRANSFORMATION",
        "class": "Cast",
        "message": "no",
        "trace": "t",
    }
    letter = {
        "partition": 0,
        "offset": 1,
        "timestamp_ms": 1,
        "cause": "ab12",
        "replayed": False,
        "context": context,
        "key": None,
        "value": {"size": 1, "text": HOSTILE},
        "headers": [],
    }
    answer(page, "**/dead-letters?**", {"connector": "c", "topic": "dlq", "records": 3, "left": 3, "letters": [letter]})
    bodies: list[Any] = []

    def replay(route: Route) -> None:
        bodies.append(route.request.post_data_json)
        body = {
            "checked": 3,
            "replayed": 0 if bodies[-1]["dry_run"] else 2,
            "verdicts": {"passes": 2, "fails": 1},
            "complete": True,
        }
        route.fulfill(content_type="application/json", body=json.dumps(body))

    page.route("**/replay", replay)
    page.goto(f"{worker.url}/ui#/connectors/c/dead-letters")
    expect(page.locator(".cause")).to_contain_text(HOSTILE)
    page.locator(".cause").click()
    page.locator("details.letter > summary").click()
    expect(page.locator(".letter pre").nth(1)).to_have_text(HOSTILE)
    page.get_by_role("button", name="Replay this cause").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 dead letters checked")
    dialog.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("2 dead letters were replayed")).to_be_visible()
    assert bodies == [{"dry_run": True, "selection": {"cause": "ab12"}}, {"dry_run": False, "selection": {"cause": "ab12"}}]


@pytest.mark.long
def test_connector_without_a_dead_letter_queue_says_so(worker: WorkerProcess, new_page: NewPage) -> None:
    missing = {"error_code": 400, "message": "Connector c has no dead letter queue: set errors.deadletterqueue.topic.name"}
    page = opened(worker, new_page, "dead-letters", {"**/dead-letters**": missing, "**/dead-letters/causes": missing}, 400)
    expect(page.get_by_text("has no dead letter queue")).to_be_visible()


def test_problems_are_shown_with_cause_and_command(worker: WorkerProcess, new_page: NewPage) -> None:
    problem = {
        "name": "c/0",
        "connector": "c",
        "task": 0,
        "code": "task-failed",
        "severity": "error",
        "message": f"failed {HOSTILE}",
        "path": None,
        "suggestion": "Start the database",
        "cause": "refused",
        "command": "sluice restart c",
        "since_ms": 1,
    }
    body = {"worker_id": "w", "at_ms": 1, "problems": [problem], "unseen": ["the plugins"]}
    page = opened(worker, new_page, "diagnosis", {"**/diagnosis": body})
    article = page.locator("article.finding")
    for text in (HOSTILE, "refused", "Start the database", "sluice restart c", "task 0"):
        expect(article).to_contain_text(text)
    expect(page.get_by_role("region", name="Not examined")).to_contain_text("the plugins")
    page.goto(f"{worker.url}/ui#/diagnosis")
    expect(page.locator("article.finding")).to_have_count(1)
    page.locator("article.finding a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("c")


def test_verification_shows_each_table(worker: WorkerProcess, new_page: NewPage) -> None:
    table = {
        "source": ["public.orders"],
        "target": "orders",
        "equal": False,
        "rows": 7,
        "differences": 1,
        "unsettled": 0,
        "problem": None,
        "notes": ["one note"],
    }
    body = {
        "name": "c",
        "equal": False,
        "rows": 7,
        "differences": 1,
        "unsettled": 0,
        "seconds": 2.5,
        "stored_ms": 1,
        "tables": [table],
        "schedule": {
            "interval_ms": 60_000,
            "paused": False,
            "last_ms": 1,
            "error": "no database answers",
            "worker_id": "host:8083",
            "failing_since_ms": 1,
            "next_ms": 2,
        },
    }
    page = opened(worker, new_page, "verification", {"**/verification": body})
    expect(page.get_by_text("Source and target differ")).to_be_visible()
    schedule = page.get_by_role("region", name="Schedule")
    expect(schedule).to_contain_text("no database answers")
    expect(schedule).to_contain_text("host:8083")
    expect(schedule).to_contain_text("Failing since")
    expect(schedule).to_contain_text("Jan 1, 1970")
    expect(schedule).to_contain_text("now")
    expect(page.locator("tbody tr")).to_contain_text(["orders"])
    expect(page.locator("tbody tr")).to_contain_text(["one note"])


@pytest.mark.long
def test_schedule_is_shown_before_its_first_result(worker: WorkerProcess, new_page: NewPage) -> None:
    none = {"last_ms": None, "error": None, "worker_id": None, "failing_since_ms": None, "next_ms": None}
    body = {"name": "c", "schedule": {"interval_ms": 60_000, "paused": False, **none}}
    page = opened(worker, new_page, "verification", {"**/verification": body})
    expect(page.get_by_text("none yet")).to_be_visible()
    expect(page.get_by_text("soon")).to_be_visible()
    expect(page.get_by_text("Source and target")).to_have_count(0)


@pytest.mark.long
def test_paused_connector_is_shown_as_not_verified(worker: WorkerProcess, new_page: NewPage) -> None:
    run = {"last_ms": 1, "error": None, "worker_id": "host:8083", "failing_since_ms": None, "next_ms": None}
    body = {"name": "c", "schedule": {"interval_ms": 60_000, "paused": True, **run}}
    page = opened(worker, new_page, "verification", {"**/verification": body})
    expect(page.get_by_text("when the connector is resumed")).to_be_visible()
    expect(page.get_by_text("Failing since")).to_have_count(0)


def test_progress_of_a_snapshot_and_of_tables(worker: WorkerProcess, new_page: NewPage) -> None:
    errors = dict.fromkeys(("failures", "errors", "skipped", "retries", "logged", "dead_letters", "dead_letter_failures"), 0)
    snapshot = {
        "phase": "snapshot",
        "tables_done": 1,
        "tables_total": 4,
        "table": "orders",
        "tables": ["orders"],
        "rows": 25,
        "rows_estimate": 100,
        "bytes": 10,
        "rate": 5.0,
        "seconds_left": 75,
    }
    tables = {"tables": {"orders": {"rows": 12, "freshness_ms": {"p50": 800, "p99": 1500}, "pending": 3}}, "buffered": 3}
    tasks = [
        {"id": at, "records": 1, "bytes": 2, "lag": None, "details": details, "errors": {**errors, "last_error_ms": None}}
        for at, details in enumerate((snapshot, tables))
    ]
    page = opened(worker, new_page, "activity", {"**/progress?**": {"name": "c", "tasks": tasks, "missing_workers": ["far:1"]}})
    shown = page.get_by_role("region", name="Snapshot of task 0")
    for text in ("25 %", "about 1 min", "1 of 4", "25 of about 100", "orders"):
        expect(shown).to_contain_text(text)
    expect(page.get_by_role("region", name="Tables of task 1")).to_contain_text("p50 800 ms, p99 1.5 s")
    expect(page.get_by_text("No figures from far:1")).to_be_visible()


@pytest.mark.long
def test_parts_that_a_worker_does_not_have_are_named(worker: WorkerProcess, new_page: NewPage) -> None:
    names = ("logs", "dead-letters", "dead-letters/causes", "diagnosis", "verification")
    page = opened(worker, new_page, "logs", {f"**/sluice/connectors/c/{name}*": NOT_FOUND for name in names}, 404)
    for tab, text in (
        ("logs", "does not serve logs"),
        ("dead-letters", "does not read dead letter queues"),
        ("diagnosis", "does not diagnose"),
        ("verification", "has no results of verifications"),
    ):
        page.goto(f"{worker.url}/ui#/connectors/c/{tab}")
        expect(page.get_by_text(text)).to_be_visible()
