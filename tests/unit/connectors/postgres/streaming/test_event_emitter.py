"""Change events from the bytes of the stream."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from connect.errors import DataError
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import parse_config
from connectors.postgres.offsets import StreamPosition
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming.event_emitter import ChangeEventEmitter
from connectors.postgres.types.catalog_type import CatalogType

CONFIG = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
INT, VARBIT = 23, 1562
TYPES = {oid: CatalogType(oid, "pg_catalog", name, "b", 0, 0, -1) for oid, name in ((INT, "int4"), (VARBIT, "varbit"))}
UNCHANGED = b"u"
Value = str | bytes | None


class Stream:
    """An emitter of the table t (id, code, bits), and the messages of its server."""

    def __init__(self, identity: str = "d", flagged: Sequence[str] = ("id",), **config: str) -> None:
        settings = parse_config(CONFIG | {name.replace("_", "."): value for name, value in config.items()})
        columns = (
            CapturedColumn("id", INT, -1, True, None),
            CapturedColumn("code", INT, -1, True, None),
            CapturedColumn("bits", VARBIT, -1, False, None),
        )
        table = CapturedTable(1, "public", "t", columns, ("id",), identity, "r", -1)
        rows = TableRows(table, TYPES, settings, Filters(settings.capture))
        tables: Any = SimpleNamespace(bind_relation=lambda relation: rows, capture=lambda rows: None)
        self.emitter = ChangeEventEmitter(settings, tables, StreamPosition(0), "1")
        names = ((name, name in flagged or identity == "f") for name in ("id", "code", "bits"))
        described = b"".join(
            struct.pack("!B", flag) + name.encode() + b"\0" + struct.pack("!Ii", INT, -1) for name, flag in names
        )
        self.send(b"B" + struct.pack("!QqI", 1000, 0, 7))
        self.send(b"R" + struct.pack("!I", 1) + b"public\0t\0" + identity.encode() + struct.pack("!H", 3) + described)

    def send(self, message: bytes, lsn: int = 500) -> None:
        self.emitter.on_data(b"w" + struct.pack("!QQQ", lsn, lsn, 0) + message)

    def update(self, new: Sequence[Value], old: Sequence[Value] | None = None, marker: bytes = b"O") -> None:
        before = b"" if old is None else marker + row(old)
        self.send(b"U" + struct.pack("!I", 1) + before + b"N" + row(new))


def row(values: Sequence[Value]) -> bytes:
    parts = [struct.pack("!H", len(values))]
    for value in values:
        if isinstance(value, str):
            parts.append(b"t" + struct.pack("!I", len(value)) + value.encode())
        else:
            parts.append(b"n" if value is None else value)
    return b"".join(parts)


def test_an_unchanged_value_without_placeholder_comes_from_the_old_row() -> None:
    stream = Stream("f")
    stream.update(["1", "3", UNCHANGED], ["1", "2", "101"])
    (record,) = stream.emitter.out
    assert record.value["after"].as_dict() == {"id": 1, "code": 3, "bits": b"\x05"}


def test_an_unchanged_value_without_placeholder_and_old_row_is_an_error_with_the_key() -> None:
    stream = Stream()
    stream.update(["1", "3", UNCHANGED])
    (errant,) = stream.emitter.out
    with pytest.raises(DataError, match=r"public\.t with the key \(id=1\).*public\.t\.bits is unavailable.*FULL"):
        assert errant.value
    assert stream.emitter.position().tx_events == 1


def test_an_update_or_delete_without_the_record_key_is_an_error() -> None:
    stream = Stream(message_key_columns="public.t:code")
    stream.send(b"I" + struct.pack("!I", 1) + b"N" + row(["1", "2", None]))
    with pytest.raises(DataError, match=r"\(code=2\).*message\.key\.columns"):
        stream.update(["1", "2", None])
    with pytest.raises(DataError, match=r"message\.key\.columns"):
        stream.send(b"D" + struct.pack("!I", 1) + b"K" + row(["1", None, None]))
    assert [r.key.as_dict() for r in stream.emitter.out] == [{"code": 2}]
    assert stream.emitter.position().tx_events == 1


def logical_message(prefix: str, content: bytes, *, transactional: bool = True) -> bytes:
    return b"M" + struct.pack("!BQ", transactional, 500) + prefix.encode() + b"\0" + struct.pack("!I", len(content)) + content


def test_messages_of_a_transaction_count_as_changes_of_it() -> None:
    stream = Stream(message_prefix_exclude_list="private.*")
    stream.send(logical_message("order", b"\x00x"))
    stream.send(b"I" + struct.pack("!I", 1) + b"N" + row(["1", "2", None]))
    stream.send(logical_message("private-1", b""))
    stream.send(b"I" + struct.pack("!I", 1) + b"N" + row(["2", "2", None]))
    message, *rows = stream.emitter.out
    assert (message.topic, message.key.as_dict()) == ("p.message", {"prefix": "order"})
    value = message.value.as_dict()
    assert (value["op"], value["message"], value["transaction"]) == ("m", {"prefix": "order", "content": b"\x00x"}, None)
    assert (value["source"]["schema"], value["source"]["table"]) == ("", "")
    message.value.validate()
    assert [r.source_offset["tx_events"] for r in (message, *rows) if r.source_offset] == [1, 2, 4]
    assert message.source_offset is not None
    assert (message.source_offset["messageType"], message.source_offset["lsn_events_processed"]) == ("MESSAGE", 0)
