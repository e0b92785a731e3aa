"""The variables with which users choose the demo's Spark and table format."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.demo.environment import (
    DemoEnvironment,
    demo_database,
    demo_jar_sets,
    demo_table_format,
    demo_uses_cluster,
    demo_uses_kafka,
)
from sluice.demo.shops.shop import Sizes
from sluice.embedded.jar_sets import JAR_SETS


@pytest.mark.parametrize(("value", "expected"), [(None, False), ("", False), ("local", False), ("cluster", True)])
def test_demo_uses_embedded_spark_unless_a_cluster_is_chosen(
    monkeypatch: pytest.MonkeyPatch, value: str | None, expected: bool
) -> None:
    monkeypatch.delenv("SLUICE_DEMO_SPARK", raising=False)
    if value is not None:
        monkeypatch.setenv("SLUICE_DEMO_SPARK", value)
    assert demo_uses_cluster() is expected


def test_cluster_goes_with_each_table_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLUICE_DEMO_SPARK", "cluster")
    monkeypatch.setenv("SLUICE_DEMO_FORMAT", "iceberg")
    environment = DemoEnvironment(tmp_path, Sizes(), dies_with_parent=True)
    assert (environment.uses_cluster, environment.table_format) == (True, "iceberg")
    assert not environment.running


def test_unknown_spark_is_rejected_with_the_choices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLUICE_DEMO_FORMAT", raising=False)
    monkeypatch.setenv("SLUICE_DEMO_SPARK", "yarn")
    with pytest.raises(ConfigError, match="SLUICE_DEMO_SPARK=yarn is not a Spark of the demo; use local or cluster"):
        demo_uses_cluster()
    assert demo_table_format() == "delta"
    with pytest.raises(ConfigError, match="SLUICE_DEMO_SPARK=yarn"):
        DemoEnvironment(tmp_path, Sizes(), dies_with_parent=True)


@pytest.mark.parametrize(("value", "expected"), [(None, True), ("on", True), ("off", False)])
def test_demo_uses_kafka_unless_it_is_off(monkeypatch: pytest.MonkeyPatch, value: str | None, expected: bool) -> None:
    for name in ("SLUICE_DEMO_SPARK", "SLUICE_DEMO_KAFKA"):
        monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv("SLUICE_DEMO_KAFKA", value)
    assert demo_uses_kafka() is expected


@pytest.mark.parametrize(
    ("kafka", "spark", "problem"),
    [
        ("maybe", "local", "SLUICE_DEMO_KAFKA=maybe is not a choice of the demo; use on or off"),
        ("off", "cluster", "SLUICE_DEMO_KAFKA=off runs Spark in one process, not on a cluster; unset SLUICE_DEMO_KAFKA or"),
    ],
)
def test_demo_without_kafka_refuses_a_cluster(monkeypatch: pytest.MonkeyPatch, kafka: str, spark: str, problem: str) -> None:
    monkeypatch.setenv("SLUICE_DEMO_KAFKA", kafka)
    monkeypatch.setenv("SLUICE_DEMO_SPARK", spark)
    with pytest.raises(ConfigError, match=problem):
        demo_uses_kafka()


@pytest.mark.parametrize(("value", "product"), [(None, "PostgreSQL"), ("postgres", "PostgreSQL"), ("mariadb", "MariaDB")])
def test_demo_uses_postgres_unless_mariadb_is_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None, product: str
) -> None:
    for name in ("SLUICE_DEMO_SPARK", "SLUICE_DEMO_KAFKA", "SLUICE_DEMO_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv("SLUICE_DEMO_DATABASE", value)
    assert DemoEnvironment(tmp_path, Sizes(), dies_with_parent=True).shop.product == product


def test_unknown_database_is_rejected_with_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_DEMO_DATABASE", "oracle")
    with pytest.raises(ConfigError, match="SLUICE_DEMO_DATABASE=oracle is not a database of the demo; use postgres or mariadb"):
        demo_database()


def leave_data(home: Path, kind: str) -> None:
    """Leaves what a start with this database leaves."""
    if kind == "mariadb":
        (home / "database" / "data").mkdir(parents=True)
    else:
        (home / "database" / "cluster").mkdir(parents=True)
        (home / "database" / "cluster" / "PG_VERSION").touch()


@pytest.mark.parametrize(("stored", "product"), [("postgres", "PostgreSQL"), ("mariadb", "MariaDB")])
@pytest.mark.parametrize("variable", ["", "postgres", "mariadb", "oracle"])
def test_database_that_a_directory_has_is_stopped_whatever_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, stored: str, product: str
) -> None:
    leave_data(tmp_path, stored)
    monkeypatch.setenv("SLUICE_DEMO_DATABASE", variable)
    assert DemoEnvironment(tmp_path, Sizes(), dies_with_parent=True).shop.product == product


@pytest.mark.parametrize(("stored", "other"), [("postgres", "mariadb"), ("mariadb", "postgres")])
def test_directory_continues_only_with_its_own_database(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stored: str, other: str
) -> None:
    leave_data(tmp_path, stored)
    for variable in ("", stored):
        monkeypatch.setenv("SLUICE_DEMO_DATABASE", variable)
        assert demo_database(tmp_path) == stored
    monkeypatch.setenv("SLUICE_DEMO_DATABASE", other)
    problem = f"SLUICE_DEMO_DATABASE={other}, but an earlier start created {tmp_path} with {stored}; unset SLUICE_DEMO_DATABASE"
    with pytest.raises(ConfigError, match=problem):
        demo_database(tmp_path)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ["kafka", "spark"]),
        ({"SLUICE_DEMO_KAFKA": "off"}, ["spark"]),
        ({"SLUICE_DEMO_FORMAT": "iceberg"}, ["kafka", "spark", "spark-iceberg"]),
        ({"SLUICE_DEMO_DATABASE": "mariadb", "SLUICE_DEMO_FORMAT": "iceberg"}, ["kafka", "spark", "spark-iceberg", "mariadb"]),
    ],
)
def test_demo_needs_the_jars_of_what_is_chosen(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: list[str]
) -> None:
    for name in ("SPARK", "KAFKA", "FORMAT", "DATABASE"):
        monkeypatch.delenv(f"SLUICE_DEMO_{name}", raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert demo_jar_sets() == expected
    assert set(expected) <= set(JAR_SETS)


def test_demo_needs_the_jars_of_the_database_that_a_directory_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SPARK", "KAFKA", "FORMAT", "DATABASE"):
        monkeypatch.delenv(f"SLUICE_DEMO_{name}", raising=False)
    leave_data(tmp_path, "mariadb")
    assert demo_jar_sets(tmp_path) == ["kafka", "spark", "mariadb"]


def test_up_fetches_the_jars_of_iceberg_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fetched = list[str]()

    def fetch(*names: str) -> None:
        fetched.extend(names)
        raise ConfigError("fetched enough")

    monkeypatch.setenv("SLUICE_DEMO_FORMAT", "iceberg")
    monkeypatch.delenv("SLUICE_DEMO_DATABASE", raising=False)
    monkeypatch.setattr("sluice.cli.setup.fetch_jars", fetch)
    assert run(build(COMMANDS), ["up", "--data-dir", str(tmp_path)]) == 2
    assert fetched == ["kafka", "spark", "spark-iceberg"]
