"""What one connector asks of records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from connectors.jdbc.debezium_sink.naming import CollectionNames, FieldFilter
from connectors.jdbc.options import InsertMode


class KeyMode(Enum):
    """``primary.key.mode``: where the primary key comes from."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"
    RECORD_HEADER = "record_header"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a configuration says of records, beside how rows are written."""

    key_mode: KeyMode
    key_fields: tuple[str, ...]
    fields: FieldFilter
    names: CollectionNames
    insert_mode: InsertMode
    deletes: bool
    truncates: bool
    keeps_case: bool
    cloud_events: re.Pattern[str]
    """Names of schemas of CloudEvents."""
    unavailable: str
    """What stands for a value that the source did not send; empty is nothing."""
    postgis_schema: str = "public"
    looks_at_start: tuple[str, ...] = ()
    """Topics whose tables must be there when a task starts."""

    @property
    def needs_key(self) -> bool:
        return self.insert_mode is not InsertMode.INSERT or self.deletes
