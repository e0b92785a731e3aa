"""What is wrong with a catalog or with a table of somebody else: each is reported with the table and the remedy, and after the
repair, every record is in the table once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from tests.integration.spark.lake import field, message
from tests.integration.spark.table_access import CATALOG, catalog_props, configure_catalog
from tests.support.cases import first_fast
from tests.support.iceberg_rest import TOKEN, rest_catalog

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KEY = "spark.conf.spark.sql.catalog.rest"
FIELDS = [field("id", "int32"), field("v", "string")]


class Rig:
    """The topic ``t``, a task that is started again after a failure, and a Spark of another user."""

    def __init__(self, settings: dict[str, str], table: str, run: Any, topic: Any) -> None:
        self.settings = settings
        self.table = table
        self.topic = topic("t", schemas=True)
        self.group: dict[TopicPartition, int] = {}
        self.added = 0
        self._new_run = run
        self._task_run: Any = None
        self.lease = session.lease(parse_config(settings).spark)
        self.spark = self.lease.session()

    def write(self) -> None:
        """Adds a record and commits all that are missing; a task that failed is replaced by a new one."""
        self.added += 1
        self.topic.add(None, message(FIELDS, {"id": self.added, "v": f"v{self.added}"}))
        self.commit()

    def commit(self) -> None:
        if self._task_run is None:
            self._task_run = self._new_run(self.settings, [self.topic], raw=True, group=self.group)
        self._task_run.deliver()
        self._task_run.commit()

    def refuses(self, match: str) -> ConnectError:
        with pytest.raises(ConnectError, match=match) as raised:
            self.write()
        assert TOKEN not in raised.value.message
        if not isinstance(raised.value, RetriableError):
            self.stop()
        return raised.value

    def stop(self) -> None:
        if self._task_run is not None:
            self._task_run.task.close()
            self._task_run = None

    def check(self) -> None:
        self.commit()
        rows = self.spark.sql(f"SELECT id, v FROM {self.table} WHERE id > 0 ORDER BY id").collect()
        assert [tuple(row) for row in rows] == [(i, f"v{i}") for i in range(1, self.added + 1)]

    def close(self) -> None:
        self.stop()
        self.lease.release()


class Faults:
    """Refuses requests for paths that end in a text."""

    def __init__(self) -> None:
        self.method, self.end, self.answer = "", "", (0, "")
        self.lost: list[tuple[int, str]] = []
        """With what the next commits are answered that the catalog has made."""

    def set(self, method: str, end: str, code: int, kind: str) -> None:
        self.method, self.end, self.answer = method, end, (code, kind)

    def clear(self) -> None:
        self.method = ""

    def __call__(self, method: str, path: str) -> tuple[int, str] | None:
        return self.answer if method == self.method and path.endswith(self.end) else None

    def lose(self, method: str, path: str) -> tuple[int, str] | None:
        return self.lost.pop(0) if self.lost and (method, path[-9:]) == ("POST", "/tables/t") else None


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def rest(props: dict[str, str], run: Any, topic: Any, tmp_path: Path, faults: Faults) -> Iterator[Rig]:
    with rest_catalog(tmp_path / "warehouse", refuse=faults, lose=faults.lose) as uri:
        own = {key: value for key, value in props.items() if key != "table.location"} | {
            KEY: "org.apache.iceberg.spark.SparkCatalog",
            f"{KEY}.type": "rest",
            f"{KEY}.uri": uri,
            f"{KEY}.token": TOKEN,
            f"{KEY}.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            f"{KEY}.cache-enabled": "false",
            f"{KEY}.rest.client.max-retries": "1",
            "table.format": "iceberg",
            "table.catalog": "rest.shop",
            "table.properties.format-version": "2",
            "metadata.columns": "none",
        }
        rig = Rig(own, "rest.shop.t", run, topic)
        yield rig
        rig.close()


@pytest.fixture
def hadoop(props: dict[str, str], run: Any, topic: Any, tmp_path: Path) -> Iterator[Rig]:
    own = {key: value for key, value in props.items() if key != "table.location"} | {
        **{f"spark.conf.{key}": value for key, value in catalog_props(tmp_path / "warehouse").items()},
        "table.format": "iceberg",
        "table.catalog": f"{CATALOG}.shop",
        "metadata.columns": "none",
    }
    rig = Rig(own, f"{CATALOG}.shop.t", run, topic)
    configure_catalog(rig.spark, tmp_path / "warehouse")
    yield rig
    rig.close()


def test_namespace_without_the_right_to_create_it(rest: Rig, faults: Faults) -> None:
    faults.set("POST", "/namespaces", 403, "ForbiddenException")
    rest.refuses(r"table t at rest\.shop\.t: .*namespace shop does not exist.*create it, or give the sink the right to")
    faults.clear()
    rest.check()


@pytest.mark.long
def test_table_without_the_right_to_create_it(rest: Rig, faults: Faults) -> None:
    faults.set("POST", "/tables", 403, "ForbiddenException")
    rest.refuses(r"table t at rest\.shop\.t: .*Forbidden.*check the catalog's credentials and permissions")
    faults.clear()
    rest.check()


def test_commit_with_a_token_that_has_expired(rest: Rig, faults: Faults) -> None:
    rest.write()
    faults.set("POST", "/tables/t", 401, "NotAuthorizedException")
    error = rest.refuses(r"table t at rest\.shop\.t: .*NotAuthorized.*check the catalog's credentials")
    assert not isinstance(error, RetriableError)
    faults.clear()
    rest.check()


@pytest.mark.long
@pytest.mark.parametrize(("method", "code"), first_fast([("GET", 503), ("POST", 503), ("POST", 500)]))
def test_catalog_that_is_down_for_a_while_is_tried_again(rest: Rig, faults: Faults, method: str, code: int) -> None:
    rest.write()
    faults.set(method, "/tables/t", code, "ServiceUnavailableException")
    for _ in range(2):
        assert isinstance(rest.refuses(r"table t at rest\.shop\.t: "), RetriableError)
    faults.clear()
    rest.check()


@pytest.mark.long
@pytest.mark.parametrize("mode", first_fast(["append", "upsert"]))
@pytest.mark.parametrize(("code", "kind"), first_fast([(409, "CommitFailedException"), (503, "ServiceUnavailableException")]))
def test_commit_whose_answer_is_lost_is_found_in_the_table(rest: Rig, faults: Faults, mode: str, code: int, kind: str) -> None:
    rest.settings |= {"write.mode": mode, "key.columns": "id"} if mode == "upsert" else {}
    rest.write()
    faults.lost = [(code, kind)]
    rest.write()
    assert not faults.lost
    rest.write()
    rest.stop()
    rest.group.clear()
    rest.check()
    assert rest.spark.sql(f"SELECT * FROM {rest.table}.snapshots").count() == 3


@pytest.mark.long
def test_catalog_that_is_down_at_the_start(rest: Rig, faults: Faults) -> None:
    faults.set("GET", "/config", 503, "ServiceUnavailableException")
    rest.refuses(r"the catalog rest cannot be opened: ServiceUnavailable.* check the properties")
    faults.clear()
    rest.check()


@pytest.mark.long
def test_files_of_another_format_are_named_with_the_procedure_that_rewrites_them(hadoop: Rig) -> None:
    hadoop.settings |= {"write.mode": "upsert", "key.columns": "id"}
    hadoop.spark.sql(
        f"CREATE TABLE {hadoop.table} (id INT, v STRING) USING iceberg TBLPROPERTIES ('write.format.default' = 'orc')"
    )
    hadoop.spark.sql(f"INSERT INTO {hadoop.table} VALUES (0, 'theirs')")
    hadoop.refuses(r"/shop/t/data/.*has the format ORC.*rewrite_data_files")
    hadoop.spark.sql(f"ALTER TABLE {hadoop.table} SET TBLPROPERTIES ('write.format.default' = 'parquet')")
    options = "options => map('rewrite-all', 'true')"
    hadoop.spark.sql(f"CALL {CATALOG}.system.rewrite_data_files(table => 'shop.t', {options})").collect()
    hadoop.check()
    assert hadoop.spark.sql(f"SELECT v FROM {hadoop.table} WHERE id = 0").collect()[0].v == "theirs"


def test_table_of_somebody_else_with_other_columns_is_extended(hadoop: Rig) -> None:
    hadoop.spark.sql(f"CREATE TABLE {hadoop.table} (id BIGINT, theirs STRING) USING iceberg")
    hadoop.write()
    hadoop.check()


def test_required_column_that_the_records_lack_is_named_and_made_optional(hadoop: Rig) -> None:
    hadoop.spark.sql(f"CREATE TABLE {hadoop.table} (id INT, v STRING, theirs STRING NOT NULL) USING iceberg")
    hadoop.refuses(r"column theirs is required in the table, and the record has no value")
    hadoop.spark.sql(f"ALTER TABLE {hadoop.table} ALTER COLUMN theirs DROP NOT NULL")
    hadoop.check()


@pytest.mark.long
def test_table_is_not_created_in_the_directory_of_a_delta_table(props: dict[str, str], run: Any, topic: Any) -> None:
    folder = Path(props["table.location"]) / "t"
    (folder / "_delta_log").mkdir(parents=True)
    rig = Rig({**props, "table.format": "iceberg"}, "", run, topic)
    rig.refuses(f"the iceberg table at {folder} cannot be created, because a delta table is there: set table.format=delta, or ")
    assert [file.name for file in folder.iterdir()] == ["_delta_log"]
    (folder / "_delta_log").rmdir()
    rig.commit()
    assert sorted(file.name for file in folder.iterdir()) == ["data", "metadata"]
    rig.close()
