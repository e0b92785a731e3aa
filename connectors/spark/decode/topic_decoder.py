"""Decodes records of one topic to :class:`ChangeBatch`: whole batches of JSON natively, everything else record by record."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.converters.api import Converter
from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema
from connect.errors import DataError
from connect.record import SinkRecord
from connectors.spark.decode import schema_inference
from connectors.spark.decode.arrow_casts import find_differences
from connectors.spark.decode.change_batch import OLD_KEY, ChangeBatch, KeyGroup, RecordKeys, empty_rows, group_parts, make_meta
from connectors.spark.decode.column_decoder import ColumnDecoder, ColumnRecords
from connectors.spark.decode.decoded_values import DecodedValues
from connectors.spark.decode.json import JsonSchemas, NotBatchable
from connectors.spark.decode.json_batch_decoder import JsonBatchDecoder, Payloads
from connectors.spark.decode.json_record_decoder import DocumentReader, JsonRecordDecoder
from connectors.spark.decode.key_decoder import KeyDecoder
from connectors.spark.decode.layouts import SchemaCache
from connectors.spark.decode.old_keys import OldKeyDecoder
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.record_decoder import RecordDecoder
from connectors.spark.decode.schema_inference import InferredSchema, TopicContent
from connectors.spark.decode.source_block import SourceBlock, SourceColumns
from connectors.spark.decode.table_fields import TableFields
from connectors.spark.variant_columns import NO_VARIANTS, VariantColumns

DECODE_ERRORS = (DataError, pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError)
"""Errors for values that cannot be read or do not have the type of their column."""


class TopicDecoder:
    """Decodes one topic and caches its schemas. Not thread-safe.

    Raw records must be JSON as the converters read it, but are read without their leniency: what a column cannot hold to the bit
    is refused (promise 8). ``needs_names`` and ``needs_position`` fill these columns of META. With ``rescues``, values without a
    schema that do not have the type of their column are in the image's column RESCUED instead of being refused; with
    ``rescues_empty``, so are objects without values that have no column. With ``tells_missing``, META names the fields of records
    without a schema; ``wants_defaults`` reads the defaults of schemas. ``decisive`` are the fields of rows that say what to do
    with them, which are never rescued. ``content`` is what is known of values without a schema, and learns more.
    """

    def __init__(
        self,
        topic: str,
        key_converter: Converter,
        value_converter: Converter,
        *,
        key_schemas: bool,
        value_schemas: bool,
        fill_defaults: bool,
        key_name: str | None,
        needs_names: bool,
        needs_keys: bool,
        keeps_tombstones: bool = True,
        skips_single_keys: bool = False,
        needs_position: bool = False,
        rescues: bool = False,
        rescues_empty: bool = True,
        variants: VariantColumns = NO_VARIANTS,
        tells_missing: bool = False,
        wants_defaults: bool = False,
        decisive: Collection[str] = (),
        content: TopicContent | None = None,
    ) -> None:
        self.topic = topic
        self.inferred_value_schema = InferredSchema(
            variants, content, tells_missing=tells_missing, places_empty=rescues and rescues_empty, decisive=decisive
        )
        self._inferred_key_schema = InferredSchema()
        self._value_schemas = value_schemas
        schemas = SchemaCache(topic, key_name, variants, fills_defaults=fill_defaults, wants_defaults=wants_defaults)
        inferred, source = self.inferred_value_schema, SourceBlock(needs_names, needs_position)
        self.reads_defaults = reads_defaults = fill_defaults or wants_defaults
        fills_keys = isinstance(key_converter, JsonConverter) and key_converter.replaces_null_with_default
        of_values, of_keys = JsonSchemas(defaults=reads_defaults), JsonSchemas(defaults=fills_keys)
        fixed_value, fixed_key = _fixed_schema(value_converter), _fixed_schema(key_converter)
        values = DocumentReader(of_values, with_schemas=value_schemas, fixed=fixed_value, fills_defaults=fill_defaults)
        keys = DocumentReader(of_keys, with_schemas=key_schemas, fixed=fixed_key, fills_defaults=fills_keys)
        self._batches = JsonBatchDecoder(schemas, of_values, inferred, source, with_schemas=value_schemas)
        self._documents = JsonRecordDecoder(schemas, inferred, source, values, rescues=rescues)
        self._records = RecordDecoder(schemas, inferred, source, self._batches, self._documents)
        self._columns = ColumnDecoder(schemas, source)
        self._keys = KeyDecoder(
            schemas,
            of_keys,
            self._inferred_key_schema,
            keys,
            with_schemas=key_schemas,
            needs_keys=needs_keys,
            keeps_tombstones=keeps_tombstones,
            skips_single=skips_single_keys,
        )
        self._old_keys = OldKeyDecoder(self._keys, with_schemas=key_schemas) if needs_keys else None

    def decode_raw(self, raw: RawBuffer, sequence: int) -> list[ChangeBatch]:
        """Decodes raw records; groups are in no order. ``sequence`` numbers the first record. Raises DataError."""
        state = self.inferred_state()
        try:
            return self.decode_batch(raw, sequence)
        except (NotBatchable, *DECODE_ERRORS):
            # Reading value by value supports more forms, and its errors name the record and the field.
            self.restore_inferred(state)
            return self.decode_exactly(raw, sequence)

    def decode_batch(self, raw: RawBuffer, sequence: int) -> list[ChangeBatch]:
        """Decodes JsonConverter's usual bytes only. Raises NotBatchable or one of ``DECODE_ERRORS``, which name no record."""
        return [part for values in self._batches.decode(raw) for part in self._of_raw(raw, sequence, values, exactly=False)]

    def decode_payloads(self, raw: RawBuffer, groups: Sequence[Payloads], nulls: Sequence[int]) -> list[ChangeBatch]:
        """Like :meth:`decode_batch`, for values without their schemas (``JsonBatchDecoder.decode_payloads``); ``raw`` has the
        rest of the records."""
        found = self._batches.decode_payloads(raw, groups, nulls)
        return [part for values in found for part in self._of_raw(raw, 0, values, exactly=False)]

    def decode_exactly(self, raw: RawBuffer, sequence: int) -> list[ChangeBatch]:
        """Decodes raw records value by value. Raises DataError that names record and field."""
        with self._naming_topic():
            found = self._documents.decode(raw)
            return [part for values in found for part in self._of_raw(raw, sequence, values, exactly=True)]

    def decode_records(self, records: Sequence[SinkRecord], sequences: Sequence[int] | None = None) -> list[ChangeBatch]:
        """Like :meth:`decode_raw`, for records of any converter and after any transformations; ``sequences`` numbers them."""
        raw = RawBuffer(self.topic, [_partition(r) for r in records], [r.offset for r in records])
        with self._naming_topic():
            found = []
            for values in self._records.decode(records, raw):
                parts = self._keys.decode_records(_chosen(records, values), raw.places(values.positions), values.operations)
                for part, keys in _by_keys(raw, values, parts):
                    old_keys = self._old_keys and self._old_keys.decode_records(_chosen(records, part), part.operations)
                    places = pa.array(part.positions, pa.int64())
                    numbers = places if sequences is None else pa.array(sequences, pa.int64()).take(places)
                    found.append(self._change_batch(raw, numbers, part, keys, old_keys))
            return found

    def decode_columns(self, records: ColumnRecords) -> ChangeBatch:
        """Like :meth:`decode_records`, for records in columns; ``sequence`` is 0 for all. Raises one of ``DECODE_ERRORS``, which
        name no record."""
        values = self._columns.decode(records)
        keys = self._keys.decode_columns(records.key_schema, records.keys, values.operations)
        count = len(records.offsets)
        source = values.source or SourceColumns(pa.nulls(count, pa.int64()))
        meta = make_meta(
            pa.repeat(pa.scalar(0, pa.int64()), count),
            values.operations,
            source.ms,
            pa.repeat(pa.scalar(records.partition, pa.int32()), count),
            records.offsets,
            source.names,
            source.positions,
        )
        image = values.image if values.image.num_columns else empty_rows(count)
        return ChangeBatch(self.topic, meta, image, keys, values.defaults)

    def _of_raw(self, raw: RawBuffer, sequence: int, values: DecodedValues, *, exactly: bool) -> Iterator[ChangeBatch]:
        for part, keys in _by_keys(raw, values, self._raw_keys(raw, values, exactly=exactly)):
            old_keys = self._old_keys and self._old_keys.decode_raw(raw, part.positions, part.operations)
            numbers = pc.add(pa.array(part.positions, pa.int64()), sequence)
            yield self._change_batch(raw, numbers, part, keys, old_keys)

    def _raw_keys(self, raw: RawBuffer, values: DecodedValues, *, exactly: bool) -> list[RecordKeys]:
        chosen = raw if len(values.positions) == len(raw) else raw.select(values.positions)
        decode = self._keys.decode_exactly if exactly else self._keys.decode_batch
        return decode(chosen, values.operations)

    def _change_batch(
        self, raw: RawBuffer, sequences: pa.Array, values: DecodedValues, keys: KeyGroup, old_keys: pa.Array | None
    ) -> ChangeBatch:
        """Adds the places of the records to their values and keys."""
        partitions, offsets = pa.array(raw.partitions, pa.int32()), pa.array(raw.offsets, pa.int64())
        index = pa.array(values.positions, pa.int64())
        if len(index) != len(raw):
            partitions, offsets = partitions.take(index), offsets.take(index)
        source = values.source or SourceColumns(pa.nulls(len(index), pa.int64()))
        meta = make_meta(
            sequences,
            values.operations,
            source.ms,
            partitions,
            offsets,
            source.names,
            source.positions,
            values.fields,
        )
        if old_keys is not None:
            meta = meta.append_column(OLD_KEY, old_keys)
        image = values.image if values.image.num_columns else empty_rows(len(index))
        return ChangeBatch(self.topic, meta, image, keys.keys, values.defaults, values.has_schema, keys.has_schema)

    @contextlib.contextmanager
    def _naming_topic(self) -> Iterator[None]:
        try:
            yield
        except DataError:
            raise
        except RecursionError as e:
            raise DataError(f"topic {self.topic}: a value is nested too deeply") from e
        except DECODE_ERRORS as e:
            raise DataError(f"topic {self.topic}: {e}") from e

    def know_table(self, table: TableFields) -> None:
        """Reads values without a schema with the types of the table's columns. Keys get them for the fields that they have."""
        self.inferred_value_schema.know_table(table)
        self._inferred_key_schema.set_hints(table.columns)

    # -- inferred types -------------------------------------------------------------------------------------------------

    def inferred_state(self) -> object:
        """The types inferred so far from values without a schema, for :meth:`restore_inferred`."""
        return self.inferred_value_schema.state(), self._inferred_key_schema.state()

    def restore_inferred(self, inferred_state: Any) -> None:
        """Restores the inferred types, so that bad records do not affect them."""
        of_values, of_keys = inferred_state
        self.inferred_value_schema.restore(of_values)
        self._inferred_key_schema.restore(of_keys)

    def detect_envelopes(self, values: Sequence[bytes | None]) -> None:
        """Decides, as long as it has seen few, from these values whether values without a schema are change events: a few of them
        may be bad. Called once for each batch."""
        if self.inferred_value_schema.is_undecided and not self._value_schemas:
            self._count_envelopes(schema_inference.readable(value for value in values if value is not None))

    def detect_envelopes_in(self, records: Sequence[SinkRecord]) -> None:
        """The same for records of any converter."""
        if self.inferred_value_schema.is_undecided:
            self._count_envelopes(r.value for r in records if r.value is not None and r.value_schema is None)

    def _count_envelopes(self, values: Iterator[Any]) -> None:
        with contextlib.suppress(DataError):  # there is none that can be read
            self.inferred_value_schema.count_envelopes(values)


