"""Configuration of the Spark sink."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connectors.spark.config import parse_config
from connectors.spark.connector import SparkSink

PROPS = {"name": "lake", "topics": "t", "table.location": "/lake"}


def test_names_come_from_topic_or_source_and_stay_below_the_location() -> None:
    config = parse_config({**PROPS, "table.name.format": "${schema}.${table}"})
    assert config.names_need_source
    assert config.table_name("t", "db", "public", "orders") == "public.orders"
    assert config.table_name("t", "db", "../x", "y") == ".._x.y"
    with pytest.raises(ConfigError, match=r"no source\.table"):
        config.table_name("t", "db", "s", None)
    assert parse_config(PROPS).table_name("a.b", None, None, None) == "a.b"


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"table.format": "iceberg"}, "table.format", "delta, parquet"),
        ({"write.mode": "scd2"}, "write.mode", "append, upsert"),
        ({"table.format": "parquet", "write.mode": "upsert"}, "write.mode", "only append"),
        ({"table.name.format": "${tabel}"}, "table.name.format", "${topic}, ${database}, ${schema}, ${table}"),
        ({"metadata.columns": "__opp"}, "metadata.columns", "__op"),
        ({"commit.max.records": "0"}, "commit.max.records", "at least 1"),
    ],
)
def test_the_error_for_an_invalid_value_names_key_and_choices(changes: dict[str, str], key: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config({**PROPS, **changes})
    assert error.value.key == key
    assert says in error.value.message
    found = {v.name: v.errors for v in SparkSink().validate({**PROPS, **changes})}
    assert any(says in e for e in found[key])
