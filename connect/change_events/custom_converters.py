"""Custom converters: what columns of captured tables become in place of the connector's mapping of their types.

The counterpart of Debezium's ``io.debezium.spi.converter.CustomConverter``. A configuration names converters in ``converters``::

    converters=cents
    cents.type=shop.converters:Cents
    cents.columns=.*\\.price
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef
from connect.data.schema import Schema


@dataclass(frozen=True, slots=True)
class RelationalColumn:
    """A column of a version of a table."""

    name: str
    data_collection: str
    """The table: ``schema.table`` in PostgreSQL, ``database.table`` in MySQL and MariaDB."""
    type_name: str
    """The type as Debezium names it: ``int4`` in PostgreSQL, ``INT UNSIGNED`` in MySQL."""
    length: int | None
    """Length or precision of the type; None if it has none."""
    scale: int | None
    schema: Schema
    """The schema of the field without a converter: optional if the column may be null, with the column's default. The function of
    a :class:`ColumnConversion` is called with values of this schema."""
    charset_name: str | None = None
    """The character set, where the database has one for each column."""

    @property
    def full_name(self) -> str:
        """What selectors match: ``<data_collection>.<name>``."""
        return f"{self.data_collection}.{self.name}"


@dataclass(frozen=True, slots=True)
class ColumnConversion:
    """What becomes of the values of a column."""

    schema: Schema
    """The schema of the results. The field's schema is also optional if the column may be null, and has the column's default,
    converted."""
    convert: Callable[[Any], Any]
    """Returns the value of the event for the value that it would have without a converter. It never gets None: a null stays null.

    It must be a pure function, because a value is converted again after a restart. Any exception is an error of the row, which
    ``event.processing.failure.handling.mode`` and ``errors.*`` handle; so is a result that does not fit ``schema``.
    """


class CustomConverter(ABC):
    """Chooses columns and replaces their schemas and values, alike in snapshots, the stream, and incremental snapshots.

    Created without arguments, configured once, then called only on the thread of one task.
    """

    @classmethod
    def config_def(cls) -> ConfigDef:
        """Returns the keys below ``<name>.``, without ``type``."""
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Reads the keys below ``<name>.``. Raises ConfigError. Also called to validate a configuration."""

    @abstractmethod
    def converter_for(self, column: RelationalColumn) -> ColumnConversion | None:
        """Returns the conversion of a column; None leaves it to the next converter, and then to the connector.

        Called once for each version of a table. Columns that the connector cannot capture are not passed.
        """
