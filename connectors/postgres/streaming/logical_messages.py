"""Records of logical decoding messages (``pg_logical_emit_message``), in Debezium's form."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.cdc.name_adjustment import schema_name_adjuster
from connectors.cdc.offsets import source_partition
from connectors.cdc.schema.envelope import TRANSACTION
from connectors.cdc.schema.filters import name_matches
from connectors.postgres.config import PostgresConfig
from connectors.postgres.schema import source_block as block
from connectors.postgres.streaming.pgoutput import LogicalMessage
from connectors.postgres.types.text import binary

MESSAGE_TRANSACTION_AT = 3
"""The position of the transaction block in the value of a message."""
_NAME = "io.debezium.connector.postgresql.Message"
_TRUE = ("true", "on", "yes", "1", "t", "y", "")
"""Values of the plugin's option in ``slot.stream.params``."""


class LogicalMessageBuilder:
    """Builds the records of the messages whose prefix is captured."""

    def __init__(self, settings: PostgresConfig, version: str) -> None:
        self._settings = settings
        self._version = version
        self._partition = source_partition(settings.topic_prefix)
        self._topic = f"{settings.topic_prefix}.message"
        self._content = binary(settings.types)
        self._is_wanted = dict(settings.slot.plugin_options).get("messages", "true").lower() in _TRUE
        adjust = schema_name_adjuster(settings.events.schema_name_adjustment)
        self._key = SchemaBuilder.struct().name(adjust(f"{_NAME}Key")).version(1).field("prefix", Schema.OPTIONAL_STRING).build()
        self._message = (
            SchemaBuilder.struct()
            .name(adjust(_NAME))
            .version(1)
            .field("prefix", Schema.OPTIONAL_STRING)
            .field("content", self._content.schema.as_optional())
            .build()
        )
        self._value = (
            SchemaBuilder.struct()
            .name(adjust(f"{_NAME}Value"))
            .version(1)
            .field("op", Schema.STRING)
            .field("ts_ms", Schema.OPTIONAL_INT64)
            .field("source", block.SOURCE)
            .field("transaction", TRANSACTION)
            .field("message", self._message)
            .build()
        )

    def captures(self, prefix: str) -> bool:
        """Whether the filters include messages with this prefix."""
        if not self._is_wanted:
            return False
        if self._settings.message_include:
            return name_matches(self._settings.message_include, prefix)
        return not name_matches(self._settings.message_exclude, prefix)

    def record(
        self, message: LogicalMessage, offset: Mapping[str, Any], sequence: str, commit_us: int | None, xmin: int | None
    ) -> SourceRecord:
        """Builds a record. ``commit_us`` is that of the transaction, or of the one before a message without a transaction."""
        settings = self._settings
        now_us = time.time_ns() // 1000
        us = now_us if commit_us is None else commit_us
        source = block.source_values(self._version, settings.topic_prefix, settings.address.database, "", "")
        source[block.TS_MS], source[block.TS_US], source[block.TS_NS] = us // 1000, us, us * 1000
        source[block.SEQUENCE], source[block.LSN], source[block.XMIN] = sequence, offset["lsn"], xmin
        source[block.TX_ID] = offset.get("txId") if message.transactional else None
        content = self._content.decode("\\x" + message.content.hex())
        return SourceRecord(
            self._partition,
            offset,
            self._topic,
            None,
            self._key,
            Struct(self._key, [message.prefix]),
            self._value,
            Struct(
                self._value,
                [
                    "m",
                    now_us // 1000,
                    Struct(block.SOURCE, source),
                    None,
                    Struct(self._message, [message.prefix, content]),
                ],
            ),
        )
