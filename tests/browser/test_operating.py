"""Operating connectors in the web page: what failed, what can be done about it, and what the page says happens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from connect.errors import NotFoundError
from rest.polling import wait_until
from tests.browser.conftest import NewPage
from tests.cluster.worker_process import WorkerProcess
from tests.support.waiting import WAIT_S

SOURCE = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/nowhere/else"}
HOSTILE = "<img src=x onerror=document.title='owned'>"


def ui(worker: WorkerProcess, at: str = "") -> str:
    return f"{worker.url}/ui#/{at}"


def rows(page: Page) -> list[str]:
    return page.locator("tbody th.name a").all_inner_texts()


def confirm(page: Page, button: str) -> None:
    """Confirms the open dialog, and waits until it is done."""
    page.get_by_role("dialog").get_by_role("button", name=button).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_overview_shows_failures_first_and_counts_filter(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("a-source", SOURCE)
    worker.client.create("b-stopped", SOURCE, initial_state="STOPPED")
    worker.client.create("z-broken", {"connector.class": "FileStreamSink", "topics": "lines", "file": "/nowhere/x.txt"})
    worker.client.wait_for("z-broken", "FAILED", timeout_s=WAIT_S)
    page = new_page(ui(worker))
    expect(page.locator("tbody tr")).to_have_count(3)
    assert rows(page) == ["z-broken", "a-source", "b-stopped"]
    first = page.locator("tbody tr").first
    expect(first.locator(".badge")).to_have_text("Failed")
    expect(first.locator(".failure")).to_contain_text("/nowhere/x.txt")
    page.get_by_role("link", name="1 Failed").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "state=FAILED" in page.url
    page.goto(ui(worker, "?type=source&q=STOP"))
    expect(page.locator("tbody tr")).to_have_count(1)
    assert rows(page) == ["b-stopped"]
    page.get_by_role("searchbox").fill("a- filestream")
    expect(page.locator("tbody th.name a")).to_have_text(["a-source"])
    page.get_by_role("searchbox").fill("nothing like it")
    expect(page.get_by_text("No connector matches")).to_be_visible()


@pytest.mark.long
def test_overview_without_connectors_says_how_to_begin(worker: WorkerProcess, new_page: NewPage) -> None:
    page = new_page(ui(worker))
    expect(page.get_by_role("heading", name="No connectors yet")).to_be_visible()
    page.get_by_role("link", name="Create a connector").click()
    expect(page.get_by_role("heading", name="New connector")).to_be_visible()


@pytest.mark.long
def test_hostile_names_and_traces_are_only_text(worker: WorkerProcess, new_page: NewPage) -> None:
    name = "<b>x&amp;"
    worker.client.create(name, {"connector.class": "FileStreamSink", "topics": "lines", "file": f"/nowhere/{HOSTILE}"})
    worker.client.wait_for(name, "FAILED", timeout_s=WAIT_S)
    page = new_page(ui(worker))
    expect(page.locator("tbody th.name a")).to_have_text(name)
    expect(page.locator(".failure")).to_contain_text(HOSTILE)
    page.locator("tbody th.name a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_text("Full trace").click()
    expect(page.locator("pre.trace")).to_contain_text(HOSTILE)
    for tab in ("config", "history", "offsets", "edit"):
        page.goto(ui(worker, f"connectors/{quote(name, safe='')}/{tab}"))
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    assert page.locator("main img, main b").count() == 0
    assert "owned" not in page.title()


def test_selected_connectors_are_paused_together(worker: WorkerProcess, new_page: NewPage) -> None:
    for name in ("one", "two", "three"):
        worker.client.create(name, SOURCE)
        worker.client.wait_for(name, timeout_s=WAIT_S)
    page = new_page(ui(worker))
    for name in ("one", "two"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    toolbar = page.get_by_role("toolbar", name="Selected connectors")
    expect(toolbar).to_contain_text("2 connectors selected")
    toolbar.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Pause 2 connectors?")
    expect(dialog.get_by_role("listitem")).to_have_text(["one", "two"])
    confirm(page, "Pause 2")
    expect(page.get_by_role("link", name="2 Paused")).to_be_visible()
    expect(toolbar).to_have_count(0)
    worker.client.wait_for("two", "PAUSED", timeout_s=WAIT_S)
    assert worker.client.status("three")["connector"]["state"] == "RUNNING"


def test_failed_task_shows_its_cause_and_is_restarted(worker: WorkerProcess, new_page: NewPage, tmp_path: Path) -> None:
    target = tmp_path / "later" / "copy.txt"
    worker.client.create("copy", {"connector.class": "FileStreamSink", "topics": "lines", "file": str(target)})
    worker.client.wait_for("copy", "FAILED", timeout_s=WAIT_S)
    page = new_page(ui(worker, "connectors/copy"))
    failure = page.get_by_role("region", name="Task 0 failed")
    expect(failure).to_contain_text(str(target))
    expect(failure.locator("pre")).not_to_be_visible()
    failure.get_by_text("Full trace").click()
    expect(failure.locator("pre")).to_contain_text("ConnectException")
    target.parent.mkdir()
    page.get_by_role("button", name="Restart failed").click()
    expect(page.get_by_role("dialog")).to_contain_text("Restart what failed of copy?")
    confirm(page, "Restart failed copy")
    expect(page.get_by_role("status").filter(has_text="copy is running")).to_be_visible()
    expect(page.locator(".title .badge")).to_have_text("Running")
    page.get_by_role("button", name="Restart task 0").click()
    confirm(page, "Restart task 0")
    expect(page.locator(".tasks .badge")).to_have_text("Running")


def test_connector_is_stopped_resumed_and_deleted(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("life", SOURCE)
    page = new_page(ui(worker, "connectors/life"))
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.locator(".title .badge")).to_have_text("Running")
    page.get_by_role("button", name="Stop", exact=True).click()
    confirm(page, "Stop life")
    expect(page.locator(".title .badge")).to_have_text("Stopped")
    page.get_by_role("button", name="Resume").click()
    confirm(page, "Resume life")
    expect(page.locator(".title .badge")).to_have_text("Running")
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("Delete life?")
    confirm(page, "Delete life")
    expect(page.get_by_text("life was deleted")).to_be_visible()
    assert worker.client.connectors() == []


@pytest.mark.long
def test_refused_change_is_explained_in_its_dialog(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("gone", SOURCE)
    page = new_page(ui(worker, "connectors/gone"))
    page.get_by_role("button", name="Pause").click()
    worker.client.delete("gone")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Pause gone").click()
    expect(dialog.get_by_role("alert")).to_contain_text("gone")


def test_rates_and_lag_are_shown_live(worker: WorkerProcess, new_page: NewPage, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("users")
    worker.client.create("made", {"connector.class": "Datagen", "quickstart": "users", "topic": topic, "max.interval": "20"})
    page = new_page(ui(worker))
    expect(page.locator("td[data-label='Records/s']")).to_have_text(re.compile(r"^[1-9]"))
    page.locator("tbody th.name a").click()
    page.get_by_role("link", name="Activity").click()
    figure = page.locator("figure.spark").first
    expect(figure).to_contain_text("Records/s")
    expect(figure.locator("strong")).to_have_text(re.compile(r"^[1-9]"))
    expect(figure.get_by_role("img")).to_have_attribute("aria-label", re.compile("^Records/s: now "))


def test_offsets_change_only_when_stopped_with_before_and_after_and_undo(
    worker: WorkerProcess, new_page: NewPage, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    worker.client.create("reader", {"connector.class": "FileStreamSource", "topic": unique_name("lines"), "file": str(file)})
    worker.wait_for(lambda: worker.client.offsets("reader") != [], WAIT_S, "offsets")
    page = new_page(ui(worker, "connectors/reader/offsets"))
    expect(page.get_by_role("button", name="Reset all")).to_be_disabled()
    page.get_by_role("button", name="Stop reader").click()
    confirm(page, "Stop reader")
    page.get_by_role("region", name="Offsets", exact=True).get_by_role("button", name="Edit").click()
    field = page.get_by_role("textbox", name="Offset of")
    expect(field).to_have_value('{"position":8}')
    field.fill("4")
    expect(page.get_by_text("Expected an object")).to_be_visible()
    expect(page.get_by_role("button", name="Review change")).to_be_disabled()
    field.fill('{"position": 4}')
    page.get_by_role("button", name="Review change").click()
    cells = page.get_by_role("dialog").locator("td")
    expect(cells).to_have_text(['{"position":8}', '{"position":4}'])
    confirm(page, "Change 1 offset")
    expect(page.locator(".offsets td")).to_have_text('{"position":4}')
    assert worker.client.offsets("reader")[0]["offset"] == {"position": 4}
    page.get_by_role("button", name="Undo last change").click()
    confirm(page, "Change 1 offset")
    expect(page.locator(".offsets td")).to_have_text('{"position":8}')
    page.get_by_role("button", name="Reset all").click()
    confirm(page, "Reset all offsets")
    expect(page.get_by_text("There are no offsets yet")).to_be_visible()
    assert worker.client.offsets("reader") == []
    page.get_by_role("button", name="Resume reader").click()
    expect(page.locator(".title .badge")).to_have_text("Running")


def test_configuration_hides_secrets_and_history_restores(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("old", {**SOURCE, "db.password": "tricycle-77", "url": "jdbc:x://u:unicycle@h/d"})
    worker.client.put_config("old", {**SOURCE, "db.password": "tandem-88", "url": "jdbc:x://u:unicycle@h/d", "topic": "other"})
    page = new_page(ui(worker, "connectors/old/config"))
    row = page.locator(".config tr").filter(has_text="db.password")
    expect(row.locator("td")).to_have_text("[hidden]")
    expect(page.locator(".config tr").filter(has_text="url").locator("td")).to_have_text("jdbc:x://u:[hidden]@h/d")
    with page.expect_download() as download:
        page.get_by_role("button", name=".properties").click()
    text = Path(download.value.path()).read_text()
    assert "topic=other\n" in text
    assert "tandem" not in text
    assert "unicycle" not in text
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name="Version 1").click()
    diff = page.get_by_role("region", name="Changed keys")
    expect(diff.locator("tr.removed")).to_contain_text(["db.password", "lines"])
    expect(diff.locator("tr.added")).to_contain_text(["[hidden]", "other"])
    content = page.content()
    page.get_by_role("button", name="Restore version 1").click()
    confirm(page, "Restore version 1")
    expect(page.get_by_text("No difference.")).to_be_visible()
    assert worker.client.config("old")["topic"] == "lines"
    assert not re.search("tricycle|tandem|unicycle", content + page.content())


@pytest.mark.long
def test_keyboard_moves_selects_searches_and_lists_its_shortcuts(worker: WorkerProcess, new_page: NewPage) -> None:
    for name in ("k1", "k2"):
        worker.client.create(name, SOURCE, initial_state="STOPPED")
    page = new_page(ui(worker))
    expect(page.locator("tbody tr")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="k2")).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_role("checkbox", name="Select k2")).to_be_checked()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("k1?")
    expect(page.get_by_role("searchbox")).to_have_value("k1?")
    page.get_by_role("searchbox").fill("k1")
    page.get_by_role("link", name="k1").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("k1")
    page.keyboard.press("3")
    expect(page.get_by_role("link", name="Configuration")).to_have_attribute("aria-current", "page")


@pytest.mark.long
def test_pages_fit_a_phone_and_follow_the_theme(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("a-connector-with-a-name-that-is-quite-long-for-a-phone", SOURCE)
    page = new_page(ui(worker), width=390, height=844, color_scheme="dark")
    expect(page.locator("tbody tr")).to_have_count(1)
    (name,) = rows(page)
    for at in ("", *(f"connectors/{name}/{tab}" for tab in ("tasks", "config", "history", "offsets", "logs", "edit")), "new"):
        page.goto(ui(worker, at))
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, at
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Theme: as the system").click()
    assert page.evaluate(background) != dark
    page.reload()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert page.evaluate(background) != dark


_UNNAMED = """controls => controls.filter(one => !(one.ariaLabel || one.textContent.trim()
    || [...(one.labels ?? [])].map(label => label.textContent).join("").trim())).map(one => one.outerHTML)"""


@pytest.mark.long
def test_every_control_has_a_name(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("named", SOURCE)
    page = new_page(ui(worker))
    places = {"": "tbody tr", "connectors/named": ".tasks", "connectors/named/edit": ".field", "new": ".plugins"}
    for at, content in places.items():
        page.goto(ui(worker, at))
        expect(page.locator(content).first).to_be_visible()
        controls = page.locator("button:visible, input:visible, select:visible, textarea:visible, a:visible")
        assert controls.evaluate_all(_UNNAMED) == [], at
        assert page.get_by_role("main").count() == page.get_by_role("banner").count() == 1


@pytest.mark.long
def test_worker_that_goes_and_comes_back_is_noticed(worker: WorkerProcess, new_page: NewPage) -> None:
    worker.client.create("still", SOURCE)
    page = new_page(ui(worker))
    expect(page.locator("tbody tr")).to_have_count(1)
    page.route("**/connectors?**", lambda route: route.abort())
    expect(page.get_by_text("This list is not up to date")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.unroute("**/connectors?**")
    expect(page.get_by_text("This list is not up to date")).to_have_count(0)


def test_answer_401_leads_to_the_login(worker: WorkerProcess, new_page: NewPage) -> None:
    page = new_page(ui(worker))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    body = json.dumps({"error_code": 401, "message": "no"})
    page.route("**/connectors?**", lambda route: route.fulfill(status=401, content_type="application/json", body=body))
    expect(page.get_by_role("link", name="Sign in")).to_have_attribute("href", "ui/login")


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
