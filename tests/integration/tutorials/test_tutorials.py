"""Each page of docs/tutorials works as written, with real services."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.forked_commands import forked_commands
from tests.support.tutorial import TutorialRun

TUTORIALS = Path(__file__).parents[3] / "docs" / "tutorials"
OFFLINE = ("write-a-transformation", "troubleshoot")
WITH_BROKER = ("first-pipeline", "from-apache-connect", "write-a-connector", "run-a-cluster", "upgrade")
WITH_SPARK = ("cdc-to-delta-and-iceberg",)
NOT_RUN = ("on-kubernetes", "README")
"""Pages whose commands need a Kubernetes cluster; tests/unit/kubernetes renders what they use."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with forked_commands(tmp_path_factory.mktemp("commands")) as folder:
        yield folder


def test_every_tutorial_is_run() -> None:
    assert {page.stem for page in TUTORIALS.glob("*.md")} == {*OFFLINE, *WITH_BROKER, *WITH_SPARK, *NOT_RUN}


@pytest.mark.parametrize("name", OFFLINE)
def test_offline_tutorial_works(name: str, tmp_path: Path, programs: Path) -> None:
    with TutorialRun(TUTORIALS / f"{name}.md", tmp_path, {}, {}, programs) as run:
        run.run()


@pytest.mark.parametrize("name", WITH_BROKER)
def test_tutorial_works(
    name: str, tmp_path: Path, programs: Path, broker: EmbeddedBroker, unique_name: Callable[[str], str]
) -> None:
    first, second = free_ports(2)
    replacements = {
        "localhost:9092": broker.bootstrap,
        "8083": str(first),
        "8084": str(second),
        "my-cluster": unique_name("cluster"),
        "rate=50\n": "rate=500\n",  # so that 500 records take a second
    }
    variables = {"SLUICE_CONNECT_URL": f"http://localhost:{first}", "SLUICE_BOOTSTRAP_SERVERS": broker.bootstrap}
    with TutorialRun(TUTORIALS / f"{name}.md", tmp_path, replacements, variables, programs) as run:
        run.run()


def test_tutorial_with_spark_works(
    tmp_path: Path,
    programs: Path,
    broker: EmbeddedBroker,
    postgres: EmbeddedPostgres,
    database: str,
    unique_name: Callable[[str], str],
) -> None:
    (port,) = free_ports(1)
    replacements = {
        "localhost:9092": broker.bootstrap,
        "8083": str(port),
        "localhost:5432/shop": f"{postgres.host}:{postgres.port}/{database}",
        "database.hostname=localhost": f"database.hostname={postgres.host}",
        "database.port=5432": f"database.port={postgres.port}",
        "database.dbname=shop": f"database.dbname={database}",
        "postgres:secret": f"{postgres.user}:{postgres.password}",
        "database.password=secret": f"database.password={postgres.password}",
        "shop_slot": unique_name("slot"),
    }
    variables = {
        "SLUICE_CONNECT_URL": f"http://localhost:{port}",
        "SLUICE_BOOTSTRAP_SERVERS": broker.bootstrap,
        "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
    }
    with TutorialRun(TUTORIALS / "cdc-to-delta-and-iceberg.md", tmp_path, replacements, variables, programs) as run:
        run.run()
