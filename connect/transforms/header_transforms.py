"""InsertHeader and DropHeaders: add a fixed header to every record, and remove headers by name."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import DistinctList, NonNull
from connect.data.headers import Header, Headers
from connect.data.logical import FarInstant
from connect.data.values import format_instant, parse_string
from connect.errors import ConfigError
from connect.record import ConnectRecord, SchemaAndValue
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.column_transformation import ColumnTransformation
from connect.transforms.columnar.columns import RecordColumns
from connect.transforms.lossless import format_value
from connect.transforms.record_copies import copy_record

_INSERT = (
    ConfigDef()
    .define(
        "header", ConfigType.STRING, validator=NonNull(), importance=Importance.HIGH, doc="The name of the header."
    )
    .define(
        "value.literal", ConfigType.STRING, validator=NonNull(), importance=Importance.HIGH,
        doc="The literal value that is to be set as the header value on all records.",
    )
)  # fmt: skip
_DROP = ConfigDef().define(
    "headers", ConfigType.LIST, validator=DistinctList(), importance=Importance.HIGH,
    doc="The name of the headers to be removed.",
)  # fmt: skip


class InsertHeader(ColumnTransformation):
    """Adds a header with the value of a literal (``5`` is an int8, ``[1,2]`` a list). Other headers of that name stay."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _INSERT

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _INSERT.parse(configs)
        literal = values["value.literal"]
        parsed = parse_string(literal)
        if is_strict(configs) and not _is_lossless_literal(literal, parsed):
            raise ConfigError.invalid(
                "value.literal",
                literal,
                f"it is read as {format_value(parsed.value)} ({STRICT} is on); put it in quotes to keep it as text",
            )
        self._header = Header(values["header"], parsed.schema, parsed.value)

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        header = self._header
        results: list[ConnectRecord] = []
        for record in records:
            new = copy_record(record)
            new.headers = Headers((header,)) if new.headers is None else new.headers.with_added((header,))
            results.append(new)
        return results

    def apply_columns(self, batch: RecordColumns) -> None:
        header = self._header
        added = (header,)
        batch.headers = [Headers(added) if old is None else old.with_added(added) for old in batch.headers]


def _is_lossless_literal(literal: str, parsed: SchemaAndValue) -> bool:
    """Whether parsing the literal lost nothing."""
    value = parsed.value
    if isinstance(value, dt.date | dt.time | FarInstant):
        return literal.strip() == format_instant(value)
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        try:
            return decimal.Decimal(literal.strip()) == decimal.Decimal(repr(value) if isinstance(value, float) else value)
        except decimal.InvalidOperation:
            return False
    return True


class DropHeaders(ColumnTransformation):
    """Removes all headers with these names."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _DROP

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._names = frozenset(_DROP.parse(configs)["headers"])

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        names = self._names
        results: list[ConnectRecord] = []
        for record in records:
            if record.headers is None or not any(h.key in names for h in record.headers):
                results.append(record)
                continue
            new = copy_record(record)
            new.headers = Headers(h for h in record.headers if h.key not in names)
            results.append(new)
        return results

    def apply_columns(self, batch: RecordColumns) -> None:
        names, headers = self._names, batch.headers
        if any(any(h.key in names for h in old) for old in headers if old is not None):
            batch.headers = [None if old is None else Headers(h for h in old if h.key not in names) for old in headers]
