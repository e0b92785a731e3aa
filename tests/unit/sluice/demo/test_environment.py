"""The variables with which users choose the demo's Spark and table format."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from sluice.demo.environment import DemoEnvironment, demo_database, demo_table_format, demo_uses_cluster, demo_uses_kafka
from sluice.demo.shops.shop import Sizes


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
