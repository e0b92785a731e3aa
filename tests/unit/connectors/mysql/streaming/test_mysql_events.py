"""Bytes of MySQL's binary log become change events: GTIDs with clocks, compressed transactions, and restarts within them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from connectors.cdc.offsets import source_partition
from connectors.cdc.schema.filters import Filters
from connectors.cdc.streaming.transaction_metadata import TransactionMetadata
from connectors.mysql.binlog import BinlogDecoder, GtidSet
from connectors.mysql.config import parse_config
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import BinlogPosition, parse_gtids, parse_offset
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.history.ddl_selection import DdlSelection
from connectors.mysql.schema.history.history import SchemaHistory
from connectors.mysql.schema.history.store import MemoryHistoryStore
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import ServerInfo
from connectors.mysql.streaming.change_events import BinlogEventBuilder
from connectors.mysql.streaming.event_emitter import BinlogEventEmitter
from connectors.mysql.streaming.observers import BinlogObservers
from connectors.mysql.streaming.structure_changes import StructureChanges
from tests.support.binlog_encoder import event, row, rows_body, table_map
from tests.support.source_runner import shown
from tests.unit.connectors.mysql.streaming.logged_transactions import (
    COMMIT_US,
    EXPECTED,
    FILE,
    STATEMENT,
    TABLE,
    UUID,
    WRITE,
    gtid,
    query,
    stream_start,
    transaction,
    with_checksum,
)

CONFIG = {
    "topic.prefix": "shop",
    "database.hostname": "h",
    "database.user": "u",
    "database.server.id": "5",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
    "provide.transaction.metadata": "true",
}


class Stream:
    """A stream that begins at an offset."""

    ddl = "CREATE TABLE t (id INT, n INT, PRIMARY KEY (id))"

    def __init__(self, start: BinlogPosition, **config: str) -> None:
        settings = parse_config({**CONFIG, **{key.replace("_", "."): value for key, value in config.items()}})
        filters = Filters(settings.capture)
        tables = MySqlCapturedTables(settings, filters)
        self.store = MemoryHistoryStore()
        history = SchemaHistory(self.store, source_partition("shop"), settings.history)
        selection = DdlSelection(settings.history, tables.captures, filters.captures_schema)
        self.structures = structures = TableStructures(history, selection.is_stored)
        structures.set_server(ServerInfo("8.4.3", (8, 4, 3), False, {"gtid_mode": "ON"}))
        structures.record(structures.changes_of(self.ddl, "db"), {"file": FILE, "pos": 4}, "db", self.ddl, ts_ms=0)
        builder = BinlogEventBuilder(settings, "1")
        changes = StructureChanges(settings, structures, tables, selection, builder, _connect)
        has_metadata = settings.events.transaction_metadata
        metadata = TransactionMetadata("shop", ".", settings.events, lambda id, offset: id) if has_metadata else None
        decoder = BinlogDecoder(file=start.file, master_checksum="CRC32")
        self.emitter = BinlogEventEmitter(
            start, parse_gtids(start.gtids), decoder, builder, tables, changes, BinlogObservers(), metadata
        )
        # As a server does when a stream begins at GTIDs: the file that it reads, from its beginning.
        for data in stream_start(4):
            self.emitter.on_event(data)

    def read(self, events: Sequence[bytes]) -> list[Any]:
        for data in events:
            self.emitter.on_event(data)
        return list(self.emitter.take_records())


def _connect() -> MySqlConnection:
    raise AssertionError("no query is needed")


@dataclass(frozen=True)
class Log:
    """The events of transactions, by the last number of their GTIDs."""

    transactions: Mapping[int, Sequence[bytes]]

    def after(self, gtids: str) -> list[bytes]:
        """What a server sends to a client that has these transactions, with checksums."""
        known = GtidSet.parse(gtids)
        found = []
        for sequence, events in self.transactions.items():
            if not GtidSet.parse(f"{UUID}:{sequence}").is_subset(known):
                found += [with_checksum(data) for data in events]
        return found


@pytest.fixture(params=[False, True], ids=["plain", "compressed"])
def log(request: pytest.FixtureRequest) -> Log:
    """Two transactions, and a statement between them."""
    return Log(
        {
            6: transaction(6, 1000, is_compressed=request.param),
            7: [gtid(7, 1700), query("ALTER TABLE t COMMENT 'new'", 1800)],
            8: transaction(8, 2000, is_compressed=request.param),
        }
    )


def _changes(records: Sequence[Any]) -> list[Any]:
    return [shown(r) for r in records if r.topic == "shop.db.t"]


GTIDS = f"{UUID}:1-5"
START = BinlogPosition(FILE, 1000, GTIDS)


def test_transactions_have_gtids_clocks_and_metadata(log: Log) -> None:
    records = Stream(START).read(log.after(GTIDS))
    assert _changes(records) == EXPECTED * 2
    begin, *_ = records
    assert (begin.topic, begin.value["status"], begin.value["id"]) == ("shop.transaction", "BEGIN", f"{UUID}:6")
    block = records[1].value["source"].as_dict()
    assert (block["connector"], block["gtid"], block["file"], block["thread"]) == ("mysql", f"{UUID}:6", FILE, 77)
    assert (block["ts_us"], block["ts_ms"], block["server_id"]) == (COMMIT_US, COMMIT_US // 1000, 7)
    end = next(r for r in records if r.topic == "shop.transaction" and r.value["status"] == "END")
    assert (end.value["event_count"], end.source_offset["gtids"]) == (4, f"{UUID}:1-6")
    (change,) = [r for r in records if r.topic == "shop"]
    assert change.value["ddl"].startswith("ALTER TABLE t")
    assert change.source_offset["gtids"] == f"{UUID}:1-7"


def test_every_offset_continues_with_the_next_change(log: Log) -> None:
    records = Stream(START).read(log.after(GTIDS))
    for number, record in enumerate(records):
        position = parse_offset(record.source_offset).position
        found = Stream(position).read(log.after(position.gtids or ""))
        # The offset of a delete is that before its row, because its tombstone follows.
        repeated = 1 if record.topic == "shop.db.t" and shown(record)[1] == "d" else 0
        assert _changes(found) == _changes(records[number + 1 - repeated :])


def test_rows_of_a_statement_have_its_text_after_a_restart_within_it(log: Log) -> None:
    records = [r for r in Stream(START, include_query="true").read(log.after(GTIDS)) if r.topic == "shop.db.t" and r.value]
    assert [r.value["source"]["query"] for r in records[:4]] == [STATEMENT] * 4
    for number, record in enumerate(records[:3]):
        position = parse_offset(record.source_offset).position
        found = Stream(position, include_query="true").read(log.after(position.gtids or ""))
        rest = [r.value["source"]["query"] for r in found if r.topic == "shop.db.t" and r.value]
        assert rest == [STATEMENT] * (7 - number)


def test_sources_that_are_not_read_are_left_out(log: Log) -> None:
    stream = Stream(START, gtid_source_excludes=UUID)
    records = stream.read(log.after(GTIDS))
    assert [r.topic for r in records] == ["shop"], "the structure of tables is followed all the same"
    assert stream.emitter.position.gtids == f"{UUID}:1-8"


def test_table_of_a_select_is_one_transaction_with_its_rows() -> None:
    create = "CREATE TABLE `t` (`id` int NOT NULL, `n` int, `m` int, PRIMARY KEY (`id`)) START TRANSACTION"
    described = table_map([*TABLE, (3, b"")])
    described = described.replace(b"\3\3\3\3\0\7", b"\3\3\3\3\0\6")  # the key is NOT NULL
    images = b"".join(row([struct.pack("<i", n)] * 3) for n in (1, 2))
    log = Log(
        {
            6: [
                gtid(6, 1100),
                query(create, 1200),
                described[:13] + (1250).to_bytes(4, "little") + described[17:],
                event(WRITE, rows_body(images, 3), next_position=1300),
                event(16, (9).to_bytes(8, "little"), next_position=1400),
            ]
        }
    )
    records = Stream(START).read(log.after(GTIDS))
    changes = _changes(records)
    assert changes == [("t", "c", None, {"id": n, "n": n, "m": n}) for n in (1, 2)]
    first = next(record for record in records if record.topic == "shop.db.t")
    assert first.value["source"]["gtid"] == f"{UUID}:6"
    position = parse_offset(first.source_offset).position
    assert position.gtids == GTIDS, "the transaction is not complete"
    assert _changes(Stream(position).read(log.after(GTIDS))) == changes[1:]


def test_schema_change_events_of_several_tables_have_their_part_of_the_statement() -> None:
    stream = Stream(START)
    records = stream.read(
        [
            with_checksum(data)
            for data in (
                gtid(6, 1100),
                query("CREATE TABLE u (id INT)", 1200),
                gtid(7, 1300),
                query("RENAME TABLE t TO `v`, u TO t", 1400),
                gtid(8, 1500),
                query("DROP TABLE IF EXISTS `t`, db.v /* generated by server */", 1600),
            )
        ]
    )
    assert [r.value["ddl"] for r in records] == [
        "CREATE TABLE u (id INT)",
        "RENAME TABLE t TO `v`",
        "RENAME TABLE u TO t",
        "DROP TABLE IF EXISTS `db`.`t`",
        "DROP TABLE IF EXISTS `db`.`v`",
    ]
    assert [record["ddl"] for record in map(orjson.loads, stream.store.records)][-1].startswith("DROP TABLE IF EXISTS `t`, db.v")


@pytest.mark.parametrize("skipped", ["none", "t"])
def test_truncate_is_no_change_of_the_structure(skipped: str) -> None:
    stream = Stream(START, skipped_operations=skipped)
    stored = list(stream.store.records)
    records = stream.read([with_checksum(data) for data in (gtid(6, 1100), query("TRUNCATE TABLE t", 1200))])
    assert [(r.topic, r.value["op"]) for r in records] == ([("shop.db.t", "t")] if skipped == "none" else [])
    assert stream.store.records == stored
    assert stream.emitter.position.gtids == f"{UUID}:1-6"


def test_statement_that_debeziums_history_has_already_is_passed() -> None:
    """Its offset behind a statement has no GTID of it, so the server sends the statement again."""
    stream = Stream(START)
    ddl = "ALTER TABLE t ADD c INT"
    offset = {"server_id": 7, "gtids": GTIDS, "file": FILE, "pos": 1200}
    stream.structures.record(stream.structures.changes_of(ddl, "db"), offset, "db", ddl, ts_ms=0)
    assert stream.structures.recover(offset) == 2
    events = [gtid(6, 1100), query(ddl, 1200), gtid(7, 1300), query("ALTER TABLE t ADD e INT", 1400)]
    (record,) = stream.read([with_checksum(data) for data in events])
    assert record.value["ddl"] == "ALTER TABLE t ADD e INT"
    assert stream.emitter.position.gtids == f"{UUID}:1-7"
    (table,) = stream.structures.tables.values()
    assert [column.name for column in table.columns] == ["id", "n", "c", "e"]
