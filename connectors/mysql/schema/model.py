"""Tables as the schema history stores them, in Debezium's terms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

PRIMARY: Final = "PRIMARY"
"""The name of the primary key among the indexes."""


class TableId(NamedTuple):
    """The names of a table. Also the keys of the mappings from names to tables."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    ``type_name`` is the SQL type in capitals, with its attributes (``BIGINT UNSIGNED``), and ``type_expression`` the same without
    length and scale as the history stores it. ``length`` and ``scale`` are None if the declaration has none. ``default`` is the
    value of the default as text, None for NULL and for expressions; it counts only with ``has_default``. Like Debezium, a
    nullable column without DEFAULT has the default NULL, and that of CURRENT_TIMESTAMP is ``1970-01-01 00:00:00``. The default of
    a BIT is binary digits.
    """

    name: str
    position: int
    """From 1."""
    type_name: str
    type_expression: str
    jdbc_type: int
    length: int | None = None
    scale: int | None = None
    charset: str | None = None
    optional: bool = True
    is_auto_incremented: bool = False
    """Debezium also sets it, and ``is_generated``, for columns with ON UPDATE CURRENT_TIMESTAMP."""
    is_generated: bool = False
    """Whether the server assigns values by AUTO_INCREMENT or ON UPDATE. False for generated columns (``AS (expression)``)."""
    has_default: bool = False
    default: str | None = None
    enum_values: tuple[str, ...] = ()
    """The texts of an ENUM or SET, unquoted."""
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Index:
    """An index. ``columns`` is empty if a part of it is an expression, so that it cannot be a key of events."""

    name: str
    is_unique: bool
    columns: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    """The columns of which only the beginning is in the index."""


@dataclass(frozen=True, slots=True)
class MySqlTable:
    """A version of a table.

    ``key`` are the names of the primary key's columns, else those of the first unique index whose columns are all NOT NULL.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    charset: str | None = None
    """The default character set of the table."""
    comment: str | None = field(default=None, compare=False)
    indexes: tuple[Index, ...] = field(default=(), compare=False)
    """The indexes by which ``key`` is found again after ALTER TABLE; the primary key is named PRIMARY. Empty if unknown:
    Debezium's history has the key only."""
    has_system_versioning: bool = field(default=False, compare=False)
    """Whether MariaDB adds the invisible columns row_start and row_end, which are in the binary log but not in ``columns``."""

    @property
    def id(self) -> TableId:
        return TableId(self.database, self.name)

    def column(self, name: str) -> Column | None:
        """Returns a column by name, in any case."""
        folded = name.lower()
        return next((column for column in self.columns if column.name.lower() == folded), None)

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"
