"""Source records that are still the texts of a source: they become bytes, or records when somebody looks at them.

A source that reads rows as texts describes once, in a :class:`StructTemplate`, which text goes into which field. A converter that
knows templates writes bytes from the texts, without values, structs, and records in between; see
:meth:`connect.converters.api.Converter.template_writer`. Everybody else gets the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, overload

from connect.data.schema import Schema
from connect.record import SourceRecord


class TextKind(Enum):
    """What the text of a cell is."""

    INTEGER = "integer"
    """An integer as in JSON."""
    FLOAT = "float"
    """A number as in JSON, ``NaN``, ``Infinity``, or ``-Infinity``."""
    BOOLEAN = "boolean"
    """``t`` or ``f``."""
    STRING = "string"
    """The value itself."""
    DECIMAL = "decimal"
    """Digits with a sign and a point, or something that only ``decode`` knows."""
    UTC_TIMESTAMP = "UTC timestamp"
    """``YYYY-MM-DD HH:MM:SS[.fraction]+00`` for a field that is ISO-8601 text in UTC, or something that only ``decode`` knows."""
    OTHER = "other"
    """Only ``decode`` knows."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The field's value is ``decode(row[column])``, or None where that is None."""

    column: int
    kind: TextKind
    decode: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """The field's value is the same for all rows of a batch: ``slots[number]``."""

    number: int


@dataclass(frozen=True, eq=False, slots=True)
class StructTemplate:
    """A struct whose fields come from the texts of a row, one part per field. Build one per schema and reuse it: converters know
    templates by identity."""

    schema: Schema
    parts: tuple[Part, ...]


Part = Cell | Slot | StructTemplate


@dataclass(frozen=True, slots=True)
class TextRows:
    """Rows as texts; None is null."""

    rows: Sequence[Sequence[str | None]]
    has_nulls: bool
    """Whether any text may be None."""
    is_plain: bool
    """Whether no text has quotes, backslashes, control characters, or characters beyond U+FFFF."""
    slots: Sequence[Any]
    """The values of the template's slots."""


TemplateWriter = Callable[[TextRows], list[bytes]]
"""Writes one struct per row. May raise any error for a row that it does not handle: the records then decide."""


class TextRecords(Sequence[SourceRecord]):
    """Records of one topic that share source partition and offset. They are created when somebody looks at one."""

    __slots__ = ("_create", "_records", "_size", "key", "read", "source_offset", "source_partition", "topic", "value")

    def __init__(
        self,
        topic: str,
        key: StructTemplate | None,
        value: StructTemplate,
        size: int,
        read: Callable[[int, int], TextRows],
        source_partition: Mapping[str, Any],
        source_offset: Mapping[str, Any],
        create: Callable[[], list[SourceRecord]],
    ) -> None:
        """``read`` returns the rows of a range, and ``create`` all records."""
        self.topic = topic
        self.key = key
        self.value = value
        self.read = read
        self.source_partition = source_partition
        self.source_offset = source_offset
        self._size = size
        self._create = create
        self._records: list[SourceRecord] | None = None

    def _all(self) -> list[SourceRecord]:
        if self._records is None:
            self._records = self._create()
        return self._records

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> SourceRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[SourceRecord]: ...
    def __getitem__(self, index: int | slice) -> SourceRecord | list[SourceRecord]:
        return self._all()[index]

    def __iter__(self) -> Iterator[SourceRecord]:
        return iter(self._all())

    def __contains__(self, record: object) -> bool:
        return record is not None and record in self._all()
