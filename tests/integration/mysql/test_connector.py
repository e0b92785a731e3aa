"""Validation, the connection test, the table list, and changed offsets, with a real MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connect.errors import BadRequestError, ConfigError
from connect.external_system import StepState
from connect.plugins import Kind, Plugins
from connectors.mysql import MariaDbSource, MySqlSource
from connectors.mysql.external_system import MySqlSystem
from tests.integration.mysql.conftest import MariaDbRunningSource


def errors_of(source: MariaDbRunningSource, connector: MySqlSource | None = None, **changes: str) -> dict[str, list[str]]:
    config = {**source.config, **{key.replace("_", "."): value for key, value in changes.items()}}
    return {value.name: value.errors for value in (connector or MariaDbSource()).validate(config) if value.errors}


@pytest.mark.parametrize(
    ("name", "connector"),
    [
        ("io.debezium.connector.mariadb.MariaDbConnector", MariaDbSource),
        ("io.debezium.connector.mysql.MySqlConnector", MySqlSource),
        ("MariaDbSource", MariaDbSource),
        ("MySql", MySqlSource),
    ],
)
def test_class_names_of_debezium_and_aliases_are_known(name: str, connector: type[MySqlSource]) -> None:
    plugins = Plugins.discover()
    assert plugins.load(plugins.resolve(Kind.CONNECTOR, name)) is connector


def test_right_configuration_has_no_errors(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    assert errors_of(source, table_include_list=f"{source.database}[.]t") == {}


def test_wrong_kind_of_server_and_wrong_password_are_named(source: MariaDbRunningSource) -> None:
    (message,) = errors_of(source, MySqlSource())["database.hostname"]
    assert "use connector.class=io.debezium.connector.mariadb.MariaDbConnector" in message
    (message,) = errors_of(source, database_password="wrong")["database.password"]
    assert "rejected the password" in message
    assert "wrong" not in message.replace("wrong password", "")


def test_values_that_the_log_lacks_cannot_be_read_again(source: MariaDbRunningSource, settings: Callable[..., None]) -> None:
    source.config |= {
        "post.processors": "again",
        "post.processors.again.type": "io.debezium.processors.reselect.ReselectColumnsPostProcessor",
    }
    assert errors_of(source) == {}
    settings(binlog_row_image="'NOBLOB'")
    (message,) = errors_of(source)["post.processors"]
    assert "has binlog_row_image=NOBLOB: set it to FULL, or remove post.processors" in message


def test_lists_that_match_no_table_name_similar_ones(source: MariaDbRunningSource) -> None:
    source.sql("create table customers(id int primary key)")
    (message,) = errors_of(source, table_include_list=f"{source.database}[.]customer")["table.include.list"]
    assert f"there is for example {source.database}.customers" in message


def test_missing_history_topic_is_named(source: MariaDbRunningSource) -> None:
    source.config.pop("schema.history.internal")
    assert "schema.history.internal.kafka.topic" in errors_of(source)


@pytest.fixture
def role(source: MariaDbRunningSource, unique_name: Callable[[str], str]) -> Iterator[str]:
    """A user that may read the tables, and nothing else."""
    name = unique_name("role")
    source.sql(f"create user {name} identified by 'secret'", f"grant select on {source.database}.* to {name}")
    source.config |= {"database.user": name, "database.password": "secret"}
    yield name
    source.kill()
    source.sql(f"drop user {name}")


def test_missing_privileges_are_named(source: MariaDbRunningSource, role: str) -> None:
    source.sql("create table t(id int primary key)")
    found = errors_of(source)
    ((key, (message,)),) = found.items()
    assert key in ("database.user", "database.hostname")
    assert "BINLOG MONITOR" in message or "privilege" in message
    system = MySqlSystem(source.config, is_mariadb=True)
    try:
        states = {step.name: step.state for step in system.test_connection()}
    finally:
        system.close()
    assert states["Connection"] is StepState.PASSED
    assert states["Replication"] is StepState.FAILED


def test_connection_test_describes_server_and_tables(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)", "create table nokey(n int)")
    system = MySqlSystem(source.config, is_mariadb=True)
    try:
        steps = {step.name: step for step in system.test_connection()}
    finally:
        system.close()
    assert [step.name for step in steps.values() if step.state is StepState.FAILED] == []
    assert "MariaDB" in (steps["Connection"].detail or "")
    assert "with GTIDs" in (steps["Binary log"].detail or "")
    assert "may read the binary log" in (steps["Replication"].detail or "")
    assert steps["Tables"].detail == f"2 captured: {source.database}.nokey, {source.database}.t"
    (finding,) = steps["Keys"].findings
    assert (finding.code, f"{source.database}.nokey has no primary key" in finding.message) == ("no-primary-key", True)


def test_connection_that_is_lost_fails_the_next_step(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    system = MySqlSystem(source.config, is_mariadb=True)
    found = []
    try:
        for step in system.test_connection():
            found.append(step)
            if step.name == "Server ID":
                source.sql(f"kill {system._connect().thread_id}")
    finally:
        system.close()
    assert (found[-1].name, found[-1].state) == ("Tables", StepState.FAILED)
    assert "connection" in found[-1].findings[0].message


def test_too_many_tables_are_refused_before_the_start_and_at_it(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)", "create table u(id int primary key)")
    source.config |= {"guardrail.collections.max": "1", "guardrail.collections.limit.action": "fail"}
    assert "2 tables/collections" in str(errors_of(source)["guardrail.collections.max"])
    with pytest.raises(ConfigError, match="2 tables/collections"):
        source.start()


def test_tables_of_a_running_connector_may_be_created_later(source: MariaDbRunningSource) -> None:
    source.begin(table_include_list=f"{source.database}[.]t")
    source.sql("create table t(id int primary key)", "insert into t values (1)")
    (record,) = source.read(1)
    assert record.value["after"]["id"] == 1


def test_server_id_of_the_server_is_refused(source: MariaDbRunningSource) -> None:
    source.config["database.server.id"] = "1"
    system = MySqlSystem(source.config, is_mariadb=True)
    try:
        (step,) = [step for step in system.test_connection() if step.name == "Server ID"]
    finally:
        system.close()
    assert (step.state, step.findings[0].code) == (StepState.FAILED, "server-id-of-server")


def test_connection_test_needs_only_the_keys_of_the_connection(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)", "insert into t values (1)", "create view v as select * from t")
    keys = ("database.hostname", "database.port", "database.user", "database.password")
    system = MySqlSystem({key: source.config[key] for key in keys}, is_mariadb=True)
    try:
        found = {one.name: one for one in system.data_collections() if one.database == source.database}
    finally:
        system.close()
    assert list(found) == [f"{source.database}.t"]
    table = found[f"{source.database}.t"]
    assert (table.kind, table.schema, table.has_primary_key, table.entry) == ("table", None, True, f"{source.database}.t")


def test_offsets_are_checked(source: MariaDbRunningSource) -> None:
    connector = MariaDbSource()
    ours = (("server", "shop"),)
    assert connector.alter_offsets(source.config, {ours: {"file": "binlog.000001", "pos": 4, "gtids": "0-1-5"}})
    assert connector.alter_offsets(source.config, {(("server", "former"),): None})
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"file": "binlog.000001"}, "pos of the offset"),
        ({"pos": 4}, "no 'file'"),
        ({"file": "binlog.000001", "pos": 4, "gtids": "what"}, "what"),
    ]
    for offset, reason in wrong:
        with pytest.raises(BadRequestError, match=reason):
            connector.alter_offsets(source.config, {ours: offset})
    with pytest.raises(BadRequestError, match="source partition"):
        connector.alter_offsets(source.config, {(("server", "other"),): {"file": "binlog.000001", "pos": 4}})
