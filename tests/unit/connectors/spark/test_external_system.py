"""The connection test of the Spark sink: no JVM, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError
from connect.paths import PathRules, install_path_rules
from connectors.spark import SparkSink


def steps(**changes: str) -> list[dict[str, Any]]:
    config = {"topics": "orders", **{key.replace("_", "."): value for key, value in changes.items()}}
    return [step.as_json() for step in SparkSink().external_system(config).test_connection()]


def test_tables_of_a_directory_are_found(tmp_path: Path) -> None:
    for table in ("orders/_delta_log", "notes/_delta_log", "other/files"):
        (tmp_path / table).mkdir(parents=True)
    location, tables = steps(table_location=str(tmp_path))
    assert location["state"] == tables["state"] == "passed"
    assert tables["detail"] == f"2 in {tmp_path}: notes, orders"
    system = SparkSink().external_system({"topics": "t", "table.location": str(tmp_path)})
    assert [(one.name, one.kind) for one in system.data_collections()] == [("notes", "delta table"), ("orders", "delta table")]


def test_directory_that_will_be_created_is_not_created(tmp_path: Path) -> None:
    location, tables = steps(table_location=str(tmp_path / "new" / "lake"))
    assert "will be created" in location["detail"]
    assert tables["detail"].startswith("0 in ")
    assert list(tmp_path.iterdir()) == []


def test_place_that_cannot_be_used_is_an_error_of_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (step,) = steps(table_location=str(tmp_path / "file" / "lake"))
    assert [(one["code"], one["path"]) for one in step["findings"]] == [("location-not-writable", "table.location")]
    system = SparkSink().external_system({"topics": "t", "table.location": str(tmp_path)})
    install_path_rules(PathRules.of(["/nowhere"]))
    try:
        (refused,) = system.test_connection()
        assert "not allowed on this worker" in refused.findings[0].message
        with pytest.raises(ConfigError, match="allowed"):
            system.data_collections()
    finally:
        install_path_rules(PathRules())


def test_object_stores_and_catalogs_are_skipped_with_the_reason() -> None:
    (step,) = steps(table_location="s3://lake/tables")
    assert (step["state"], step["findings"]) == ("skipped", [])
    (step,) = steps(table_format="iceberg", table_catalog="lake.shop")
    assert (step["name"], step["state"]) == ("Catalog", "skipped")
