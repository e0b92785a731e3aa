"""The converters of a task, and their classes and settings in a config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from connect.converters.api import Converter, HeaderConverter
from connect.strict import strict_settings
from connect.text_records import RecordTemplate, TemplateWriter, TextRecords


class Prefixes(NamedTuple):
    """The texts before keys and values of a run (``worker.kafka.record_producer.ProducerRun``)."""

    key: bytes | None = None
    value: bytes | None = None


class PreparedTemplate(NamedTuple):
    """The writers of a template, and the headers of its records as bytes."""

    write_key: TemplateWriter | None
    write_value: TemplateWriter
    prefixes: Prefixes
    headers: list[tuple[str, bytes | None]] | None


class RecordColumns(Protocol):
    """Makes Arrow arrays of records that are still texts (``worker.kafka.record_producer.ProducerRun.columns``). May raise any
    error for values that have no such form. ``writes_defaults``: see :class:`connect.text_records.PayloadWriter`."""

    def of_records(self, records: TextRecords, *, writes_defaults: bool) -> Any: ...
    def of_rows(self, template: RecordTemplate, rows: Sequence[Sequence[Any]], *, writes_defaults: bool) -> Any: ...


@dataclass(frozen=True, slots=True)
class Converters:
    """The converters of one task."""

    key: Converter
    value: Converter
    header: HeaderConverter
    splits_schemas: bool = False
    """Whether records that are still texts become payloads without their schemas, if the converters can write these."""
    columns: RecordColumns | None = None
    """If set, values that are still texts become columns where possible."""
    prepared: dict[RecordTemplate, PreparedTemplate] = field(default_factory=dict, compare=False, repr=False)
    """What :mod:`worker.source.text_encoding` prepares once per template."""

    @property
    def want_headers(self) -> bool:
        """Whether the key or value converter needs the record's headers."""
        return self.key.wants_headers or self.value.wants_headers

    def close(self) -> None:
        for converter in (self.key, self.value, self.header):
            converter.close()


def converter_settings(
    role: str, config: Mapping[str, str | None], worker: Mapping[str, str]
) -> tuple[str, dict[str, str]] | None:
    """Returns class and settings for ``key.converter``, ``value.converter``, or ``header.converter``; None if there is none.

    A connector's converter has only the connector's settings, the worker's only those of the worker, as in Kafka Connect.
    """
    for source in (config, worker):
        if name := source.get(role):
            prefix = f"{role}."
            below = {key.removeprefix(prefix): value for key, value in source.items() if key.startswith(prefix)}
            return name, {**{key: value for key, value in below.items() if value is not None}, **strict_settings(config)}
    return None