def _by_keys(raw: RawBuffer, values: DecodedValues, keys: Sequence[RecordKeys]) -> Iterator[tuple[DecodedValues, KeyGroup]]:
    """The values with their keys, divided so that the types of the keys agree. Raises DataError for a wrong single key."""
    _check_single_keys(raw, values, keys)
    for group in group_parts(keys, len(values.positions)):
        yield (values if len(group.rows) == len(values.positions) else values.take(group.rows)), group


def _check_single_keys(raw: RawBuffer, values: DecodedValues, keys: Sequence[RecordKeys]) -> None:
    """Raises DataError if a key is a single value, and the row has another one in the column that it is taken for."""
    for part in keys:
        for name in part.keys.column_names if part.is_single else ():
            if name not in values.image.column_names:
                continue
            key, row = part.keys[name], values.image[name].take(pa.array(part.rows, pa.int64()))
            try:
                differs = find_differences(key.cast(row.type), row)
            except pa.ArrowException:
                continue  # what cannot be compared is refused, or converted, where rows get their keys
            if pc.any(differs).as_py():
                at = pc.index(differs, True).as_py()
                where = raw.describe(values.positions[part.rows[at]])
                raise DataError(
                    f"{where}: the record key is the single value {key[at].as_py()}, which key.columns takes for that of the "
                    f"column {name}, and the row has {row[at].as_py()} there, so it is not known which row of the table it is; "
                    "make the key of the row's field, for example with the transformation ValueToKey, or give the key's field a "
                    "name"
                )


def _chosen(records: Sequence[SinkRecord], values: DecodedValues) -> list[SinkRecord]:
    return [records[at] for at in values.positions]


def _fixed_schema(converter: Converter) -> Schema | None:
    """The schema of every message, if the converter's configuration has one."""
    return converter.fixed_schema if isinstance(converter, JsonConverter) else None


def _partition(record: SinkRecord) -> int:
    return record.partition if record.original_partition is None else record.original_partition
