"""Configurations of the Iceberg sink for Kafka Connect run unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.config.properties import parse_properties
from connect.errors import ConfigError, ConnectError
from connect.plugins import Plugins
from connectors.spark import IcebergSink, session
from connectors.spark.iceberg_sink.config import parse_config
from connectors.spark.iceberg_sink.task import IcebergSinkTask
from tests.integration.spark import conftest
from tests.integration.spark.lake import field, message
from tests.integration.spark.table_access import CATALOG, configure_catalog
from tests.support.cases import first_fast

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FIELDS = [field("id", "int64"), field("type", "string"), field("at", "struct", fields=[field("place", "string")])]
ROWS = [(1, "sale", "Shop.A"), (2, "return", "Shop.B"), (3, "Sale", "Shop.A"), (1, "sale", None)]
CONFIG = """
name=events-sink
connector.class=org.apache.iceberg.connect.IcebergSinkConnector
tasks.max=2
topics=events
iceberg.tables=db.events
iceberg.catalog.type=hadoop
iceberg.catalog.warehouse=WAREHOUSE
iceberg.tables.auto-create-enabled=true
iceberg.control.topic=control-iceberg
iceberg.control.commit.interval-ms=600000
iceberg.tables.auto-create-props.format-version=2
"""


@pytest.fixture
def write(
    spark_props: dict[str, str], topic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Callable[[str], list[dict[str, Any]]]]]:
    """Writes all records with a configuration; returns a function that runs a query."""
    monkeypatch.setattr(conftest, "SparkSinkTask", IcebergSinkTask)
    leases: list[session.Lease] = []

    def write_all(config: str, fields: Any = FIELDS, rows: Any = None) -> Callable[[str], list[dict[str, Any]]]:
        props = dict(parse_properties(config.replace("WAREHOUSE", str(tmp_path / "warehouse")), "events.properties"))
        props |= spark_props
        t = topic("events", schemas=True)
        for row in rows or [{"id": id_, "type": kind, "at": {"place": place}} for id_, kind, place in ROWS]:
            t.add(None, message(fields, row))
        t.add(None, None)
        run = conftest.Run(props, [t], raw=True, group={})
        try:
            run.deliver()
        finally:
            run.close()
        lease = session.lease(parse_config(props).spark)
        leases.append(lease)
        spark = lease.session()
        configure_catalog(spark, tmp_path / "warehouse")
        return lambda query: [row.asDict(recursive=True) for row in spark.sql(query).collect()]

    yield write_all
    for lease in leases:
        lease.release()


def ids(found: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in found)


def test_a_static_table_gets_every_record_as_it_is(write: Any) -> None:
    query = write(CONFIG)
    rows = query(f"SELECT * FROM {CATALOG}.db.events ORDER BY id, type")
    assert rows[0] == {"id": 1, "type": "sale", "at": {"place": "Shop.A"}}
    assert len(rows) == len(ROWS)
    properties = {row["key"]: row["value"] for row in query(f"SHOW TBLPROPERTIES {CATALOG}.db.events")}
    assert properties["format-version"] == "2"


def test_without_a_route_field_each_table_gets_every_record(write: Any) -> None:
    query = write(CONFIG.replace("db.events\n", "db.a, db.b\n"))
    assert ids(query(f"SELECT id FROM {CATALOG}.db.a")) == ids(query(f"SELECT id FROM {CATALOG}.db.b")) == [1, 1, 2, 3]


def test_a_route_field_chooses_tables_by_regular_expressions(write: Any) -> None:
    own = "iceberg.tables.route-field=type\niceberg.table.db.sales.route-regex=[Ss]ale\niceberg.table.db.all.route-regex=.*\n"
    query = write(CONFIG.replace("db.events\n", "db.sales,db.all\n") + own)
    assert ids(query(f"SELECT id FROM {CATALOG}.db.sales")) == [1, 1, 3]
    assert ids(query(f"SELECT id FROM {CATALOG}.db.all")) == [1, 1, 2, 3]


def test_dynamic_routing_names_tables_by_a_nested_field(write: Any) -> None:
    own = "iceberg.tables.dynamic-enabled=true\niceberg.tables.route-field=at.place\n"
    query = write(CONFIG.replace("iceberg.tables=db.events\n", "") + own)
    assert ids(query(f"SELECT id FROM {CATALOG}.shop.a")) == [1, 3]
    assert ids(query(f"SELECT id FROM {CATALOG}.shop.b")) == [2]


@pytest.mark.parametrize("mode", first_fast(["iceberg.tables.upsert-mode-enabled=true", "write.mode=upsert"]))
def test_an_upsert_replaces_rows(write: Any, mode: str) -> None:
    own = "iceberg.table.db.events.id-columns=id\niceberg.tables.default-partition-by=bucket(id, 4),type\n"
    # Apache's sink has no key for a tombstone either: here it would delete a row.
    query = write(CONFIG + own + f"{mode}\nerrors.tolerance=all\n")
    rows = query(f"SELECT id, at.place FROM {CATALOG}.db.events ORDER BY id")
    assert rows == [{"id": 1, "place": None}, {"id": 2, "place": "Shop.B"}, {"id": 3, "place": "Shop.A"}]


def test_operations_in_a_field_are_applied(write: Any) -> None:
    fields = [field("id", "int64"), field("v", "string"), field("_cdc", "struct", fields=[field("op", "string")])]
    rows = [
        {"id": id_, "v": v, "_cdc": {"op": op}}
        for id_, v, op in [(1, "a", "I"), (2, "b", "I"), (3, "c", None), (1, "d", "U"), (2, "b", "D"), (9, None, "D")]
    ]
    own = "iceberg.tables.cdc-field=_cdc.op\niceberg.tables.default-id-columns=id\n"
    query = write(CONFIG + own, fields, rows)
    found = query(f"SELECT id, v, _cdc.op FROM {CATALOG}.db.events ORDER BY id")
    assert found == [{"id": 1, "v": "d", "op": "U"}, {"id": 3, "v": "c", "op": None}]


@pytest.mark.long
def test_columns_are_found_by_names_in_other_case(write: Any, tmp_path: Path) -> None:
    own = "iceberg.tables.schema-case-insensitive=true\niceberg.tables.default-id-columns=Id\nwrite.mode=upsert\n"
    own += "iceberg.tables.evolve-schema-enabled=true\n"
    write(CONFIG + own)
    fields = [field("ID", "int64"), field("AT", "struct", fields=[field("Place", "string")]), field("New", "string")]
    query = write(CONFIG.replace("events-sink", "second") + own, fields, [{"ID": 3, "AT": {"Place": "Shop.C"}, "New": "n"}])
    found = query(f"SELECT id, at.place, New FROM {CATALOG}.db.events ORDER BY id")
    assert found[2] == {"id": 3, "place": "Shop.C", "New": "n"}
    assert list(query(f"SELECT * FROM {CATALOG}.db.events")[0]) == ["id", "type", "at", "New"]


@pytest.mark.parametrize("key", first_fast(["iceberg.tables.default-commit-branch", "iceberg.table.db.events.commit-branch"]))
def test_rows_are_committed_to_a_branch(write: Any, key: str) -> None:
    query = write(f"{CONFIG}{key}=audit\n")
    assert ids(query(f"SELECT id FROM {CATALOG}.db.events VERSION AS OF 'audit'")) == [1, 1, 2, 3]
    assert query(f"SELECT id FROM {CATALOG}.db.events") == []


def test_a_missing_table_is_an_error_without_auto_create(write: Any) -> None:
    with pytest.raises(ConnectError, match=r"table db\.events at iceberg\.db\.events does not exist; .*auto-create-enabled=true"):
        write(CONFIG.replace("auto-create-enabled=true", "auto-create-enabled=false"))


@pytest.mark.parametrize(
    ("own", "key", "says"),
    [
        ("iceberg.tables=", "iceberg.tables", "at least one table"),
        ("iceberg.tables.dynamic-enabled=true", "iceberg.tables.route-field", "needs the field"),
        ("iceberg.table.db.events.route-regex=(", "iceberg.table.db.events.route-regex", ""),
        ("iceberg.table.db.events.id-column=id", "iceberg.table.db.events.id-column", "one of route-regex, id-columns"),
        ("iceberg.tables.cdc-field=_cdc.op\nwrite.mode=append", "iceberg.tables.cdc-field", "write.mode=append deletes no rows"),
        ("iceberg.tables.cdc-field=_cdc.", "iceberg.tables.cdc-field", "dots separate nested fields"),
        (
            "iceberg.tables.schema-case-insensitive=true\nschema.evolution=lenient",
            "iceberg.tables.schema-case-insensitive",
            "lenient does not support it",
        ),
        (
            "iceberg.tables.default-partition-by=weeks(at)",
            "iceberg.tables.default-partition-by",
            "Expected a column, or years",
        ),
    ],
)
def test_what_cannot_be_done_is_named(own: str, key: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(parse_properties(CONFIG + own, "events.properties"))
    assert error.value.key == key
    assert says in error.value.message


@pytest.mark.parametrize(
    "name", ["org.apache.iceberg.connect.IcebergSinkConnector", "io.tabular.iceberg.connect.IcebergSinkConnector"]
)
def test_both_names_of_the_class_are_known(name: str) -> None:
    assert type(Plugins.discover().new_connector(name)) is IcebergSink
