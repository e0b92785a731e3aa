"""Tables as the schema history stores them, in Debezium's terms."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    ``type_name`` is the SQL type in capitals, with its attributes (``BIGINT UNSIGNED``), and ``type_expression`` the same without
    length and scale as the history stores it. ``length`` and ``scale`` are None if the declaration has none. ``default`` is the
    expression of the default as text, None for NULL; it counts only with ``has_default``.
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
    is_generated: bool = False
    has_default: bool = False
    default: str | None = None
    enum_values: tuple[str, ...] = ()
    """The texts of an ENUM or SET, unquoted."""
    comment: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Table:
    """A version of a table. ``key`` are the names of the primary key's columns, else those of the first unique index whose
    columns are all NOT NULL."""

    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    charset: str | None = None
    """The default character set of the table."""
    comment: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"
