"""Source records that are still the texts of a source: they become bytes, or records when somebody looks at them.

A source that reads rows as texts describes once, in a :class:`StructTemplate`, which text goes into which field. A converter that
knows templates writes bytes from the texts, without values, structs, and records in between; see
:meth:`connect.converters.api.Converter.template_writer`. Everybody else gets the records.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, overload

from connect.data.headers import Header
from connect.data.schema import Schema
from connect.record import SourceRecord


class TextKind(Enum):
    """What the text of a cell is."""

    INTEGER = "integer"
    """An integer as in JSON."""
    FLOAT = "float"
    """A number as in JSON, ``NaN``, ``Infinity``, or ``-Infinity``."""
    SHORTEST_FLOAT = "shortest float"
    """The same, with no more digits than the number needs."""
    BOOLEAN = "boolean"
    """``t`` or ``f``."""
    STRING = "string"
    """The value itself."""
    DECIMAL = "decimal"
    """Digits with a sign and a point, or something that only ``decode`` knows."""
    UNSCALED = "unscaled"
    """Base64 of the unscaled value of a decimal: its bytes, as few as it needs."""
    UNSCALED_INTEGER = "unscaled integer"
    """No text, but the unscaled value of a decimal, an integer."""
    UTC_TIMESTAMP = "UTC timestamp"
    """``YYYY-MM-DD HH:MM:SS.ffffff+00`` for a field that is ISO-8601 text in UTC, or something that only ``decode`` knows."""
    DATE = "date"
    """``YYYY-MM-DD`` for a field with the days since 1970, or something that only ``decode`` knows."""
    WALL_CLOCK = "wall clock"
    """``YYYY-MM-DD HH:MM:SS.ffffff`` for a field with the microseconds since 1970, or something that only ``decode`` knows."""
    OTHER = "other"
    """Only ``decode`` knows."""
    VALUE = "value"
    """No text, but the value itself; ``decode`` is not called."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The field's value is ``decode(row[column])``, or None where that is None."""

    column: int
    kind: TextKind
    decode: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """The field's value is one that rows share: ``slots[number]``."""

    number: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """The field's value is the same for all rows of the template."""

    value: Any


@dataclass(frozen=True, slots=True)
class Joined:
    """The field's value is the text ``slots[number]``, then ``row[column]``, the text of an integer, then ``suffix``."""

    number: int
    column: int
    suffix: str


@dataclass(frozen=True, eq=False, slots=True)
class StructTemplate:
    """A struct whose fields come from the texts of a row, one part per field. Build one per schema and reuse it: converters know
    templates by identity."""

    schema: Schema
    parts: tuple[Part, ...]


Part = Cell | Slot | Fixed | Joined | StructTemplate


@dataclass(frozen=True, slots=True)
class TextRows:
    """Rows as texts; None is null."""

    rows: Sequence[Sequence[Any]]
    has_nulls: bool
    """Whether any text may be None."""
    is_plain: bool
    """Whether no text has quotes, backslashes, control characters, or characters beyond U+FFFF."""
    slots: Sequence[Any] | None
    """The values of the template's slots. If None, they are the last item of each row; consecutive rows can share them."""


TemplateWriter = Callable[[TextRows], list[bytes]]
"""Writes one struct per row. May raise any error for a row that it does not handle: the records then decide."""


Frame = tuple[bytes, bytes]
"""The texts before and after the only field in which payloads differ."""


class FramedWriter(NamedTuple):
    """Writes payloads of which one field comes from the row, and all others from slots that rows share."""

    frame: Callable[[Sequence[Any]], Frame]
    """Writes the other fields, from slots."""
    write: TemplateWriter
    """Writes the field."""


class PayloadWriter(NamedTuple):
    """Writes what messages with schemas contain between ``prefix``, the same text for all of a template, and ``}``."""

    prefix: bytes
    write: TemplateWriter
    framed: FramedWriter | None
    """None if several fields come from the row."""
    writes_defaults: bool
    """Whether a null in a field with a default is written as the default."""


class LazyRecords(Sequence[SourceRecord]):
    """Records of one source partition that are created when somebody looks at one. ``source_offset`` is that of the last."""

    __slots__ = ("_records", "source_partition")

    source_partition: Mapping[str, Any]

    def __init__(self, source_partition: Mapping[str, Any]) -> None:
        self.source_partition = source_partition
        self._records: list[SourceRecord] | None = None

    @property
    @abstractmethod
    def source_offset(self) -> Mapping[str, Any]: ...

    @abstractmethod
    def _create_all(self) -> list[SourceRecord]:
        """Creates all records."""

    def _all(self) -> list[SourceRecord]:
        if self._records is None or len(self._records) != len(self):
            self._records = self._create_all()
        return self._records

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


