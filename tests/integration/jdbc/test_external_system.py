"""Connection tests of the JDBC connectors on servers, and the tables that they list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.plugins import Plugins
from connectors.jdbc.database import ConnectionSettings, Database
from connectors.jdbc.urls.connection_url import parse_connection_url
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres
from worker.model import SystemQuestion
from worker.validation.external_systems import answer_about_system


def ask(connector: str, config: Mapping[str, str], question: SystemQuestion) -> dict[str, Any]:
    return answer_about_system(Plugins.discover(), {"connector.class": connector, **config}, question)


def check(config: Mapping[str, str], schema: str) -> None:
    (orders, notes) = ask("JdbcSource", config, SystemQuestion.DATA_COLLECTIONS)["collections"][::-1]
    assert (orders["name"], orders["schema"], orders["has_primary_key"]) == (f"{schema}.orders", schema, True)
    assert orders["rows"] == 2
    assert orders["size_bytes"] > 0
    assert [finding["code"] for finding in notes["findings"]] == ["no-primary-key"]
    for connector in ("JdbcSource", "JdbcSink", "io.debezium.connector.jdbc.JdbcSinkConnector"):
        names = {"connection.username": config["connection.user"]} if "debezium" in connector else {}
        answer = ask(connector, {**config, **names}, SystemQuestion.CONNECTION_TEST)
        assert answer["state"] == "passed", answer
        assert [step["name"] for step in answer["steps"]][:3] == ["Driver", "Connection", "Tables"]
    wrong = ask("JdbcSource", {**config, "connection.password": "no-such-77"}, SystemQuestion.CONNECTION_TEST)
    (finding,) = wrong["steps"][-1]["findings"]
    assert (finding["code"], finding["path"]) == ("authentication-failed", "connection.password")
    assert "no-such-77" not in str(wrong)


def tables_with_statistics(config: Mapping[str, str], **patterns: str) -> set[str]:
    target = parse_connection_url(config["connection.url"], config["connection.user"], config["connection.password"], {})
    database = Database(ConnectionSettings(target, attempts=1))
    session = database.session()
    try:
        return {str(name) for name in session.dialect.statistics(session, **patterns)}
    finally:
        session.close()
        database.close()


def test_postgresql(postgres: EmbeddedPostgres, database: str) -> None:
    with postgres.connect(database, autocommit=True) as db:
        db.execute("create table orders (id int primary key); create table notes (body text)")
        db.execute("insert into orders values (1), (2); analyze")
        url = f"jdbc:postgresql://{postgres.host}:{postgres.port}/{database}"
        config = {"connection.url": url, "connection.user": postgres.user, "connection.password": postgres.password}
        check(config, "public")
        db.execute("create schema other; create table other.more (id int)")
        own = {"public.orders", "public.notes"}
        assert own | {"other.more"} <= tables_with_statistics(config)
        assert tables_with_statistics(config, schema="publi_") == own
        assert tables_with_statistics(config, catalog="no_such_database") == set()


def test_mariadb(mariadb: EmbeddedMariaDB, mariadb_database: str) -> None:
    with mariadb.connect(mariadb_database) as db, db.cursor() as cursor:
        for statement in ("create table orders (id int primary key)", "create table notes (body text)",
                          "insert into orders values (1), (2)", "commit", "analyze table orders"):  # fmt: skip
            cursor.execute(statement)
        url = f"jdbc:mariadb://{mariadb.host}:{mariadb.port}/{mariadb_database}"
        config = {"connection.url": url, "connection.user": mariadb.user, "connection.password": mariadb.password}
        check(config, mariadb_database)
        own = {f"{mariadb_database}.orders", f"{mariadb_database}.notes"}
        other = f"{mariadb_database}x"
        mariadb.create_database(other)
        try:
            cursor.execute(f"create table {other}.more (id int)")
            assert tables_with_statistics(config) >= own | {f"{other}.more"}
            literal = mariadb_database.replace("_", r"\_")
            for key in ("catalog", "schema"):
                assert tables_with_statistics(config, **{key: mariadb_database[:-1] + "_"}) == own
                assert tables_with_statistics(config, **{key: literal}) == own
                assert tables_with_statistics(config, **{key: literal.replace(r"\_", r"\%", 1)}) == set()
                assert tables_with_statistics(config, **{key: f"{literal}%"}) == own | {f"{other}.more"}
            assert tables_with_statistics(config, catalog="%", schema=other) == {f"{other}.more"}
        finally:
            mariadb.drop_database(other)
