"""Runs records of a source through its transformations, the converters, and the sink's transformations, as the pipeline does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from connect.converters.api import Converter
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import ConfigError
from connect.plugins import Plugins
from connect.record import CREATE_TIME, ErrantSourceRecord, SinkRecord, SourceRecord
from connect.transforms.chain import apply_steps, apply_steps_batch, build_steps, close_steps
from connect.transforms.debezium.extract_new_record_state import ExtractNewRecordState
from connect.transforms.regex_router import RegexRouter
from worker.preview.conversion import PreviewConverters, has_converters
from worker.preview.errors import PreviewFailure, build_failure
from worker.tasks.converters import converter_settings

_KEY, _VALUE = "key.converter", "value.converter"
_SOURCE, _TRANSFORMATION = "source", "transformation"
_NULL_AS_DEFAULT = "replace.null.with.default"
_KEEPS_VALUES = (ExtractNewRecordState, RegexRouter)
"""Transformations that drop no row, and treat all values alike."""

Converted = SinkRecord | PreviewFailure | None
"""None: a transformation drops the record."""


class RecordPath:
    """The way of records from a source to a sink. Close after use.

    Converters are skipped where it is known what they do: JsonConverter with schemas on both sides keeps everything, except
    that it writes the default of a field in place of a null.
    """

    def __init__(
        self,
        source: Mapping[str, str],
        sink: Mapping[str, str],
        worker: Mapping[str, str] | None,
        plugins: Plugins,
    ) -> None:
        """Raises ConfigError if a transformation or converter has invalid settings."""
        self._source_steps = build_steps(source, plugins)
        self._sink_steps = build_steps(sink, plugins)
        self.knows_converters = has_converters(source, worker) and has_converters(sink, worker)
        self._write = PreviewConverters(source, worker, plugins) if self.knows_converters else None
        self._read = PreviewConverters(sink, worker, plugins) if self.knows_converters else None
        sides = ((source, worker or {}), (sink, worker or {}))
        self._writers = {role: _converter(role, *sides[0], plugins) for role in (_KEY, _VALUE)}
        self._readers = {role: _converter(role, *sides[1], plugins) for role in (_KEY, _VALUE)}
        self._skips_converters = not self.knows_converters or all(
            _keeps_schemas(role, *side) for role in (_KEY, _VALUE) for side in sides
        )
        self._fills_defaults = self.knows_converters and any(_writes_defaults(_VALUE, *side) for side in sides)
        self._fillers: dict[int, tuple[Schema, Callable[[Any], Any] | None]] = {}

    def run(self, records: Sequence[SourceRecord], *, offset: int = 0) -> list[Converted]:
        """Returns what the sink gets of each record, or why it fails. ``offset`` is that of the messages, and their time."""
        try:
            return self._run_batch(records, offset)
        except ConfigError:
            raise
        except Exception:  # any error of a transformation or converter: find the record
            return [self._run_one(record, offset) for record in records]

    def _run_batch(self, records: Sequence[SourceRecord], offset: int) -> list[Converted]:
        left: Sequence[Any] = apply_steps_batch(self._source_steps, records) if self._source_steps else records
        places = [place for place, record in enumerate(left) if record is not None]
        converted = self._convert([left[place] for place in places], offset)
        final: Sequence[Any] = apply_steps_batch(self._sink_steps, converted) if self._sink_steps else converted
        found: list[Converted] = [None] * len(records)
        for place, record in zip(places, final, strict=True):
            found[place] = record
        return found

    def _run_one(self, record: SourceRecord, offset: int) -> Converted:
        if isinstance(record, ErrantSourceRecord):
            return build_failure(record.error, _SOURCE)
        stage = _TRANSFORMATION
        try:
            left = apply_steps(self._source_steps, record)
            if left is None:
                return None
            stage = _VALUE
            (converted,) = self._convert([left], offset)
            stage = _TRANSFORMATION
            result = apply_steps(self._sink_steps, converted)
        except ConfigError:
            raise
        except Exception as e:
            return build_failure(e, stage)
        assert result is None or isinstance(result, SinkRecord)
        return result

    # --- converters

    def _convert(self, records: Sequence[Any], offset: int) -> list[SinkRecord]:
        if self._skips_converters:
            return [self._skip(record, offset) for record in records]
        found: list[SinkRecord] = []
        for (topic, _, _), group in groupby(records, lambda r: (r.topic, id(r.key_schema), id(r.value_schema))):
            run = list(group)
            first = run[0]
            keys = self._through(_KEY, topic, first.key_schema, [record.key for record in run])
            values = self._through(_VALUE, topic, first.value_schema, [record.value for record in run])
            for record, (key_schema, key), (value_schema, value) in zip(run, keys, values, strict=True):
                time_ms = record.timestamp if record.timestamp is not None else offset
                origin = offset, time_ms, CREATE_TIME, record.headers
                found.append(SinkRecord(topic, 0, key_schema, key, value_schema, value, *origin))
        return found

    def _through(self, role: str, topic: str, schema: Schema | None, values: list[Any]) -> Sequence[tuple[Schema | None, Any]]:
        writer, reader = self._writers[role], self._readers[role]
        assert writer is not None
        assert reader is not None
        return reader.decode_batch(topic, writer.encode_batch(topic, schema, values))

    def _skip(self, record: Any, offset: int) -> SinkRecord:
        value, schema = record.value, record.value_schema
        fill = None if schema is None else self._filler(schema)
        if fill is not None and value is not None:
            value = fill(value)
        time_ms = record.timestamp if record.timestamp is not None else offset
        origin = offset, time_ms, CREATE_TIME, record.headers
        return SinkRecord(record.topic, 0, record.key_schema, record.key, schema, value, *origin)

    def _filler(self, schema: Schema) -> Callable[[Any], Any] | None:
        """A function that replaces nulls by defaults; None if there is nothing to replace."""
        known = self._fillers.get(id(schema))
        if known is None or known[0] is not schema:
            if not self.knows_converters and _has_default(schema):
                raise ConfigError(
                    "Columns have defaults, which converters may write in place of nulls, and the converters are those of the "
                    "worker: pass its file, or one with its converters, with --worker-config"
                )
            fill = _fill_defaults(schema) if self._fills_defaults and _has_default(schema) else None
            known = self._fillers[id(schema)] = schema, fill
        return known[1]

    @property
    def keeps_values(self) -> bool:
        """Whether each value of a row reaches the sink as it is, whatever the others are. Structs around them may change."""
        steps = (*self._source_steps, *self._sink_steps)
        return self._skips_converters and all(
            step.predicate is None and type(step.transformation) in _KEEPS_VALUES for step in steps
        )

    @property
    def reads_messages(self) -> bool:
        """Whether the sink's converters are known."""
        return self._read is not None

    def read_value(self, topic: str, value: bytes | None) -> Any:
        """Returns the value of a message before the sink's transformations; None if it cannot be read."""
        reader = self._readers[_VALUE]
        try:
            return None if reader is None or value is None else reader.to_connect_data(topic, value).value
        except Exception:  # the sink reports it
            return None

    def read_messages(self, messages: Sequence[tuple[str, int, int, bytes | None, bytes | None]]) -> list[SinkRecord]:
        """Returns what the sink gets of messages (topic, partition, offset, key, value). Leaves out what fails or is dropped."""
        key_reader, value_reader = self._readers[_KEY], self._readers[_VALUE]
        assert key_reader is not None
        assert value_reader is not None
        found: list[SinkRecord] = []
        for topic, partition, offset, key, value in messages:
            try:
                read_key, read_value = key_reader.to_connect_data(topic, key), value_reader.to_connect_data(topic, value)
                record = SinkRecord(
                    topic, partition, read_key.schema, read_key.value, read_value.schema, read_value.value, offset, 0, CREATE_TIME
                )
                result = apply_steps(self._sink_steps, record)
            except Exception:  # the sink reports it, or fails, and so does not write it
                continue
            if isinstance(result, SinkRecord):
                found.append(result)
        return found

    def write_bytes(self, records: Sequence[SourceRecord]) -> list[tuple[str, bytes | None, bytes | None]]:
        """Returns topic, key, and value of the messages that the source writes. Raises ConfigError without converters."""
        if self._write is None:
            raise ConfigError("The converters are those of the worker: pass its file with --worker-config")
        found = []
        for record in records:
            left = apply_steps(self._source_steps, record)
            if left is None:
                continue
            message = self._write.write(left)
            if isinstance(message, PreviewFailure):
                raise ConfigError(f"a record of topic {record.topic} cannot be written: {message.message}")
            found.append((message.topic, message.key, message.value))
        return found

    def close(self) -> None:
        close_steps(self._source_steps)
        close_steps(self._sink_steps)
        for converters in (self._write, self._read):
            if converters is not None:
                converters.close()
        for converter in (*self._writers.values(), *self._readers.values()):
            if converter is not None:
                converter.close()


