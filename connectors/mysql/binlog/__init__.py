"""The binary log of MySQL (5.5 to 9) and MariaDB (10.0 and later): a pure codec without connections or files.

Use::

    decoder = BinlogDecoder(master_checksum="CRC32")   # what the client assigned to @master_binlog_checksum
    event = decoder.decode(packet, 1)                  # a packet of COM_BINLOG_DUMP has its event from 1 on

    match event:
        case TableMapEvent(table=table): ...
        case RowsEvent(table=table):
            rows = decoders[table].rows(event)         # decoders[table] = RowDecoder(table, readers)
        case TransactionPayload():
            for inner in decoder.payload_events(event): ...

For a file, ``split_file(data)`` yields the bytes of each event.

- **Events** are named tuples with a ``header``. ``RowsEvent.kind`` says what happened to its rows. ``OtherEvent.is_known`` is
  False for events of newer servers; only those whose header is ``is_ignorable`` may be skipped. ``Incident``, ``LoadedData``, and
  ``StatementContext`` mean that the log lacks rows; so does a ``Query`` that is no DDL, BEGIN, COMMIT, XA, or SAVEPOINT.
- **Tables**: a ``TableMap`` comes before each statement and equals the one before as long as the structure is the same, so it
  is the key of the decoders. Column names and keys need binlog_row_metadata=FULL.
- **Rows**: ``RowDecoder.rows`` returns tuples of the columns that have a ``ColumnReader``, or pairs of tuples for updates.
  Columns that the image does not have are ``ABSENT``; a JSON document of which only changes are known is ``JsonDiffs``.

Raw values, which a reader may convert; null is None:

============================  =======================================================================
TINYINT to BIGINT, YEAR       int
FLOAT, DOUBLE                 float
DECIMAL                       int: the unscaled value (``decimal_text`` makes text of it)
DATE                          int: ``year << 9 | month << 5 | day``, zero and impossible dates included
DATETIME                      int: MySQL's packed form (``connectors.mysql.binlog.temporal``)
TIMESTAMP                     int: microseconds since 1970; 0 is 0000-00-00 00:00:00
TIME                          int: microseconds, may be negative
CHAR, VARCHAR, TEXT, BINARY   bytes in the column's charset, without the padding of CHAR and BINARY
BIT                           int
ENUM                          int: the number of the value, from 1 on; 0 is the error value ''
SET                           int: a bit per value
GEOMETRY                      bytes: SRID (four bytes, little-endian) and WKB
VECTOR                        bytes: float32, little-endian
JSON                          str: the text that MySQL prints. MariaDB's JSON is TEXT
============================  =======================================================================

Hostile data raises DataError: no loop and no allocation grows beyond what the data itself has. Nothing is converted with a loss.
"""

from connectors.mysql.binlog.decimals import decimal_text
from connectors.mysql.binlog.decoder import BinlogDecoder, Event
from connectors.mysql.binlog.events import (
    BinlogCheckpoint,
    EventHeader,
    FormatDescription,
    HeartbeatEvent,
    Incident,
    LoadedData,
    OtherEvent,
    Query,
    Rotate,
    RowsQuery,
    StatementContext,
    XaPrepare,
    Xid,
)
from connectors.mysql.binlog.gtid_events import Gtid, MariaDbGtidEvent, MariaDbGtidList, PreviousGtids
from connectors.mysql.binlog.gtid_set import GtidSet
from connectors.mysql.binlog.json_diff import JsonDiff, JsonDiffs
from connectors.mysql.binlog.log_file import split_file
from connectors.mysql.binlog.mariadb_gtid import MariaDbGtid, MariaDbGtidPosition
from connectors.mysql.binlog.payload import TransactionPayload
from connectors.mysql.binlog.row_code import ColumnReader
from connectors.mysql.binlog.row_decoder import ABSENT, RowDecoder
from connectors.mysql.binlog.rows_event import RowsEvent, RowsKind
from connectors.mysql.binlog.table_map import TableMap, TableMapEvent
from connectors.mysql.binlog.table_metadata import TableMapMetadata

__all__ = [
    "ABSENT",
    "BinlogCheckpoint",
    "BinlogDecoder",
    "ColumnReader",
    "Event",
    "EventHeader",
    "FormatDescription",
    "Gtid",
    "GtidSet",
    "HeartbeatEvent",
    "Incident",
    "JsonDiff",
    "JsonDiffs",
    "LoadedData",
    "MariaDbGtid",
    "MariaDbGtidEvent",
    "MariaDbGtidList",
    "MariaDbGtidPosition",
    "OtherEvent",
    "PreviousGtids",
    "Query",
    "Rotate",
    "RowDecoder",
    "RowsEvent",
    "RowsKind",
    "RowsQuery",
    "StatementContext",
    "TableMap",
    "TableMapEvent",
    "TableMapMetadata",
    "TransactionPayload",
    "XaPrepare",
    "Xid",
    "decimal_text",
    "split_file",
]
