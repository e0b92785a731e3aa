"""Log, dead letters, problems, and verifications in the web page, as a real worker answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from connect.errors import NotFoundError
from rest.polling import wait_until
from tests.browser.conftest import NewPage
from tests.cluster.worker_process import WorkerProcess
from tests.support.waiting import WAIT_S


@pytest.fixture
def sink(worker: WorkerProcess, tmp_path: Path) -> str:
    """The name of a sink with one dead letter."""
    (tmp_path / "in.txt").write_text("17\nseventeen\n")
    topic = f"numbers-{tmp_path.name}"
    worker.client.create("numbers", {"connector.class": "FileStreamSource", "topic": topic, "file": str(tmp_path / "in.txt")})
    config = {
        "connector.class": "FileStreamSink",
        "topics": topic,
        "file": str(tmp_path / "out.txt"),
        "transforms": "cast",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "int32",
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.deadletterqueue.topic.name": f"{topic}-dlq",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    worker.client.create("numbers-sink", config)
    assert wait_until(lambda: _has_dead_letter(worker), WAIT_S)
    return "numbers-sink"


def _has_dead_letter(worker: WorkerProcess) -> bool:
    try:
        return bool(worker.client.dead_letters("numbers-sink")["records"] == 1)
    except NotFoundError:
        return False  # the sink has not created the topic yet


def test_dead_letter_is_explained_and_stays_if_it_would_fail_again(worker: WorkerProcess, sink: str, new_page: NewPage) -> None:
    page = new_page(f"{worker.url}/ui#/connectors/{sink}/dead-letters")
    cause = page.locator(".cause")
    expect(cause).to_have_count(1)
    expect(cause).to_contain_text("was out of range for requested data type")
    expect(cause).to_contain_text("TRANSFORMATION · cast")
    page.locator("details.letter > summary").click()
    expect(page.locator(".letter pre").nth(1)).to_have_text('"seventeen"')
    page.get_by_role("button", name="Replay all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 dead letter checked")
    expect(dialog).to_contain_text("fails")
    dialog.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("0 dead letters were replayed")).to_be_visible()
    expect(cause).to_have_count(1)


@pytest.mark.long
def test_log_of_a_connector_is_live(worker: WorkerProcess, sink: str, new_page: NewPage) -> None:
    page = new_page(f"{worker.url}/ui#/connectors/{sink}/logs")
    log = page.get_by_role("log")
    expect(log.locator(".line-error").last).to_contain_text("seventeen")
    lines = log.locator(".line").count()
    worker.client.restart(sink, include_tasks=True)
    expect(log.locator(".line").nth(lines)).to_be_visible()


@pytest.mark.long
def test_problems_and_missing_verifications_are_shown(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("broken", {"connector.class": "FileStreamSink", "topics": "lines", "file": "/nowhere/x.txt"})
    worker.client.wait_for("broken", "FAILED", timeout_s=WAIT_S)
    page = new_page(f"{worker.url}/ui#/diagnosis")
    article = page.locator("article.finding", has_text="broken")
    expect(article.first).to_contain_text("/nowhere/x.txt")
    expect(article.first).to_contain_text("sluice restart")
    page.goto(f"{worker.url}/ui#/connectors/broken/verification")
    expect(page.get_by_text("sluice verify").first).to_be_visible()
