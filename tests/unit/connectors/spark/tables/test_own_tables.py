"""Among the tables of a location, those of a connector are found without opening the others, which may be of any kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.tables import move_offsets as moving
from connectors.spark.tables.application_ids import PartitionId, spark_writer_id
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.delta.log_state import has_offsets_of
from connectors.spark.tables.iceberg.offsets import names_connector
from connectors.spark.tables.own_tables import find_own_tables
from tests.unit.connectors.spark.tables.delta.fake_delta import TP, FakeDelta, offsets, rows
from tests.unit.connectors.spark.tables.test_parquet import append
from tests.unit.connectors.spark.tables.test_parquet import open_table as open_parquet

RETENTION = "delta.setTransactionRetentionDuration"
LEASE: Any = object()


def partition_id(connector: str, partition: TopicPartition = TP) -> str:
    return str(PartitionId(connector, TopicIdentity("cluster", "topic-id"), partition))


def transaction(identity: str, version: int = 1) -> dict[str, Any]:
    return {"txn": {"appId": identity, "version": version}}


def document(connector: str) -> str:
    return TableCommit(connector, 1, {}, {TP: 2}).to_json()


def config(location: Path, name_format: str = "${table}", **more: str) -> SparkSinkConfig:
    settings = {"name": "c", "topics": "topic", "table.location": str(location), "table.name.format": name_format, **more}
    return parse_config({**settings, "write.mode": "append", "append.replay": "repeat"})


def own_table(folder: Path, connector: str = "c") -> FakeDelta:
    delta = FakeDelta(folder)
    table = delta.open(connector)
    table.load([TP])
    table.append(rows(1, 2), offsets(0, 2))
    return delta


def damage(delta: FakeDelta) -> None:
    version = delta.commit([])
    (delta.folder / "_delta_log" / f"{version:020d}.json").write_text("{")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeDelta]:
    """The tables that are opened in full. The fake cannot open what Delta cannot."""
    found: dict[str, FakeDelta] = {}

    def open_table(config: SparkSinkConfig, name: str, *_: object) -> Any:
        delta = found[name] = FakeDelta.__new__(FakeDelta)
        delta.folder, delta.lost_answers = Path(config.location, name), []
        return delta.open(config.connector)

    monkeypatch.setattr(moving, "open_table", open_table)
    return found


def test_tables_of_others_do_not_block_a_change_of_offsets(
    tmp_path: Path, opened: dict[str, FakeDelta], caplog: pytest.LogCaptureFixture
) -> None:
    own = own_table(tmp_path / "own")
    FakeDelta(tmp_path / "foreign")
    damage(FakeDelta(tmp_path / "damaged"))
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["new"], "writerFeatures": ["new"]}
    FakeDelta(tmp_path / "unknown").commit([{"protocol": protocol}])
    own_table(tmp_path / "expiring", "other").alter({RETENTION: "interval 1 day"})
    moving.move_offsets(config(tmp_path), LEASE, {TP: 1})
    assert opened.keys() == {"own"}
    assert own.transactions() == {partition_id("c"): 1}
    (warning,) = caplog.messages
    assert warning.startswith(f"Table damaged at {tmp_path}/damaged is skipped")
    assert "commit" in warning


@pytest.mark.parametrize("name_format", ["${topic}", "topic"])
def test_a_table_that_the_configuration_names_is_opened_whatever_its_log_says(
    tmp_path: Path, opened: dict[str, FakeDelta], name_format: str
) -> None:
    named = FakeDelta(tmp_path / "topic")
    moving.move_offsets(config(tmp_path, name_format), LEASE, {TP: 1})
    assert opened.keys() == {"topic"}
    damage(named)
    with pytest.raises(ConnectError, match=f"table topic at {tmp_path}/topic: "):
        moving.move_offsets(config(tmp_path, name_format), LEASE, {TP: 1})


# --- what a log says of a connector

LONG = TopicPartition("a:b/ö%", 12)
OWN = {
    "partition": (partition_id("c"), "c"),
    "partition of a quoted name": (partition_id("c:1:2:3:4/ö %", LONG), "c:1:2:3:4/ö %"),
    "Spark": (spark_writer_id("c", "t"), "c"),
    "Spark, under another name of the folder": (spark_writer_id("c", "old:name"), "c"),
    "Spark, of a name with colons": (spark_writer_id("a:b", "t"), "a:b"),
    "Spark, of a name that looks like a partition": (spark_writer_id("a:b:c:4", "t"), "a:b:c:4"),
}
OTHERS = [partition_id("d"), partition_id("c2"), spark_writer_id("d", "t"), spark_writer_id("c2", "t"), "c", "app", "sluice:c"]


def has_offsets(delta: FakeDelta, connector: str = "c") -> bool:
    return has_offsets_of(DeltaLog(fs.LocalFileSystem(), str(delta.folder)), connector, "table t")


def log_file(delta: FakeDelta, ending: str) -> Path:
    return delta.folder / "_delta_log" / f"{delta.version:020d}.{ending}"


def head(delta: FakeDelta, identity: str) -> list[dict[str, Any]]:
    metadata = {"id": "table-id", "schemaString": "{}", "configuration": {}}
    return [{"metaData": metadata}, {"txn": {"appId": "app", "version": 3}}, transaction(identity)]


def write_parquet(path: Path, actions: list[dict[str, Any]]) -> None:
    txn = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
    metadata = pa.struct([("id", pa.string()), ("configuration", pa.map_(pa.string(), pa.string()))])
    described = [action.get("metaData") and {"id": "table-id", "configuration": []} for action in actions]
    columns = {"txn": pa.array([action.get("txn") for action in actions], txn), "metaData": pa.array(described, metadata)}
    pq.write_table(pa.table(columns), path)


def in_commit(delta: FakeDelta, identity: str) -> None:
    delta.commit([transaction(identity)])
    delta.commit([])


def in_checkpoint(delta: FakeDelta, identity: str) -> None:
    write_parquet(log_file(delta, "checkpoint.parquet"), head(delta, identity))


def in_parts(delta: FakeDelta, identity: str) -> None:
    for number, action in enumerate(head(delta, identity), 1):
        write_parquet(log_file(delta, f"checkpoint.{number:010d}.{3:010d}.parquet"), [action])


def in_v2_parquet(delta: FakeDelta, identity: str) -> None:
    write_parquet(log_file(delta, "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"), head(delta, identity))


def in_v2_json(delta: FakeDelta, identity: str) -> None:
    lines = "\n".join(map(json.dumps, head(delta, identity)))
    log_file(delta, "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json").write_text(lines)


def in_checksum(delta: FakeDelta, identity: str) -> None:
    described, *transactions = head(delta, identity)
    log_file(delta, "crc").write_text(json.dumps({"setTransactions": [t["txn"] for t in transactions], "metadata": described}))


PLACES = [in_commit, in_checkpoint, in_parts, in_v2_parquet, in_v2_json, in_checksum]
Store = Callable[[FakeDelta, str], None]


@pytest.mark.parametrize("store", PLACES)
@pytest.mark.parametrize(("identity", "connector"), OWN.values(), ids=OWN.keys())
def test_every_identifier_of_the_connector_is_found_wherever_the_log_has_it(
    tmp_path: Path, store: Store, identity: str, connector: str
) -> None:
    delta = FakeDelta(tmp_path / "t")
    store(delta, identity)
    assert has_offsets(delta, connector)
    if store is not in_commit and store is not in_checksum:  # a checkpoint, after which come commits
        (delta.folder / "_delta_log" / f"{0:020d}.json").unlink()
        for version in (1, 2):
            (delta.folder / "_delta_log" / f"{version:020d}.json").write_text('{"commitInfo":{}}')
        assert has_offsets(delta, connector)


@pytest.mark.parametrize("store", PLACES)
@pytest.mark.parametrize("identity", OTHERS)
def test_identifiers_of_others_are_not_those_of_the_connector(tmp_path: Path, store: Store, identity: str) -> None:
    delta = FakeDelta(tmp_path / "t")
    store(delta, identity)
    assert not has_offsets(delta)


def test_a_table_whose_offsets_were_deleted_is_still_that_of_the_connector(tmp_path: Path) -> None:
    delta = own_table(tmp_path / "t")
    delta.open().move_offsets({TP: None})
    assert delta.transactions() == {partition_id("c"): 0}
    assert has_offsets(delta)


@pytest.mark.parametrize(("connector", "expected"), [("c", True), ("other", False)])
def test_where_identifiers_expire_all_commits_count(tmp_path: Path, connector: str, expected: bool) -> None:
    delta = FakeDelta(tmp_path / "t")
    delta.commit([], userMetadata=document("c"))
    delta.alter({RETENTION: "interval 1 hour"})
    write_parquet(log_file(delta, "checkpoint.parquet"), [{"metaData": {}}])
    described = list(delta.actions("metaData"))[-1]
    log_file(delta, "crc").write_text(json.dumps({"metadata": described}))
    delta.commit([{"metaData": described}])
    assert has_offsets(delta, connector) is expected


@pytest.mark.parametrize("identity", [partition_id("c"), spark_writer_id("c", "t")])
@pytest.mark.parametrize("text", ["{", "5", '{"txn":{}}', '"\\ud800', "\x00"])
def test_a_table_of_the_connector_is_not_skipped_because_of_a_damaged_log(tmp_path: Path, identity: str, text: str) -> None:
    own, other = FakeDelta(tmp_path / "own"), FakeDelta(tmp_path / "other")
    own.commit([transaction(identity)])
    for delta in (own, other):
        delta.commit([])
        log_file(delta, "json").write_text(text)
        delta.commit([])
    assert has_offsets(own)
    with pytest.raises(ConnectError, match=r"damaged|cannot be read"):
        has_offsets(other)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1\x10\0\0\0PAR1", b"PAR1" + b"\xff" * 50 + b"\x30\0\0\0PAR1"])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, content: bytes) -> None:
    own, other = own_table(tmp_path / "own"), FakeDelta(tmp_path / "other")
    for delta in (own, other):
        path = log_file(delta, "checkpoint.parquet")
        path.write_bytes(content)
        (path.parent / f"{0:020d}.json").unlink()
    if not content:  # an empty file is none, so that the commits count
        return
    assert has_offsets(own)
    with pytest.raises(ConnectError, match=r"checkpoint .* cannot be read"):
        has_offsets(other)


@pytest.mark.parametrize(
    ("properties", "summary", "expected"),
    [
        (["sluice.connector.c"], {}, True),
        (["sluice.connector.c@audit"], {}, True),
        ([], {"sluice.offsets.c": '{"x":1}'}, True),
        (["sluice.connector.c2", "sluice.connector.d@c"], {"sluice.offsets.d": '{"x":1}'}, False),
        ([], {"sluice.offsets.c": "{}"}, False),
        ([], {}, False),
    ],
)
def test_iceberg_tables_tell_by_a_property_or_by_a_summary(
    properties: list[str], summary: dict[str, str], expected: bool
) -> None:
    assert names_connector(properties, [{"id": 1, "summary": summary}], "c") is expected


# --- the tables of a location


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_own_tables_of_a_location_are_found(tmp_path: Path, table_format: str, caplog: pytest.LogCaptureFixture) -> None:
    make: Mapping[str, Callable[[str, str], object]] = {
        "delta": lambda name, connector: own_table(tmp_path / name, connector),
        "parquet": lambda name, connector: append(open_parquet(tmp_path / name, connector), 0, 2),
    }
    for kind, make_table in make.items():
        make_table(f"{kind}_own", "c")
        make_table(f"{kind}_other", "d")
        make_table(f"{kind}_damaged", "d")
    damage_of = {"delta": "_delta_log/*.json", "parquet": "*.parquet"}[table_format]
    for path in (tmp_path / f"{table_format}_damaged").glob(damage_of):
        path.write_text("{")
    (tmp_path / "iceberg" / "metadata").mkdir(parents=True)
    found = find_own_tables(config(tmp_path, **{"table.format": table_format}), LEASE if table_format == "delta" else None)
    assert found == [f"{table_format}_own"]
    assert [message.partition(" is skipped")[0] for message in caplog.messages] == [
        f"Table {table_format}_damaged at {tmp_path}/{table_format}_damaged"
    ]


def test_a_store_that_fails_skips_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_table(tmp_path / "t")

    def fail(*_: object) -> None:
        raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation: no more")

    monkeypatch.setattr(DeltaLog, "commit", fail)
    with pytest.raises(ConnectError, match=f"cannot read the table at {tmp_path}/t: AWS Error NETWORK_CONNECTION"):
        find_own_tables(config(tmp_path), LEASE)


def test_a_parquet_table_of_the_connector_is_not_skipped_because_of_a_damaged_file(tmp_path: Path) -> None:
    table = open_parquet(tmp_path / "t")
    append(table, 0, 2)
    append(table, 2, 4)
    max((tmp_path / "t").glob("*.parquet")).write_bytes(b"damaged")
    assert find_own_tables(config(tmp_path, **{"table.format": "parquet"}), None) == ["t"]
