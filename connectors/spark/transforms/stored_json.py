"""Reads JsonConverter's messages of one schema in the stored types, in native code.

Only values that the converter reads to exactly the same, with ``conversion.strict``, are read here. All others are left to it,
also those that it refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connect.data.logical import DATE, DECIMAL, MILLIS_PER_DAY, TIME, TIMESTAMP
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.spark.decode.arrow_types import column_for_schema, struct_column
from connectors.spark.decode.decoded_values import struct_of
from connectors.spark.decode.json import NotBatchable, find_prefix, parse
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.stored_arrow import physical_schema, with_positions
from connectors.spark.transforms.stored_types import arrow_type

Mask = npt.NDArray[np.bool_]

_SINGLE = "value"
_FEWEST_TOGETHER = 16
_MAX_ATTEMPTS = 200
"""Failed attempts to parse records of a batch together, after which those that are left go to the converter."""
_ERRORS = (NotBatchable, DataError, pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError)
# Python's years 1 to 9999, in days and milliseconds since 1970; other instants are objects of our own.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_RANGES = {
    TIME: (0, MILLIS_PER_DAY),
    DATE: (_FIRST_DAY, _LAST_DAY),
    TIMESTAMP: (_FIRST_DAY * MILLIS_PER_DAY, (_LAST_DAY + 1) * MILLIS_PER_DAY - 1),
}


def schema_text_of(prefix: bytes) -> bytes:
    """The schema in a prefix (:func:`connectors.spark.decode.json.find_prefix`)."""
    return prefix[len(b'{"schema":') : -len(b',"payload":')]


@dataclass(frozen=True, slots=True)
class StoredValues:
    """Values in stored types, null where ``is_read`` is false."""

    array: pa.Array
    is_read: Mask


class StoredJsonReader:
    """Reads messages that begin with ``prefix``, whose schema the converter reads as ``schema``.

    ``fills_defaults``: the converter replaces nulls by defaults. Raises NotCompilable for a schema with types that are not read
    here.
    """

    def __init__(self, prefix: bytes, schema: Schema, *, fills_defaults: bool) -> None:
        check_readable(schema)
        self._prefix = prefix
        self._schema = schema
        own = physical_schema(find_prefix(prefix + b"{}}", defaults=True).schema)
        self._is_struct = schema.type is Type.STRUCT
        column = column_for_schema(own, fills_defaults=fills_defaults)
        self._column = column if self._is_struct else struct_column([(_SINGLE, column)])
        self._types = pa.schema(list(self._column.json or ()))
        self.type = arrow_type(schema)

    def payload(self, message: bytes) -> bytes | None:
        """The payload of a message; None for a message with another beginning, or without a value."""
        if not message.startswith(self._prefix) or message[-1] != 125:  # "}"
            return None
        payload = message[len(self._prefix) : -1]
        if self._is_struct:
            return payload if payload[:1] == b"{" else None
        return None if payload == b"null" else payload

    def message(self, payload: bytes) -> bytes:
        """The message of a payload."""
        return self._prefix + payload + b"}"

    def read(self, payloads: Sequence[bytes]) -> StoredValues:
        """Reads payloads."""
        if not self._is_struct:
            payloads = [b'{"value":' + payload + b"}" for payload in payloads]
        return self._read(payloads, [_MAX_ATTEMPTS])

    def _read(self, payloads: Sequence[bytes], attempts: list[int]) -> StoredValues:
        if payloads and attempts[0] > 0:
            try:
                return self._parse(payloads)
            except _ERRORS:
                attempts[0] -= 1
            if len(payloads) > _FEWEST_TOGETHER:
                middle = len(payloads) // 2
                parts = [self._read(part, attempts) for part in (payloads[:middle], payloads[middle:])]
                return StoredValues(
                    pa.concat_arrays([part.array for part in parts]), np.concatenate([part.is_read for part in parts])
                )
        return StoredValues(pa.nulls(len(payloads), self.type), np.zeros(len(payloads), np.bool_))

    def _parse(self, payloads: Sequence[bytes]) -> StoredValues:
        rows = self._column.from_json(struct_of(parse(payloads, self._types, infer=False, refuse_unknown=True)))
        array = rows if self._is_struct else rows.field(0)
        is_read = fits(self._schema, array)
        renamed = with_positions(array)
        if not is_read.all():
            renamed = pc.if_else(pa.array(is_read), renamed, pa.nulls(len(renamed), renamed.type))
        return StoredValues(renamed, is_read)


def check_readable(schema: Schema) -> None:
    """Raises NotCompilable for a schema with maps, or without a stored type."""
    arrow_type(schema)
    if schema.type is Type.MAP:
        raise NotCompilable("maps in JSON are read row by row")
    if schema.value_schema is not None:
        check_readable(schema.value_schema)
    for field in schema.fields or ():
        check_readable(field.schema)


def fits(schema: Schema, array: pa.Array) -> Mask:
    """Which values of an array in stored types are surely values of the schema."""
    found: Mask = np.ones(len(array), np.bool_)
    if array.null_count:
        present = _mask(array.is_valid())
        if not schema.optional:
            found &= present
    else:
        present = found.copy()
    if schema.type is Type.STRUCT:
        for field, members in zip(schema.fields or (), array.flatten(), strict=True):
            found &= fits(field.schema, members) | ~present
    elif schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        wrong = ~fits(schema.value_schema, array.flatten())
        if wrong.any():
            found[pc.list_parent_indices(array).to_numpy()[wrong]] = False
    elif schema.name in _RANGES:
        low, high = _RANGES[schema.name]
        found &= ~present | _mask(pc.and_(pc.greater_equal(array, low), pc.less_equal(array, high)))
    elif schema.name == DECIMAL:
        found &= ~present | _mask(pc.greater(pc.binary_length(array), 0))
    elif schema.type in (Type.FLOAT32, Type.FLOAT64):
        # The text of a negative zero may be an integer, which has no sign.
        numbers = pc.fill_null(array, 1.0).to_numpy(zero_copy_only=False)
        found &= (numbers != 0) | ~np.signbit(numbers)
    return found


def _mask(booleans: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(booleans, False).to_numpy(zero_copy_only=False)
    return mask
