"""The overview of the web page with 600 connectors in headless Chromium: time until it is interactive, with an empty and a filled
cache; and the request behind it, ``GET /connectors?expand=status``. Medians; the worker's CPU time while one page follows it."""

from __future__ import annotations

import json
import statistics
import time
import urllib.request
from functools import partial

from playwright.sync_api import Browser

from benchmarks.environment import STRING, environment, rest
from benchmarks.measure import Measured
from rest.client import ConnectClient
from tests.support.chromium import chromium

CONNECTORS = 600
RUNNING = 20
LOOKS = 7
REQUESTS = 30
FOLLOW_S = 20.0
ASKED = {"interactive_ms": 1000}

# Two frames after the first row: it is painted, and its handlers are there.
_WATCH = """new MutationObserver((_, observer) => {
  if (!document.querySelector("table.list tbody tr")) return;
  observer.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.interactiveAt = performance.now(); }));
}).observe(document, {subtree: true, childList: true});"""


def _is_ready(port: int) -> bool:
    return bool(rest(port, "/connectors") == [])


def _create(client: ConnectClient, topic: str) -> None:
    config = {"connector.class": "FileStreamSource", "file": "/nowhere/lines.txt", "topic": topic}
    for number in range(CONNECTORS):
        client.create(f"connector-{number:03}", config, initial_state=None if number < RUNNING else "STOPPED")


def _interactive_ms(browser: Browser, url: str) -> tuple[float, float]:
    """The first visit of a new profile, and a reload."""
    context = browser.new_context(viewport={"width": 1366, "height": 800})
    page = context.new_page()
    page.add_init_script(_WATCH)
    found = []
    for is_first in (True, False):
        if is_first:
            page.goto(url)
        else:
            page.reload()
        page.wait_for_selector("table.list tbody tr")
        while (at := page.evaluate("window.interactiveAt")) is None:
            page.wait_for_timeout(10)
        found.append(float(at))
    context.close()
    return found[0], found[1]


def _request_ms(url: str) -> float:
    started_at = time.monotonic()
    with urllib.request.urlopen(url, timeout=30) as answer:
        answer.read()
    return (time.monotonic() - started_at) * 1000


def main() -> None:
    with environment() as here, chromium() as browser:
        command, port = here.worker_command({"key.converter": STRING, "value.converter": STRING}, [])
        with Measured(command, here.home / "log") as worker:
            worker.wait_until(partial(_is_ready, port), 60)
            with ConnectClient(f"http://127.0.0.1:{port}") as client:
                _create(client, "lines")
            url = f"http://127.0.0.1:{port}"
            looks = [_interactive_ms(browser, f"{url}/ui") for _ in range(LOOKS)]
            requests = sorted(_request_ms(f"{url}/connectors?expand=status") for _ in range(REQUESTS))
            page = browser.new_page()
            page.goto(f"{url}/ui")
            page.wait_for_selector("table.list tbody tr")
            cpu_s, started_at = worker.cpu_s(), time.monotonic()
            page.wait_for_timeout(FOLLOW_S * 1000)
            cores = (worker.cpu_s() - cpu_s) / (time.monotonic() - started_at)
    line = {
        "benchmark": "ui_overview",
        "connectors": CONNECTORS,
        "interactive_ms": round(statistics.median(first for first, _ in looks)),
        "reload_ms": round(statistics.median(again for _, again in looks)),
        "status_p50_ms": round(statistics.median(requests), 1),
        "worker_cores_while_open": round(cores, 3),
        "asked": ASKED,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
