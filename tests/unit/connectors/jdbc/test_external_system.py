"""Connection tests of the JDBC connectors on databases in files, and the tables that they list."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connect.connector import Connector
from connect.errors import ConfigError
from connect.paths import PathRules, install_path_rules
from connect.plugins import Plugins
from connect.testing import check_external_system
from connectors.jdbc import JdbcSink, JdbcSource, external_system
from connectors.jdbc.dialects.sqlite import catalog
from connectors.jdbc.dialects.sqlite.dialect import SqliteDialect
from tests.support.waiting import WAIT_S, call_with_timeout
from worker.model import SystemQuestion
from worker.validation.external_systems import answer_about_system

SOURCE = {"connector.class": "JdbcSource"}
SINK = {"connector.class": "JdbcSink"}


def ask(question: SystemQuestion, *configs: Mapping[str, str]) -> dict[str, Any]:
    values = {key: value for config in configs for key, value in config.items()}
    return answer_about_system(Plugins.discover(), values, question)


def steps_of(*configs: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in ask(SystemQuestion.CONNECTION_TEST, *configs)["steps"]}


def codes(step: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    return [(finding["code"], finding["path"]) for finding in step["findings"]]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table orders (id integer primary key, at text)")
        connection.execute("create table notes (body text)")
        connection.execute("create view recent as select * from orders")
    return path


def test_source_steps_end_with_the_columns_that_its_mode_needs(shop: Path) -> None:
    config = {**SOURCE, "connection.url": f"jdbc:sqlite:{shop}", "topic.prefix": "t", "mode": "incrementing"}
    steps = steps_of(config, {"incrementing.column.name": "id", "table.whitelist": "orders,absent"})
    assert list(steps) == ["File", "Driver", "Connection", "Tables", "Columns"]
    assert codes(steps["Tables"]) == [("no-table", "table.whitelist")]
    assert steps["Tables"]["detail"] == "1 selected: orders"
    assert steps["Columns"]["state"] == "passed"
    steps = steps_of(config, {"incrementing.column.name": "body", "table.whitelist": "orders"})
    assert steps["Columns"]["state"] == "failed"


@pytest.mark.parametrize("connector", [JdbcSource, JdbcSink])
def test_system_conforms(connector: type[Connector], shop: Path, tmp_path: Path) -> None:
    config = {"connection.url": f"jdbc:sqlite:{shop}", "topic.prefix": "t", "mode": "bulk"}
    check_external_system(connector, config, {**config, "connection.url": f"jdbc:sqlite:{tmp_path}/absent/x.db"})


def test_conformance_check_finds_an_entry_that_selects_too_much(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.jdbc.external_system.regex_entry", lambda *parts: ".*")
    with pytest.raises(AssertionError, match=r"the entry \.\* of notes selects"):
        check_external_system(JdbcSource, {"connection.url": f"jdbc:sqlite:{shop}"})


def test_wrong_urls_name_the_key(tmp_path: Path) -> None:
    def failed(url: str, config: Mapping[str, str] = SOURCE) -> tuple[str, list[tuple[str, str | None]]]:
        (step,) = ask(SystemQuestion.CONNECTION_TEST, config, {"connection.url": url})["steps"]
        return step["name"], codes(step)

    url = "connection.url"
    assert failed("jdbc:nodb://x") == ("Configuration", [("invalid-config", url)])
    assert failed(f"jdbc:sqlite:{tmp_path}/absent.db") == ("File", [("no-file", url)])
    assert failed(f"jdbc:sqlite:{tmp_path}/absent/sink.db", SINK) == ("File", [("no-file", url)])


def test_sink_that_will_create_its_file_creates_nothing_in_a_test(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    steps = steps_of(SINK, {"connection.url": f"jdbc:sqlite:{path}"})
    assert steps["File"]["detail"] == f"{path} will be created"
    assert ask(SystemQuestion.DATA_COLLECTIONS, SINK, {"connection.url": f"jdbc:sqlite:{path}"})["collections"] == []
    assert not path.exists()


def test_sqlite_tables_are_listed_with_their_keys(shop: Path) -> None:
    answer = ask(SystemQuestion.DATA_COLLECTIONS, SOURCE, {"connection.url": f"jdbc:sqlite:{shop}", "poll.interval.ms": "often"})
    found = [(one["name"], one["entry"], one["kind"], one["has_primary_key"]) for one in answer["collections"]]
    assert found == [("notes", "notes", "table", False), ("orders", "orders", "table", True)]
    assert [key["form"] for key in answer["keys"]] == ["name", "name", "regex", "regex"]
    views = ask(SystemQuestion.DATA_COLLECTIONS, SOURCE, {"connection.url": f"jdbc:sqlite:{shop}", "table.types": "VIEW"})
    assert [(one["name"], one["kind"], one["has_primary_key"]) for one in views["collections"]] == [("recent", "view", None)]


def test_duckdb_tables_are_listed_with_estimates(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute("create table orders (id int primary key); insert into orders select * from range(40)")
    config = {"connection.url": f"jdbc:duckdb:{path}"}
    (orders,) = ask(SystemQuestion.DATA_COLLECTIONS, SOURCE, config)["collections"]
    assert (orders["name"], orders["schema"], orders["rows"], orders["has_primary_key"]) == ("main.orders", "main", 40, True)
    assert steps_of(SINK, config)["Tables"]["detail"] == "the user sees 1 tables"


@pytest.mark.parametrize(("config", "connector"), [(SOURCE, JdbcSource), (SINK, JdbcSink)])
def test_nobody_learns_which_files_there_are_outside_the_allowed_paths(
    config: Mapping[str, str], connector: type[Connector], shop: Path, tmp_path: Path
) -> None:
    install_path_rules(PathRules.of(["/nowhere"]))
    try:
        answers = set()
        for path in (shop, tmp_path / "absent.db", tmp_path / "absent" / "shop.db"):
            given = {**config, "connection.url": f"jdbc:sqlite:{path}", "topic.prefix": "t", "mode": "bulk", "topics": "t"}
            (step,) = ask(SystemQuestion.CONNECTION_TEST, given)["steps"]
            with pytest.raises(ConfigError) as refused:
                ask(SystemQuestion.DATA_COLLECTIONS, given)
            errors = [error for value in connector().validate(given) for error in value.errors]
            found = f"{step['findings']} {refused.value.message} {errors}"
            assert found.count("is not allowed on this worker") == 3, found
            answers.add(found.replace(str(path), "PATH"))
        assert len(answers) == 1
    finally:
        install_path_rules(PathRules())


def test_sink_is_tested_while_another_process_reads_its_duckdb_file(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    duckdb.connect(str(path)).close()
    reader = "import sys, duckdb; con = duckdb.connect(sys.argv[1], read_only=True); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", reader, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        answer = ask(SystemQuestion.CONNECTION_TEST, SINK, {"connection.url": f"jdbc:duckdb:{path}"})
        holder.communicate(b"\n")
    assert answer["state"] == "passed", answer


def test_tables_are_listed_without_estimates_if_these_cannot_be_read(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_KEYED", "SELECT nothing")
    answer = ask(SystemQuestion.DATA_COLLECTIONS, SOURCE, {"connection.url": f"jdbc:sqlite:{shop}"})
    assert [(one["name"], one["has_primary_key"]) for one in answer["collections"]] == [("notes", None), ("orders", None)]


def test_advice_for_tables_without_a_key_names_no_key_of_the_other_direction(shop: Path) -> None:
    def advice(config: Mapping[str, str]) -> str:
        notes, _, *_ = ask(SystemQuestion.DATA_COLLECTIONS, config, {"connection.url": f"jdbc:sqlite:{shop}"})["collections"]
        (finding,) = notes["findings"]
        return str(finding["suggestion"])

    assert "key.columns" in advice(SOURCE)
    assert "key.columns" not in advice(SINK)
    assert "upserts" in advice(SINK)


def test_estimates_of_duckdb_are_those_of_the_database_that_the_pattern_names(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute("create table orders (id int primary key); insert into orders select * from range(40)")
    config = {"connection.url": f"jdbc:duckdb:{path}", "catalog.pattern": "shop"}
    (orders,) = ask(SystemQuestion.DATA_COLLECTIONS, SOURCE, config)["collections"]
    assert (orders["name"], orders["rows"]) == ("shop.main.orders", 40)


def test_system_closes_although_the_server_does_not_answer_a_request_to_cancel(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers = threading.Event(), threading.Event()

    def cancel(*_: object) -> None:
        asked.set()
        answers.wait()

    monkeypatch.setattr(external_system, "_CANCEL_TIMEOUT_S", 0.05)
    monkeypatch.setattr(SqliteDialect, "cancel", cancel)
    system = JdbcSink().external_system({"connection.url": f"jdbc:sqlite:{shop}", "topics": "t"})
    steps = system.test_connection()
    while next(steps).name != "Connection":
        pass
    system.cancel()
    assert asked.wait(WAIT_S)
    list(steps)
    try:
        call_with_timeout(system.close, "close()")
    finally:
        answers.set()
