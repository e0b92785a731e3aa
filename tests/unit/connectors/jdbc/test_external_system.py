"""Connection tests of the JDBC connectors on databases in files, and the tables that they list."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connect.connector import Connector
from connect.plugins import Plugins
from connect.testing import check_external_system
from connectors.jdbc import JdbcSink, JdbcSource
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
