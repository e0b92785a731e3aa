"""A batch on its way through a chain, as columns: what transformations hand to each other instead of records.

Key and value are taken apart only as far as a transformation asks for, stay apart between transformations, and become structs
and records again once, at the end. The records that came in are never changed.
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
"""The values of one field, one per record. Nobody changes a column: it may stand in several batches."""

_new = object.__new__


class Unfit(Exception):
    """The batch holds something that is not done in columns. No finding: going record by record decides."""


class Constant(list[Any]):
    """A column that repeats one object."""

    __slots__ = ()


def constant(value: Any, size: int) -> Constant:
    """A column of that many times the value."""
    return Constant([value] * size)


def has_null(column: Column) -> bool:
    """Whether a value of the column is None."""
    # Truth is cheaper to ask for than equality, and most columns have nothing that is false.
    return not all(column) and None in column


def map_column(convert: Callable[[Any], Any], column: Column) -> Column:
    """The column of what becomes of each value; one that repeats an object is converted once."""
    if column.__class__ is Constant:
        return constant(convert(column[0]), len(column))
    return [convert(value) for value in column]


class SideColumns:
    """Key or value of every record of a batch, all under ``schema``.

    It is held in one of three forms, and shown in another when asked: data (what a record has), rows (the list of values of each
    struct) and columns. ``all_null`` says that every datum is None; otherwise none is, except that data which a transformation
    made may have some (``may_have_nulls``).
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
    def of_columns(cls, schema: Schema, columns: list[Column], size: int) -> SideColumns:
        """A new side of structs."""
        side = cls(schema, ())
        side.size, side.changed = size, True
        side.hold_columns(columns)
        return side

    def data(self) -> Column:
        """The data; structs that have no object yet are made now."""
        if self._data is None:
            schema = self.schema
            data = []
            # new_struct written out: a call less for each.
            for values in self.rows():
                struct: Any = _new(Struct)
                struct.schema = schema
                struct.values = values
                data.append(struct)
            self._data = data
        return self._data

    def sequence(self) -> Column:
        """The data, for who may do with columns: structs that have no object yet have none still."""
        if self._data is None and self._columns is not None and self.schema is not None:
            return StructColumns(self.schema, self._columns, self.size)
        return self.data()

    def example(self) -> Any:
        """A datum, for looks at its class; an empty struct where there are only columns."""
        if self._data is not None or self.schema is None:
            return self.data()[0]
        return new_struct(self.schema, [])

    def rows(self) -> list[list[Any]]:
        """The values of each struct; not to be changed. Raises Unfit for what is no struct of this very schema."""
        if self._rows is None:
            if self._columns is not None:
                columns = self._columns
                self._rows = list(map(list, zip(*columns, strict=True))) if columns else [[] for _ in range(self.size)]
            else:
                schema = self.schema
                rows = [d.values for d in self._data or () if d.__class__ is Struct and d.schema is schema]
                if len(rows) != self.size:
                    raise Unfit
                self._rows = rows
        return self._rows

    def columns(self) -> list[Column]:
        """A column per field, in a list that is the caller's. Raises Unfit as :meth:`rows`."""
        if self._columns is None:
            columns: list[Column] = list(zip(*self.rows(), strict=True))
            if self.schema is None or len(columns) != len(self.schema.fields or ()):
                raise Unfit
            self._columns = columns
        return self._columns[:]

    def column(self, index: int) -> Column:
        """One column. Raises Unfit as :meth:`rows`."""
        return self._columns[index] if self._columns is not None else [row[index] for row in self.rows()]

    def hold_data(self, data: Column) -> None:
        """Data take the place of what was there; None may be among them."""
        self._data, self._rows, self._columns = data, None, None
        self.all_null, self.may_have_nulls = False, True

    def hold_rows(self, rows: list[list[Any]]) -> None:
        """Rows that nobody else has take the place of what was there."""
        self._data, self._rows, self._columns = None, rows, None
        self.may_have_nulls = False

    def hold_columns(self, columns: list[Column]) -> None:
        """Columns take the place of what was there."""
        self._data, self._rows, self._columns = None, None, columns
        self.may_have_nulls = False

    def is_settled(self) -> bool:
        """Finds out about nulls among the data: False when some are null and some are not."""
        if self.may_have_nulls:
            data = self.data()
            if has_null(data):
                if any(datum is not None for datum in data):
                    return False
                self.all_null = True
            self.may_have_nulls = False
        return True


class RecordColumns:
    """Records whose keys share a schema, and whose values do. A side that no transformation reads is None."""

    __slots__ = ("_headers", "_topics", "key", "records", "value")

    def __init__(self, records: Sequence[ConnectRecord], key: SideColumns | None, value: SideColumns | None) -> None:
        self.records = records
        """As they came in. Topics, headers, keys and values may have changed since."""
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
        """The headers of each record; not to be changed."""
        return [r.headers for r in self.records] if self._headers is None else self._headers

    @headers.setter
    def headers(self, headers: Sequence[Headers | None]) -> None:
        """Takes headers that no record has yet."""
        self._headers = headers

    def shared_topic(self) -> str | None:
        """The topic of all records, or None when there are several."""
        topics = self.topics
        return topics[0] if topics.count(topics[0]) == len(topics) else None

    def keys(self) -> tuple[Schema | None, Column] | None:
        """The keys' schema and the keys, or None when they do not share one."""
        if self.key is not None:
            return self.key.schema, self.key.sequence()
        schema = self.records[0].key_schema
        keys = [r.key for r in self.records if r.key_schema is schema]
        return (schema, keys) if len(keys) == len(self.records) else None

    def values(self) -> tuple[Schema | None, Column] | None:
        """The values' schema and the values, or None when they do not share one."""
        if self.value is not None:
            return self.value.schema, self.value.sequence()
        schema = self.records[0].value_schema
        values = [r.value for r in self.records if r.value_schema is schema]
        return (schema, values) if len(values) == len(self.records) else None

    def to_records(self) -> list[ConnectRecord]:
        """Records with what was changed: new ones, or those that came in if nothing was."""
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
    """What a batch became. The records are made when one is looked at first: who can do with columns need not have them made."""

    __slots__ = ("_records", "batch")

    def __init__(self, batch: RecordColumns) -> None:
        self.batch = batch
        self._records: list[ConnectRecord] | None = None

    def _made(self) -> list[ConnectRecord]:
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
        return self._made()[index]

    def __iter__(self) -> Iterator[ConnectRecord]:
        return iter(self._made())

    def __contains__(self, record: object) -> bool:
        return record is not None and record in self._made()


def column_settler(fields: Sequence[Field], replace_null: bool) -> Callable[[list[Column]], list[Column]]:
    """Puts defaults in place of nulls, in the list of columns itself, and raises Unfit for a null that a field may not have."""
    matter = [
        (i, f.schema.default if replace_null else None)
        for i, f in enumerate(fields)
        if not f.schema.optional or (replace_null and f.schema.default is not None)
    ]

    def settle(columns: list[Column]) -> list[Column]:
        for index, default in matter:
            column = columns[index]
            if has_null(column):
                if default is None:
                    raise Unfit
                columns[index] = [default if v is None else v for v in column]
        return columns

    return settle
