"""Connection tests and the table picker of the web page, with a real PostgreSQL."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from sluice.embedded.postgres import EmbeddedPostgres
from tests.browser.conftest import NewPage
from tests.cluster.worker_process import WorkerProcess
from tests.support.postgres_options import postgres_options

POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
INCLUDE = "table.include.list"


def form(page: Page, options: dict[str, str]) -> None:
    page.locator("#connector-name").fill("shop")
    for key, value in options.items():
        field = page.locator(f"[id='f-{key}']")
        folded = page.locator("details:not([open])").filter(has=field)
        while folded.count():
            folded.first.locator("> summary").click()
        if field.evaluate("one => one.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)


def open_picker(page: Page) -> Locator:
    button = page.get_by_role("button", name=f"Choose tables for {INCLUDE}")
    folded = page.locator("details:not([open])").filter(has=button)
    while folded.count():
        folded.first.locator("> summary").click()
    button.click()
    return page.get_by_role("dialog", name=f"Tables for {INCLUDE}")


@pytest.fixture
def options(postgres: EmbeddedPostgres, database: str) -> dict[str, str]:
    found = postgres_options(postgres, database)
    del found["plugin.name"]
    return found


def test_connection_test_shows_each_step_and_what_to_do(
    worker: WorkerProcess, new_page: NewPage, postgres: EmbeddedPostgres, database: str, options: dict[str, str]
) -> None:
    with postgres.connect(database, autocommit=True) as db:
        db.execute("create table orders (id int primary key); create table notes (body text)")
    page = new_page(f"{worker.url}/ui#/new?class={POSTGRES}")
    form(page, {**options, "database.password": "no-such-77", "topic.prefix": "shop"})
    panel = page.get_by_role("region", name="Connection test")
    panel.get_by_role("button", name="Test connection").click()
    expect(panel).to_contain_text("The connection does not work")
    expect(panel).to_contain_text("Check database.user and database.password")
    assert "no-such-77" not in panel.inner_text()
    panel.get_by_role("link", name="database.password").click()
    expect(page.locator("[id='f-database.password']")).to_be_focused()
    form(page, options)
    expect(panel).to_contain_text("before your last change")
    panel.get_by_role("button", name="Test connection").click()
    expect(panel).to_contain_text("The connection works, with warnings")
    expect(panel.get_by_role("listitem").filter(has_text="wal_level")).to_contain_text("logical")
    keys = panel.get_by_role("listitem").filter(has_text="Keys and replica identity")
    expect(keys).to_contain_text('ALTER TABLE "public"."notes" REPLICA IDENTITY FULL')


@pytest.mark.long
def test_tables_are_chosen_by_keyboard_search_and_schema(
    worker: WorkerProcess, new_page: NewPage, postgres: EmbeddedPostgres, database: str, options: dict[str, str]
) -> None:
    with postgres.connect(database, autocommit=True) as db:
        db.execute("create schema sales; create schema hr; create table hr.people (id int primary key)")
        db.execute("create table sales.orders (id int primary key); create table sales.notes (body text)")
        db.execute('create table sales."odd (one)" (id int primary key)')
    page = new_page(f"{worker.url}/ui#/new?class={POSTGRES}", color_scheme="dark")
    form(page, {**options, "topic.prefix": "shop", INCLUDE: "hr[.].*"})
    dialog = open_picker(page)
    expect(dialog.get_by_role("status")).to_contain_text("1 of 4 tables chosen")
    expect(dialog.get_by_role("checkbox", name="people")).to_be_disabled()
    expect(dialog).to_contain_text("chosen by hr[.].*")
    expect(dialog).to_contain_text("sales.notes has no primary key")
    search = dialog.get_by_label("Search tables")
    expect(search).to_be_focused()
    page.keyboard.type("orders")
    expect(dialog.get_by_role("status")).to_contain_text("1 match")
    dialog.get_by_role("checkbox", name="orders").press("Space")
    search.fill("")
    dialog.get_by_role("checkbox", name="odd (one)").check()
    page.keyboard.press("Enter")
    field = page.locator(f"[id='f-{INCLUDE}']")
    expect(field).to_have_value(r"hr[.].*,sales.odd \(one\),sales.orders")
    dialog = open_picker(page)
    dialog.get_by_role("checkbox", name="All tables of sales").check()
    expect(dialog).to_contain_text("1 chosen table has no key")
    page.keyboard.press("Escape")
    expect(field).to_have_value(r"hr[.].*,sales.odd \(one\),sales.orders")
    expect(page.get_by_role("region", name="Check")).to_contain_text("The configuration is valid")


@pytest.mark.long
def test_picker_stays_usable_with_5000_tables(
    worker: WorkerProcess, new_page: NewPage, postgres: EmbeddedPostgres, database: str, options: dict[str, str]
) -> None:
    create = "do $$ begin for n in {0}..{1} loop execute format('create table t_%s ()', n); end loop; end $$"
    with postgres.connect(database, autocommit=True) as db:
        for first in range(1, 5001, 500):
            db.execute(create.format(first, first + 499))
    page = new_page(f"{worker.url}/ui#/new?class={POSTGRES}")
    form(page, options)
    dialog = open_picker(page)
    expect(dialog.get_by_role("status")).to_contain_text("0 of 5,000 tables chosen")
    expect(dialog.locator(".table-row")).to_have_count(100)
    dialog.get_by_label("Search tables").fill("t_49")
    dialog.get_by_role("button", name="Select all matching (111)").click()
    expect(dialog.get_by_role("status")).to_contain_text("111 of 5,000 tables chosen")
    dialog.get_by_role("button", name="Use 111 entries").click()
    value = page.locator(f"[id='f-{INCLUDE}']").input_value()
    assert len(value.split(",")) == 111
    assert value.startswith("public.t_49,public.t_490,")


@pytest.mark.long
def test_list_that_fails_says_why_and_can_be_repeated(worker: WorkerProcess, new_page: NewPage, options: dict[str, str]) -> None:
    page = new_page(f"{worker.url}/ui#/new?class={POSTGRES}")
    form(page, {**options, "database.dbname": "nowhere"})
    dialog = open_picker(page)
    expect(dialog.get_by_role("alert")).to_contain_text("has no database nowhere: check database.dbname")
    expect(dialog.get_by_role("button", name="Try again")).to_be_enabled()
