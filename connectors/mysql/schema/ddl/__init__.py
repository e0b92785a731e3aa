"""DDL of MySQL (5.5 to 9) and MariaDB (10.0 and later): what statements do to tables. Pure: no connection, no state.

Use::

    context = DdlContext(is_mariadb=True, sql_mode=query.sql_mode, server_charset="utf8mb4", database_charsets=charsets)
    for change in apply(tables, sql, query.schema, context):   # raises UnparsedDdlError
        ...
    apply_changes(changes, tables, charsets)

    table = parse_create_table(show_create_table, database, context)
"""

from connectors.mysql.schema.ddl.changes import Change, DatabaseChange, DdlKind, TableDdlChange, apply_changes, changed_tables
from connectors.mysql.schema.ddl.context import DdlContext, sql_mode_flags
from connectors.mysql.schema.ddl.errors import UnparsedDdlError
from connectors.mysql.schema.ddl.statements import apply, parse_create_table

__all__ = [
    "Change",
    "DatabaseChange",
    "DdlContext",
    "DdlKind",
    "TableDdlChange",
    "UnparsedDdlError",
    "apply",
    "apply_changes",
    "changed_tables",
    "parse_create_table",
    "sql_mode_flags",
]
