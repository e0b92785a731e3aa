"""Converts rows of a COPY to 'r' events, for any kind of snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.data.struct import Struct
from connect.record import SourceRecord
from connect.text_records import TextRecords
from connectors.cdc.offsets import source_partition
from connectors.cdc.schema.column_type import CONVERSION_ERRORS
from connectors.cdc.snapshot.offsets import OffsetStep
from connectors.databases.postgresql.text_format import unescape_copy
from connectors.postgres.config import PostgresConfig
from connectors.postgres.schema import source_block as block
from connectors.postgres.schema.errant_rows import errant_row
from connectors.postgres.schema.row_decoder import NullInRequiredError, SnapshotDecoder, TableRows, snapshot_decoder
from connectors.postgres.schema.value_errors import ReplicaIdentityError, copy_texts
from connectors.postgres.snapshot.text_batches import EventTime, TextBatches, Traits


@dataclass(frozen=True, slots=True)
class SnapshotPoint:
    """The point in time of a snapshot: it contains exactly the transactions that committed before ``lsn``."""

    lsn: int
    tx_id: int | None


class TableEvents:
    """Converts the rows of one table. A line has the columns of ``rows.columns`` in the text format of COPY."""

    def __init__(
        self,
        rows: TableRows,
        point: SnapshotPoint,
        settings: PostgresConfig,
        version: str,
        make_nullable: Callable[[TableRows, str], TableRows],
    ) -> None:
        self.rows = rows
        self._point = point
        self._settings = settings
        self._version = version
        self._make_nullable = make_nullable
        self._partition = source_partition(settings.topic_prefix)
        self._decode: SnapshotDecoder | None = None
        self._batches: TextBatches | None = None

    def records(self, lines: Sequence[str], marker: str, offsets: OffsetStep) -> list[SourceRecord]:
        """The events of lines; ``marker`` is their ``source.snapshot``."""
        time_ = _now()
        return self._decoded(lines, self._source(marker, time_), offsets, time_)

    def batch(self, lines: Sequence[str], traits: Traits, offsets: OffsetStep) -> TextRecords | list[SourceRecord]:
        """The events of rows between the first and the last one of a table."""
        time_ = _now()
        source = self._source("true", time_)
        if self.rows.judgment.error is not None:
            return self._decoded(lines, source, offsets, time_)
        if self._batches is None:
            self._batches = TextBatches(self.rows)

        def create() -> list[SourceRecord]:
            return self._decoded(lines, source, offsets, time_)

        return self._batches.records(lines, traits, source, time_, self._partition, offsets.after, create)

    def key_of(self, line: str, indexes: Sequence[int]) -> tuple[str, ...]:
        """The texts of some columns, which have no nulls."""
        texts = line.split("\t")
        return tuple(unescape_copy(texts[i]) if "\\" in texts[i] else texts[i] for i in indexes)

    def _decoded(self, lines: Sequence[str], source: Struct, offsets: OffsetStep, time_: EventTime) -> list[SourceRecord]:
        """Creates records. A row that cannot be converted does not keep the others."""
        offset = offsets.before
        try:
            records = self._decode_lines(lines, source, offset, time_)
        except CONVERSION_ERRORS:
            records = []
            for line in lines:
                try:
                    records += self._decode_lines([line], source, offset, time_)
                except ReplicaIdentityError:
                    raise
                except CONVERSION_ERRORS as e:
                    mode = self._settings.events.failure_mode
                    records.append(errant_row(self.rows, copy_texts(line), e, mode, self._partition, offset))
        records[-1].source_offset = offsets.after
        return records

    def _decode_lines(
        self, lines: Sequence[str], source: Struct, offset: Mapping[str, Any], time_: EventTime
    ) -> list[SourceRecord]:
        """Creates records. A column that is required but has a null becomes optional, for these lines and all later ones."""
        self.rows.judgment.raise_error()
        while True:
            if self._decode is None:
                self._decode = snapshot_decoder(self.rows)
            try:
                return self._decode(list(lines), source, self._partition, offset, time_.ms, time_.us, time_.ns)
            except NullInRequiredError as e:
                self.rows = self._make_nullable(self.rows, e.column)
                self._decode = self._batches = None

    def _source(self, marker: str, time_: EventTime) -> Struct:
        """A source block shared by consecutive rows."""
        settings, table = self._settings, self.rows.table
        values = block.source_values(self._version, settings.topic_prefix, settings.address.database, table.schema, table.name)
        values[block.TS_MS], values[block.TS_US], values[block.TS_NS] = time_.ms, time_.us, time_.ns
        values[block.SNAPSHOT] = marker
        values[block.TX_ID], values[block.LSN] = self._point.tx_id, self._point.lsn
        values[block.SEQUENCE] = f'[null,"{self._point.lsn}"]'
        return Struct(block.SOURCE, values)


def _now() -> EventTime:
    ns = time.time_ns()
    return EventTime(ns // 1_000_000, ns // 1000, ns)
