"""Oracle: SQLAlchemy's inspector and driver, with the types and statements of Confluent's and Aiven's connectors.

Tests compare the statements with those of the connectors; they do not run against a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from connectors.jdbc.catalog import JdbcTable
from connectors.jdbc.dialects import merge_sql
from connectors.jdbc.dialects.generic import GenericDialect
from connectors.jdbc.dialects.logical_types import FieldKind, TemporalForm, logical_type
from connectors.jdbc.errors import ErrorKind
from connectors.jdbc.options import SinkField
from connectors.jdbc.sql import Bind, Sql

_TYPES = {
    FieldKind.BOOLEAN: "NUMBER(1,0)",
    FieldKind.INT8: "NUMBER(3,0)",
    FieldKind.INT16: "NUMBER(5,0)",
    FieldKind.INT32: "NUMBER(10,0)",
    FieldKind.YEAR: "NUMBER(10,0)",
    FieldKind.INT64: "NUMBER(19,0)",
    FieldKind.DURATION: "NUMBER(19,0)",
    FieldKind.FLOAT32: "BINARY_FLOAT",
    FieldKind.FLOAT64: "BINARY_DOUBLE",
    FieldKind.BYTES: "BLOB",
    FieldKind.DATE: "DATE",
    FieldKind.TIME: "DATE",
    FieldKind.TIMESTAMP: "TIMESTAMP",
}
_BY_NUMBER = {
    **dict.fromkeys((54, 60, 8177, 18, 20, 2391, 4020, 4021, 12516, 12519, 12520), ErrorKind.TRANSIENT),
    **dict.fromkeys((1, 1400, 1407, 1401, 1438, 1722, 1830, 1843, 2290, 2291, 2292, 12899), ErrorKind.ROW),
    **dict.fromkeys((1017, 1005, 28000, 28001), ErrorKind.AUTHENTICATION),
    **dict.fromkeys((942, 904), ErrorKind.TABLE),
    **dict.fromkeys(
        (28, 1012, 1033, 1034, 1089, 1092, 3113, 3114, 3135, 12170, 12514, 12528, 12537, 12541, 12571), ErrorKind.CONNECTION
    ),
    1013: ErrorKind.TIMEOUT,
}


class OracleDialect(GenericDialect):
    name: ClassVar[str] = "Oracle"
    max_parameters: ClassVar[int] = 32_000
    clock: ClassVar[str] = "SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) FROM DUAL"

    def classify(self, error: BaseException) -> ErrorKind:
        number = getattr(error.args[0], "code", None) if error.args else None
        return _BY_NUMBER.get(number) or super().classify(error) if isinstance(number, int) else super().classify(error)

    def column_type(self, field: SinkField) -> str:
        logical = logical_type(field.schema, self._write_options)
        if logical.kind is FieldKind.DECIMAL:
            return f"NUMBER(*,{logical.scale or 0})"
        if logical.kind is FieldKind.INSTANT:
            return "TIMESTAMP" if logical.form is TemporalForm.CONNECT else "TIMESTAMP WITH TIME ZONE"
        # A CLOB can be neither part of a key nor compared.
        return _TYPES.get(logical.kind, "VARCHAR2(4000)")

    def add_columns(self, table: JdbcTable, fields: Sequence[SinkField]) -> list[Sql]:
        return [Sql(f"ALTER TABLE {self.table_ref(table.name)} ADD(\n", self._definitions(fields), ")")]

    def upsert_sql(self, table: JdbcTable, keys: Sequence[str], others: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        quoted, rest = [self.quote(key) for key in keys], [self.quote(other) for other in others]
        return merge_sql.merge_from_dual(self.table_ref(table.name), quoted, rest, marks)