def _converter(role: str, config: Mapping[str, str], worker: Mapping[str, str], plugins: Plugins) -> Converter | None:
    found = converter_settings(role, config, worker)
    if found is None:
        return None
    converter = plugins.new_converter(found[0])
    converter.configure(found[1], role == _KEY)
    return converter


def _keeps_schemas(role: str, config: Mapping[str, str], worker: Mapping[str, str]) -> bool:
    found = converter_settings(role, config, worker)
    if found is None:
        return True
    name, settings = found
    return name.rpartition(".")[2] == "JsonConverter" and settings.get("schemas.enable", "true").lower() == "true"


def _writes_defaults(role: str, config: Mapping[str, str], worker: Mapping[str, str]) -> bool:
    found = converter_settings(role, config, worker)
    return found is not None and found[1].get(_NULL_AS_DEFAULT, "true").lower() == "true"


def _has_default(schema: Schema) -> bool:
    """Whether a field of the row has a default. Those of the source block are never null."""
    if schema.type is not Type.STRUCT:
        return schema.default is not None
    return any(
        field.name != "source" and (field.schema.default is not None or _has_default(field.schema))
        for field in schema.fields or ()
    )


def _fill_defaults(schema: Schema) -> Callable[[Any], Any]:
    """Returns a function that replaces nulls in a struct, also in structs in it."""
    fields = schema.fields or ()
    defaults = {field.index: field.schema.default for field in fields if field.schema.default is not None}
    inner = {
        field.index: _fill_defaults(field.schema)
        for field in fields
        if field.name != "source" and field.schema.type is Type.STRUCT and _has_default(field.schema)
    }

    def fill(value: Any) -> Any:
        if not isinstance(value, Struct):
            return value
        values = list(value.values)
        for index, default in defaults.items():
            if values[index] is None:
                values[index] = default
        for index, fill_inner in inner.items():
            if values[index] is not None:
                values[index] = fill_inner(values[index])
        return Struct(value.schema, values)

    return fill
