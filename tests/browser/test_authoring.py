"""Creating and changing connectors in the web page: form, connection test and table picker with a real PostgreSQL,
transformations with a preview, and the file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from connect.config.properties import parse_properties
from sluice.embedded.postgres import EmbeddedPostgres
from tests.browser import plugins
from tests.browser.conftest import NewPage
from tests.cluster.worker_process import WorkerProcess
from tests.support.postgres_options import postgres_options
from tests.support.waiting import WAIT_S

DATAGEN = "io.confluent.kafka.connect.datagen.DatagenConnector"
INSERT = "org.apache.kafka.connect.transforms.InsertField$Value"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
INCLUDE = "table.include.list"
MASK = "org.apache.kafka.connect.transforms.MaskField$Value"


def new(worker: WorkerProcess, plugin: str) -> str:
    return f"{worker.url}/ui#/new?class={plugin}"


def fill(page: Page, key: str, value: str) -> None:
    """Fills a field, also one in a fold."""
    field = page.locator(f"[id='f-{key}']")
    folded = page.locator("details:not([open])").filter(has=field)
    while folded.count():
        folded.first.locator("> summary").click()
    field.fill(value)


def add(page: Page, class_name: str, what: str = "transformation") -> None:
    page.get_by_label(f"Class of the {what} to add").select_option(class_name)
    page.get_by_role("button", name=f"Add {what}").click()


def file_text(page: Page) -> str:
    return page.locator("pre.file").inner_text()


def test_connector_is_created_from_its_form(worker: WorkerProcess, new_page: NewPage, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("made")
    page = new_page(f"{worker.url}/ui#/new")
    page.get_by_label("Search plugins").fill("datagen")
    page.get_by_role("link", name="Datagen").click()
    expect(page.get_by_text("required value")).to_be_visible()
    page.get_by_role("button", name="Create connector").click()
    expect(page.get_by_text("Give the connector a name")).to_be_visible()
    page.locator("#connector-name").fill("made")
    fill(page, "quickstart", "users")
    fill(page, "max.interval", "often")
    problems = page.get_by_role("region", name="Check")
    expect(problems).to_contain_text("Invalid value often for configuration max.interval")
    expect(page.locator("[id='f-max.interval']")).to_have_attribute("aria-invalid", "true")
    fill(page, "max.interval", "50")
    fill(page, "kafka.topic", topic)
    expect(problems).to_contain_text("The configuration is valid")
    assert dict(parse_properties(file_text(page), "file")) == {
        "name": "made", "connector.class": DATAGEN, "quickstart": "users", "max.interval": "50", "kafka.topic": topic,
    }  # fmt: skip
    page.get_by_role("button", name=".json").click()
    assert json.loads(file_text(page))["config"]["kafka.topic"] == topic
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "made.json"
    assert json.loads(Path(download.value.path()).read_text()) == json.loads(file_text(page))
    page.get_by_role("button", name="Create connector").click()
    expect(page.get_by_role("dialog")).to_contain_text("Create made?")
    page.get_by_role("dialog").get_by_role("button", name="Create").click()
    expect(page.locator(".title .badge")).to_have_text("Running")
    assert worker.client.config("made")["max.interval"] == "50"


def test_recommended_tables_are_picked_and_dependent_keys_appear(
    worker: WorkerProcess, new_page: NewPage, tmp_path: Path
) -> None:
    database = tmp_path / "shop.db"
    with closing(sqlite3.connect(database)) as connection:
        for table in ("orders", "customers", "payments"):
            connection.execute(f"create table {table} (id integer primary key)")
    page = new_page(new(worker, plugins.PATH))
    page.locator("#connector-name").fill("shop")
    fill(page, "database", str(database))
    page.get_by_text("more keys").first.click()
    picker = page.locator(".field").filter(has=page.locator("[id='f-tables']"))
    picker.get_by_label("orders").check()
    picker.get_by_label("payments").check()
    expect(page.locator("[id='f-tables']")).to_have_value("orders,payments")
    expect(picker.get_by_text("2 of 3 chosen")).to_be_visible()
    expect(page.locator("[id='f-pause.ms']")).to_have_count(0)
    fill(page, "mode", "poll")
    expect(page.locator("[id='f-pause.ms']")).to_have_count(1)
    fill(page, "database", "/nowhere/shop.db")
    expect(page.get_by_role("region", name="Connection test")).to_contain_text("This plugin has no connection test")
    page.get_by_role("button", name="Check again").click()
    expect(page.get_by_role("region", name="Check")).to_contain_text("No database at /nowhere/shop.db")


def test_transformations_are_edited_with_a_live_preview(worker: WorkerProcess, new_page: NewPage) -> None:
    page = new_page(new(worker, DATAGEN))
    page.locator("#connector-name").fill("previewed")
    fill(page, "quickstart", "users")
    fill(page, "kafka.topic", "previewed")
    add(page, INSERT)
    fill(page, "transforms.insertFieldValue.static.field", "origin")
    fill(page, "transforms.insertFieldValue.static.value", "shop")
    preview = page.get_by_role("region", name="Preview")
    preview.get_by_role("button", name="Run").click()
    expect(preview).to_contain_text("5 records generated by the connector")
    expect(preview.locator("tr.added")).to_contain_text(["value.origin"])
    user = preview.locator(".fields-table tr").filter(has_text="value.userid").locator("td").last.inner_text()
    # The same records again, without another click.
    add(page, MASK)
    fill(page, "transforms.maskFieldValue.fields", "userid")
    expect(preview.locator("tr.removed")).to_contain_text([user])
    page.get_by_role("button", name="Move maskFieldValue up").click()
    expect(preview.locator(".flow h3")).to_contain_text(["Before", "maskFieldValue", "insertFieldValue", "After"])
    assert "transforms=maskFieldValue,insertFieldValue" in file_text(page)
    add(page, "org.apache.kafka.connect.transforms.predicates.TopicNameMatches", "predicate")
    fill(page, "predicates.topicNameMatches.pattern", "other")
    page.locator("[id='f-transforms.maskFieldValue.predicate']").select_option("topicNameMatches")
    expect(preview.get_by_text("Skipped: the predicate is false")).to_be_visible()
    page.get_by_role("button", name="Remove topicNameMatches").click()
    page.get_by_role("button", name="Remove maskFieldValue").click()
    expect(preview.locator(".flow h3")).to_contain_text(["Before", "insertFieldValue", "After"])
    assert "predicate" not in file_text(page)
    assert "mask" not in file_text(page)


@pytest.mark.long
def test_preview_of_a_sink_reads_its_topic_and_shows_failures(
    worker: WorkerProcess, new_page: NewPage, unique_name: Callable[[str], str]
) -> None:
    topic = unique_name("users")
    made = {"connector.class": "Datagen", "quickstart": "users", "topic": topic, "max.interval": "0", "count": "30"}
    worker.client.create("maker", made)
    worker.wait_for(lambda: [one["records"] for one in worker.client.progress("maker")] == [30], WAIT_S, "records")
    sink = {"connector.class": "FileStreamSink", "topics": topic, "file": "/dev/null"}
    cast = {"transforms": "cast", "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value"}
    worker.client.create("sink", {**sink, **cast, "transforms.cast.spec": "registertime:string"}, initial_state="STOPPED")
    page = new_page(f"{worker.url}/ui#/connectors/sink/edit")
    preview = page.get_by_role("region", name="Preview")
    preview.get_by_role("button", name="Run").click()
    expect(preview).to_contain_text(f"5 records of topic {topic}")
    expect(preview.locator("tr.added")).to_contain_text(["value.registertime"])
    fill(page, "transforms.cast.spec", "userid:int8")
    expect(preview.get_by_role("alert")).to_contain_text("out of range")
    preview.get_by_label("Records", exact=True).select_option("given")
    preview.get_by_label("Records, one JSON value per line").fill('{"userid": "7"}\n{"userid": "x"}')
    preview.get_by_role("button", name="Run").click()
    expect(preview).to_contain_text("2 records")
    expect(preview.locator("tr.added")).to_contain_text(["value.userid"])
    preview.get_by_role("group", name="Record").get_by_role("button", name="2").click()
    expect(preview.get_by_role("alert")).to_be_visible()


def test_edit_shows_differences_and_keeps_secrets_that_are_not_typed(worker: WorkerProcess, new_page: NewPage) -> None:
    config = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/nowhere/a", "db.password": "tricycle-77"}
    worker.client.create("edited", config)
    page = new_page(f"{worker.url}/ui#/connectors/edited/edit")
    expect(page.get_by_label("Stored secret")).to_be_disabled()
    fill(page, "file", "/nowhere/b")
    fill(page, "batch.size", "7")
    expect(page.locator("pre.file")).to_contain_text("batch.size=7")
    page.get_by_role("button", name="Review and save").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("tr.removed")).to_contain_text(["/nowhere/a"])
    expect(dialog.locator("tr.added")).to_contain_text(["batch.size", "/nowhere/b"])
    assert "tricycle" not in page.content()
    dialog.get_by_role("button", name="Save and restart").click()
    expect(page.get_by_text("edited was saved")).to_be_visible()
    expect(page.locator(".title .badge")).to_have_text("Running")
    assert worker.client.config("edited") == {**config, "name": "edited", "file": "/nowhere/b", "batch.size": "7"}


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
