"""A batch as columns, which transformations of a chain pass on instead of records.

Keys and values are split into rows or columns only if a transformation needs it, stay split between transformations, and become
structs and records once, at the end. The original records are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from connect.data.headers import Headers
from connect.data.schema import Field, Schema
from connect.data.struct import Struct
from connect.data.struct_columns import StructColumns
from connect.record import ConnectRecord
from connect.transforms.record_copies import copy_records
from connect.transforms.structs import new_struct

Column = Sequence[Any]
"""The values of one field, one per record. Columns are never changed: several batches may share one."""

_new = object.__new__


class NotColumnar(Exception):
    """The batch cannot be changed in columns. This is not an error of the data: it is then changed record by record."""


class Constant(list[Any]):
    """A column whose values are all the same object."""

    __slots__ = ()


def constant(value: Any, size: int) -> Constant:
    """Creates a column that repeats the value."""
    return Constant([value] * size)


def has_null(column: Column) -> bool:
    """Whether a value of the column is None."""
    # Testing truth is cheaper than equality, and most columns have no falsy values.
    return not all(column) and None in column


def map_column(convert: Callable[[Any], Any], column: Column) -> Column:
    """Converts each value of a column; a constant column is converted once."""
    if column.__class__ is Constant:
        return constant(convert(column[0]), len(column))
    return [convert(value) for value in column]


class PartColumns:
    """The keys or the values of a batch, all with ``schema``.

    They are stored in one of three forms and converted on demand: data (what a record has), rows (the list of values of each
    struct), or columns. If ``all_null``, every datum is None; otherwise none is, unless a transformation set data that may
    contain None (``may_have_nulls``).
    """

    __slots__ = ("_columns", "_data", "_rows", "all_null", "changed", "may_have_nulls", "schema", "size")

    def __init__(self, schema: Schema | None, data: Column, *, all_null: bool = False) -> None:
        self.schema = schema
        self.size = len(data)
        self.all_null = all_null
        self.may_have_nulls = False
        self.changed = False
        self._data: Column | None = data
        self._rows: list[list[Any]] | None = None
        self._columns: list[Column] | None = None

    @classmethod
    def of_columns(cls, schema: Schema, columns: list[Column], size: int) -> PartColumns:
        """Creates the keys or values from columns of structs."""
        part = cls(schema, ())
        part.size, part.changed = size, True
        part.set_columns(columns)
        return part

    def data(self) -> Column:
        """The data; creates the structs if only rows or columns are stored."""
        if self._data is None:
            schema = self.schema
            data = []
            # new_struct inlined: one call less per struct.
            for values in self.rows():
                struct: Any = _new(Struct)
                struct.schema = schema
                struct.values = values
                data.append(struct)
            self._data = data
        return self._data

    def sequence(self) -> Column:
        """The data, as :class:`StructColumns` if only columns are stored: creates no structs."""
        if self._data is None and self._columns is not None and self.schema is not None:
            return StructColumns(self.schema, self._columns, self.size)
        return self.data()

    def example(self) -> Any:
        """A datum to check its class; an empty struct if only rows or columns are stored."""
        if self._data is not None or self.schema is None:
            return self.data()[0]
        return new_struct(self.schema, [])

    def rows(self) -> list[list[Any]]:
        """The values of each struct; do not change them. Raises NotColumnar unless all data are structs of this schema object."""
        if self._rows is None:
            if self._columns is not None:
                columns = self._columns
                self._rows = list(map(list, zip(*columns, strict=True))) if columns else [[] for _ in range(self.size)]
            else:
                schema = self.schema
                rows = [d.values for d in self._data or () if d.__class__ is Struct and d.schema is schema]
                if len(rows) != self.size:
                    raise NotColumnar
                self._rows = rows
        return self._rows

    def columns(self) -> list[Column]:
        """A column per field, in a new list. Raises NotColumnar as :meth:`rows` does."""
        if self._columns is None:
            columns: list[Column] = list(zip(*self.rows(), strict=True))
            if self.schema is None or len(columns) != len(self.schema.fields or ()):
                raise NotColumnar
            self._columns = columns
        return self._columns[:]

    def column(self, index: int) -> Column:
        """One column. Raises NotColumnar as :meth:`rows` does."""
        return self._columns[index] if self._columns is not None else [row[index] for row in self.rows()]

    def set_data(self, data: Column) -> None:
        """Replaces the content by data, which may contain None."""
        self._data, self._rows, self._columns = data, None, None
        self.all_null, self.may_have_nulls = False, True

    def set_rows(self, rows: list[list[Any]]) -> None:
        """Replaces the content by rows, and takes them over."""
        self._data, self._rows, self._columns = None, rows, None
        self.may_have_nulls = False

    def set_columns(self, columns: list[Column]) -> None:
        """Replaces the content by columns."""
        self._data, self._rows, self._columns = None, None, columns
        self.may_have_nulls = False

    def has_uniform_nulls(self) -> bool:
        """Whether all data are null or none is."""
        if self.may_have_nulls:
            data = self.data()
            if has_null(data):
                if any(datum is not None for datum in data):
                    return False
                self.all_null = True
            self.may_have_nulls = False
        return True


class RecordColumns:
    """Records whose keys share a schema and whose values share one. A key or value that no transformation reads is None."""

    __slots__ = ("_headers", "_topics", "key", "records", "value")

    def __init__(self, records: Sequence[ConnectRecord], key: PartColumns | None, value: PartColumns | None) -> None:
        self.records = records
        """The original records. Topics, headers, keys and values may have changed since."""
        self.key = key
        self.value = value
        self._topics: Column | None = None
        self._headers: Sequence[Headers | None] | None = None

    @property
    def topics(self) -> Column:
        """The topic of each record."""
        return [r.topic for r in self.records] if self._topics is None else self._topics

    @topics.setter
    def topics(self, topics: Column) -> None:
        self._topics = topics

    @property
    def headers(self) -> Sequence[Headers | None]:
        """The headers of each record; do not change them."""
        return [r.headers for r in self.records] if self._headers is None else self._headers

    @headers.setter
    def headers(self, headers: Sequence[Headers | None]) -> None:
        """Sets headers, and takes them over."""
        self._headers = headers

    def shared_topic(self) -> str | None:
        """The topic of all records, or None if there are several."""
        topics = self.topics
        return topics[0] if topics.count(topics[0]) == len(topics) else None

    def keys(self) -> tuple[Schema | None, Column] | None:
        """The schema of the keys and the keys, or None if they do not share a schema."""
        if self.key is not None:
            return self.key.schema, self.key.sequence()
        schema = self.records[0].key_schema
        keys = [r.key for r in self.records if r.key_schema is schema]
        return (schema, keys) if len(keys) == len(self.records) else None

    def values(self) -> tuple[Schema | None, Column] | None:
        """The schema of the values and the values, or None if they do not share a schema."""
        if self.value is not None:
            return self.value.schema, self.value.sequence()
        schema = self.records[0].value_schema
        values = [r.value for r in self.records if r.value_schema is schema]
        return (schema, values) if len(values) == len(self.records) else None

    def to_records(self) -> list[ConnectRecord]:
        """Creates the changed records; returns the original ones if nothing changed."""
        key = self.key if self.key is not None and self.key.changed else None
        value = self.value if self.value is not None and self.value.changed else None
        if key is None and value is None and self._topics is None and self._headers is None:
            return list(self.records)
        copies = copy_records(self.records)
        if value is not None:
            schema = value.schema
            for record, datum in zip(copies, value.data(), strict=True):
                record.value_schema = schema
                record.value = datum
        if key is not None:
            schema = key.schema
            for record, datum in zip(copies, key.data(), strict=True):
                record.key_schema = schema
                record.key = datum
        if self._topics is not None:
            for record, topic in zip(copies, self._topics, strict=True):
                record.topic = topic
        if self._headers is not None:
            for record, headers in zip(copies, self._headers, strict=True):
                record.headers = headers
        return copies


class ChangedRecords(Sequence[ConnectRecord]):
    """The result of a batch. Records are created on first access; callers that work on columns never need them."""

    __slots__ = ("_records", "batch")

    def __init__(self, batch: RecordColumns) -> None:
        self.batch = batch
        self._records: list[ConnectRecord] | None = None

    def _create(self) -> list[ConnectRecord]:
        if self._records is None:
            self._records = self.batch.to_records()
        return self._records

    def __len__(self) -> int:
        return len(self.batch.records)

    @overload
    def __getitem__(self, index: int) -> ConnectRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[ConnectRecord]: ...
    def __getitem__(self, index: int | slice) -> ConnectRecord | list[ConnectRecord]:
        return self._create()[index]

    def __iter__(self) -> Iterator[ConnectRecord]:
        return iter(self._create())

    def __contains__(self, record: object) -> bool:
        return record is not None and record in self._create()


def column_filler(fields: Sequence[Field], replace_null: bool) -> Callable[[list[Column]], list[Column]]:
    """Builds a function that fills nulls in columns with defaults. It raises NotColumnar for a null in a required field."""
    relevant = [
        (i, f.schema.default if replace_null else None)
        for i, f in enumerate(fields)
        if not f.schema.optional or (replace_null and f.schema.default is not None)
    ]

    def fill_columns(columns: list[Column]) -> list[Column]:
        for index, default in relevant:
            column = columns[index]
            if has_null(column):
                if default is None:
                    raise NotColumnar
                columns[index] = [default if v is None else v for v in column]
        return columns

    return fill_columns
