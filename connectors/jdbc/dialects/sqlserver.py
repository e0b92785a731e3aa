"""SQL Server (and Azure SQL): SQLAlchemy's inspector and drivers, with the types and statements of Confluent's and Aiven's
connectors.

Tests compare the statements with those of the connectors; they do not run against a server.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from connectors.jdbc.catalog import JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects import merge_sql
from connectors.jdbc.dialects.generic import GenericDialect
from connectors.jdbc.dialects.generic.errors import sqlstate
from connectors.jdbc.dialects.logical_types import FieldKind, TemporalForm, logical_type
from connectors.jdbc.errors import ErrorKind
from connectors.jdbc.options import SinkField
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName

_TYPES = {
    FieldKind.BOOLEAN: "bit",
    FieldKind.INT8: "tinyint",
    FieldKind.INT16: "smallint",
    FieldKind.INT32: "int",
    FieldKind.YEAR: "int",
    FieldKind.INT64: "bigint",
    FieldKind.DURATION: "bigint",
    FieldKind.FLOAT32: "real",
    FieldKind.FLOAT64: "float",
    FieldKind.BYTES: "varbinary(max)",
    FieldKind.DATE: "date",
    FieldKind.TIME: "time",
    FieldKind.TIMESTAMP: "datetime2",
    FieldKind.UUID: "uniqueidentifier",
}
_BY_NUMBER = {
    **dict.fromkeys((1205, 1222, 3960, 10928, 10929, 40197, 40501, 40613, 49918, 49919, 49920), ErrorKind.TRANSIENT),
    **dict.fromkeys((515, 547, 2601, 2627, 2628, 8115, 8152, 245, 241, 242, 220), ErrorKind.ROW),
    **dict.fromkeys((18456, 18452, 4060, 18486, 18487, 18488), ErrorKind.AUTHENTICATION),
    **dict.fromkeys((208, 207), ErrorKind.TABLE),
    **dict.fromkeys((10053, 10054, 10060, 20009, 20003), ErrorKind.CONNECTION),
}


class SqlServerDialect(GenericDialect):
    name: ClassVar[str] = "SQL Server"
    transactional_ddl: ClassVar[bool] = True
    max_parameters: ClassVar[int] = 2_000
    clock: ClassVar[str] = "SELECT SYSUTCDATETIME()"

    def classify(self, error: BaseException) -> ErrorKind:
        number = error.args[0] if error.args else None
        if isinstance(number, int) and number in _BY_NUMBER:
            return _BY_NUMBER[number]
        # 42000 means syntax or privileges, but also some of the numbers above.
        return ErrorKind.STATEMENT if sqlstate(error) == "42000" else super().classify(error)

    def tables(
        self, session: DriverSession, kinds: Collection[str], *, catalog: str | None = None, schema: str | None = None
    ) -> list[tuple[TableName, str]]:
        """Qualifies names with the database before the schema, as JDBC does."""
        database = session.query(Sql("SELECT DB_NAME()"), "looking up the database")[0][0]
        found = super().tables(session, kinds, schema=schema)
        return [(TableName(name.name, name.schema, database), kind) for name, kind in found]

    def limited(self, query: Sql, rows: int) -> Sql:
        """For queries with ORDER BY: FETCH is part of that clause."""
        return query + f" OFFSET 0 ROWS FETCH NEXT {rows:d} ROWS ONLY"

    def column_type(self, field: SinkField) -> str:
        logical = logical_type(field.schema, self._write_options)
        if logical.kind is FieldKind.DECIMAL:
            return f"decimal(38,{logical.scale or 0})"
        if logical.kind is FieldKind.INSTANT:
            return "datetime2" if logical.form is TemporalForm.CONNECT else "datetimeoffset"
        # An index key has at most 900 bytes.
        return _TYPES.get(logical.kind) or ("varchar(900)" if field.is_key else "varchar(max)")

    def add_columns(self, table: JdbcTable, fields: Sequence[SinkField]) -> list[Sql]:
        return [Sql(f"ALTER TABLE {self.table_ref(table.name)} ADD\n", self._definitions(fields))]

    def upsert_sql(self, table: JdbcTable, keys: Sequence[str], others: Sequence[str], marks: Sequence[Sql | Bind | str]) -> Sql:
        quoted, rest = [self.quote(key) for key in keys], [self.quote(other) for other in others]
        return merge_sql.merge_from_select(self.table_ref(table.name), quoted, rest, marks, hold_lock=True)
