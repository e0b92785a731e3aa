"""A browser, and a worker for it: standalone, with the session's broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page

from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.worker_process import SLUICE_STANDALONE, WorkerProcess
from tests.support.chromium import TIMEOUT_MS, chromium

NewPage = Callable[..., Page]


# Not of the session: until Playwright ends, other tests of the process cannot run an event loop.
@pytest.fixture(scope="module")
def _browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def new_page(_browser: Browser) -> Iterator[NewPage]:
    """Opens pages, each in a browser context of its own. A test fails if a page's script fails or breaks its policy."""
    contexts = []
    failures: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        # What a worker does not have is 404, which the browser logs.
        if message.type == "error" and "Failed to load resource" not in message.text:
            failures.append(message.text)

    def open_page(url: str, *, width: int = 1366, height: int = 800, color_scheme: Literal["dark", "light"] = "light") -> Page:
        context = _browser.new_context(viewport={"width": width, "height": height}, color_scheme=color_scheme)
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("console", on_console)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert failures == []


@pytest.fixture(scope="session")
def _worker(_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    home = tmp_path_factory.mktemp("browser")
    settings = {
        "bootstrap.servers": _broker.bootstrap,
        "key.converter": "JsonConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": str(home / "offsets"),
        "offset.flush.interval.ms": "200",
        "task.executors": "1",
    }
    worker = WorkerProcess(SLUICE_STANDALONE, home, "worker", settings)
    worker.start()
    worker.wait_until_up()
    yield worker
    worker.stop()


@pytest.fixture
def worker(_worker: WorkerProcess, broker: EmbeddedBroker) -> Iterator[WorkerProcess]:
    """The session's worker, without connectors."""
    yield _worker
    for name in _worker.client.connectors():
        _worker.client.delete(name)