class TextLines(NamedTuple):
    """Rows as lines of texts between tabs, where ``\\N`` is null. There is no other backslash."""

    lines: Sequence[str]
    slots: Sequence[Any]
    """The values of the template's slots."""


class TextRecords(LazyRecords):
    """Records of one topic. Those before the last one can have an earlier source offset: only ``create`` knows."""

    __slots__ = ("_create", "_size", "_source_offset", "key", "lines", "read", "topic", "value")

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
        lines: TextLines | None = None,
    ) -> None:
        """``read`` returns the rows of a range, and ``create`` all records. ``lines`` are the same rows, if they are such."""
        super().__init__(source_partition)
        self.topic = topic
        self.key = key
        self.value = value
        self.read = read
        self.lines = lines
        self._source_offset = source_offset
        self._size = size
        self._create = create

    @property
    def source_offset(self) -> Mapping[str, Any]:
        return self._source_offset

    def _create_all(self) -> list[SourceRecord]:
        return self._create()

    def __len__(self) -> int:
        return self._size


class RowReader(Protocol):
    """What a source does with the rows of one template."""

    def text_rows(self, rows: Sequence[Sequence[Any]]) -> TextRows:
        """Describes rows for a writer."""

    def create(self, row: Sequence[Any]) -> list[SourceRecord]:
        """Creates the records of a row."""

    def last_offset(self, row: Sequence[Any]) -> Mapping[str, Any]:
        """Returns the source offset of the last record of a row."""


@dataclass(frozen=True, eq=False, slots=True)
class RecordTemplate:
    """Records of one topic and one pair of schemas, which come from texts. Build one per kind of record and reuse it."""

    topic: str
    key: StructTemplate | None
    value: StructTemplate
    headers: tuple[Header, ...]
    """The headers of each record."""
    records_per_row: int
    """1, or 2 if a tombstone with the same key and headers follows each record."""
    reader: RowReader = field(repr=False)


class RowRun(NamedTuple):
    """Consecutive records of one template."""

    template: RecordTemplate
    rows: list[Sequence[Any]]


class MixedTextRecords(LazyRecords):
    """Records of several templates, and some that exist already, in order. Empty at first; a source adds to it."""

    __slots__ = ("_offset", "_rows", "_size", "_template", "parts")

    def __init__(self, source_partition: Mapping[str, Any]) -> None:
        super().__init__(source_partition)
        self.parts: list[RowRun | list[SourceRecord]] = []
        self._size = 0
        self._template: RecordTemplate | None = None
        self._rows: list[Sequence[Any]] = []
        self._offset: tuple[int, Mapping[str, Any]] | None = None

    def add_row(self, template: RecordTemplate, row: Sequence[Any]) -> None:
        """Adds the records of a row."""
        if template is not self._template:
            self._template = template
            self._rows = []
            self.parts.append(RowRun(template, self._rows))
        self._rows.append(row)
        self._size += template.records_per_row

    def add_rows(self, template: RecordTemplate, rows: list[Sequence[Any]]) -> None:
        """Adds the records of several rows, and takes the list over."""
        if template is self._template:
            self._rows += rows
        elif rows:
            self._template = template
            self._rows = rows
            self.parts.append(RowRun(template, rows))
        self._size += template.records_per_row * len(rows)

    def append(self, record: SourceRecord) -> None:
        """Adds a record."""
        self._template = None
        if self.parts and isinstance(last := self.parts[-1], list):
            last.append(record)
        else:
            self.parts.append([record])
        self._size += 1

    def count_kinds(self) -> int:
        """The number of templates; records without one count as another."""
        return len({None if isinstance(part, list) else part.template for part in self.parts})

    @property
    def source_offset(self) -> Mapping[str, Any]:
        """There is none without records."""
        if self._offset is None or self._offset[0] != self._size:
            last = self.parts[-1]
            offset = last[-1].source_offset if isinstance(last, list) else last.template.reader.last_offset(last.rows[-1])
            assert offset is not None
            self._offset = self._size, offset
        return self._offset[1]

    def _create_all(self) -> list[SourceRecord]:
        out: list[SourceRecord] = []
        for part in self.parts:
            if isinstance(part, list):
                out += part
            else:
                create = part.template.reader.create
                for row in part.rows:
                    out += create(row)
        return out

    def __len__(self) -> int:
        return self._size
