"""Answers that arrive after a part of the page is rendered and before its effects run, which a busy browser does later."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import NewPage
from tests.cluster.worker_process import WorkerProcess

SOURCE = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/nowhere/else"}
FRAMES_MS = 200
"""The effects of a part run within this time of the page."""
IDLE_MS = 2000
"""Then a page loads its other parts."""


def page_with_clock(new_page: NewPage) -> Page:
    """A page whose timers and frames wait for the test."""
    page = new_page("about:blank")
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    return page


@pytest.mark.long
def test_page_loaded_in_advance_just_after_it_was_opened_is_shown(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("c", SOURCE)
    page = page_with_clock(new_page)
    page.goto(f"{worker.url}/ui#/")
    page.clock.run_for(FRAMES_MS)
    expect(page.locator("tbody tr")).to_have_count(1)
    held: list[Route] = []
    page.route("**/connector/page.js", lambda route: held.append(route))
    with page.expect_request("**/connector/page.js") as module:
        page.clock.run_for(IDLE_MS)
    page.get_by_role("link", name="c", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Loading")).to_be_visible()
    held[0].continue_()
    page.evaluate("address => import(address).then(() => true)", module.value.url)
    page.clock.resume()
    expect(page.get_by_role("heading", level=1)).to_have_text("c")


@pytest.mark.long
def test_list_that_arrives_just_after_the_overview_was_rendered_is_shown(worker: WorkerProcess, new_page: NewPage) -> None:
    page = page_with_clock(new_page)
    held: list[Route] = []
    page.route("**/connectors?**", lambda route: held.append(route), times=1)
    page.goto(f"{worker.url}/ui#/")
    page.clock.run_for(FRAMES_MS)
    expect(page.locator(".cluster")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Loading")).to_be_visible()
    with page.expect_event("requestfinished", lambda request: request == held[0].request):
        held[0].continue_()
    page.evaluate("fetch('ui/settings.json').then(answer => answer.text())")  # later than the list
    page.clock.resume()
    expect(page.get_by_role("heading", name="No connectors yet")).to_be_visible()


@pytest.mark.long
def test_address_that_changes_before_the_first_frame_is_followed(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("c", SOURCE)
    page = page_with_clock(new_page)
    page.goto(f"{worker.url}/ui#/")
    expect(page.get_by_role("banner")).to_be_visible()
    page.evaluate("new Promise(done => { addEventListener('hashchange', () => done(true)); location.hash = '#/connectors/c' })")
    page.clock.resume()
    expect(page.get_by_role("heading", level=1)).to_have_text("c")
