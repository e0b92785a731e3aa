"""``sluice ui``: the page for another worker, read-only or of Apache Kafka Connect."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from sluice.embedded.broker import EmbeddedBroker
from tests.browser.conftest import NewPage
from tests.cluster.worker_process import WorkerProcess
from tests.interop.apache_worker import APACHE_STANDALONE
from tests.support.waiting import WAIT_S

SOURCE = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/nowhere/else"}


@contextmanager
def served(target: str, *options: str) -> Iterator[str]:
    """Runs the command; yields the address that it prints. It must end gracefully."""
    command = [sys.executable, "-c", "from sluice.cli import main; main()", "ui", "--port", "0", "--url", target, *options]
    process = subprocess.Popen([*command, "-o", "json"], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["url"])
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            process.communicate()
        assert code == 0


@pytest.mark.long
def test_page_that_may_only_show_has_no_buttons(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("shown", SOURCE)
    with served(worker.url, "--read-only") as url:
        page = new_page(url)
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_text("Read-only")).to_be_visible()
        expect(page.get_by_role("checkbox")).to_have_count(0)
        expect(page.get_by_role("link", name="New connector")).to_have_count(0)
        for tab in ("tasks", "config", "history", "offsets"):
            page.goto(f"{url}#/connectors/shown/{tab}")
            expect(page.locator(".panel .card").first).to_be_visible()
            for name in ("Restart", "Pause", "Stop", "Delete", "Edit", "Reset all"):
                assert (
                    page.get_by_role("button", name=name).count() == page.get_by_role("link", name=name, exact=True).count() == 0
                )
        page.goto(f"{url}#/connectors/shown/edit")
        expect(page.get_by_text("This page may only show")).to_be_visible()
        status = page.evaluate(
            "fetch('connectors/shown/pause', {method: 'PUT', headers: {'X-Requested-With': 'sluice-ui'}}).then(a => a.status)"
        )
        assert status == 403
    assert worker.client.status("shown")["connector"]["state"] == "RUNNING"


@pytest.mark.timeout(240)
@pytest.mark.long
def test_page_operates_a_worker_of_apache_kafka_connect(broker: EmbeddedBroker, new_page: NewPage, tmp_path: Path) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "offset.flush.interval.ms": "100",
    }
    worker = WorkerProcess(APACHE_STANDALONE, tmp_path, "apache", settings)
    worker.start()
    try:
        worker.wait_until_up()
        file_source = "org.apache.kafka.connect.file.FileStreamSourceConnector"
        (tmp_path / "lines.txt").write_text("one\ntwo\n")
        sink = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "topics": "apache-lines"}
        worker.client.create("broken", {**sink, "file": "/nowhere/x.txt"})
        worker.client.wait_for("broken", "FAILED", timeout_s=WAIT_S)
        with served(worker.url) as url:
            page = new_page(url)
            expect(page.locator("tbody th.name a")).to_have_text(["broken"])
            expect(page.get_by_text("Apache Kafka Connect 4")).to_be_visible()
            expect(page.get_by_text("Rates and lag are missing")).to_be_visible()
            page.locator("tbody th.name a").click()
            failure = page.get_by_role("region", name="Task 0 failed")
            expect(failure).to_contain_text("/nowhere/x.txt")
            expect(page.get_by_role("navigation", name="Parts of broken").get_by_role("link")).to_have_text(
                ["Tasks", "Configuration", "Offsets"]
            )
            expect(page.get_by_text("has no REST resources for them")).to_be_visible()
            page.goto(f"{url}#/new?class={file_source}")
            page.locator("#connector-name").fill("lines")
            page.locator("[id='f-topic']").fill("apache-lines")
            page.locator("[id='f-file']").fill(str(tmp_path / "lines.txt"))
            expect(page.get_by_text("The configuration is valid")).to_be_visible()
            expect(page.get_by_text("No preview of records")).to_be_visible()
            page.get_by_label("Class of the transformation to add").select_option(
                "org.apache.kafka.connect.transforms.InsertField$Value"
            )
            page.get_by_role("button", name="Add transformation").click()
            expect(page.locator("[id='f-transforms.insertFieldValue.static.field']")).to_be_visible()
            page.get_by_role("button", name="Remove insertFieldValue").click()
            page.get_by_role("button", name="Create connector").click()
            page.get_by_role("dialog").get_by_role("button", name="Create").click()
            expect(page.locator(".title .badge")).to_have_text("Running")
            page.get_by_role("link", name="Edit", exact=True).click()
            expect(page.get_by_text("The configuration is valid")).to_be_visible()
            page.locator("[id='f-topic']").fill("apache-lines-2")
            page.get_by_role("button", name="Review and save").click()
            page.get_by_role("dialog").get_by_role("button", name="Save and restart").click()
            expect(page.get_by_text("lines was saved")).to_be_visible()
            assert worker.client.config("lines")["topic"] == "apache-lines-2"
            page.goto(f"{url}#/connectors/lines/offsets")
            page.get_by_role("button", name="Stop lines").click()
            page.get_by_role("dialog").get_by_role("button", name="Stop lines").click()
            expect(page.locator(".title .badge")).to_have_text("Stopped")
            page.get_by_role("button", name="Reset all").click()
            page.get_by_role("dialog").get_by_role("button", name="Reset all offsets").click()
            expect(page.get_by_text("There are no offsets yet")).to_be_visible()
    finally:
        worker.stop()
