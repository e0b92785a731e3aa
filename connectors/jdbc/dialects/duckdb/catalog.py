"""Queries of DuckDB's catalog. SQLAlchemy's inspector would query PostgreSQL's catalogs, which DuckDB lacks."""

from __future__ import annotations

from collections.abc import Collection

from connectors.jdbc.catalog import JdbcColumn, JdbcTable, TableStatistics
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.duckdb.types import describe_type
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName


def tables(
    session: DriverSession, kinds: Collection[str], catalog: str | None, schema: str | None
) -> list[tuple[TableName, str]]:
    """Returns schema.table of the current database, or database.schema.table of databases that match ``catalog``."""
    where = _matching(catalog, schema)
    rows = session.query(
        Sql("SELECT database_name, schema_name, table_name, 'TABLE' FROM duckdb_tables() WHERE ", where,
            " UNION ALL SELECT database_name, schema_name, view_name, 'VIEW' FROM duckdb_views() WHERE ", where),
        "looking up the tables",
    )  # fmt: skip
    return sorted(
        ((TableName(name, of, database if catalog else None), kind) for database, of, name, kind in rows if kind in kinds),
        key=lambda entry: str(entry[0]),
    )


def _matching(catalog: str | None, schema: str | None) -> Sql:
    """Returns the conditions of JDBC's patterns."""
    where = Sql("NOT internal AND ")
    where += Sql("database_name LIKE ", Bind(catalog), " ESCAPE '\\'") if catalog else "database_name = current_database()"
    if schema is not None:
        where += Sql(" AND schema_name LIKE ", Bind(schema), " ESCAPE '\\'")
    return where


def describe(session: DriverSession, name: TableName) -> JdbcTable | None:
    """Describes a table or view, ignoring case; without a schema, one of the current schema."""
    doing = f"looking up {name}"
    where = Sql("lower(table_name) = lower(", Bind(name.name), ") AND schema_name = ")
    where += Bind(name.schema) if name.schema is not None else "current_schema()"
    where += Sql(" AND database_name = ", Bind(name.catalog) if name.catalog is not None else "current_database()")
    columns = session.query(
        Sql("SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default, is_generated "
            "FROM duckdb_columns() WHERE ", where, " ORDER BY table_name, column_index"), doing,
    )  # fmt: skip
    if not columns:
        return None
    schema, real = columns[0][:2]
    found = TableName(real, name.schema or schema, name.catalog)
    with session.guarded(doing):
        relation = session.driver.sql(f"SELECT * FROM {session.dialect.table_ref(found)}")
        types = [describe_type(type_) for type_ in relation.types]
        del relation
    constraints = session.query(
        Sql("SELECT constraint_type, constraint_column_names FROM duckdb_constraints() WHERE ", where, " AND constraint_type IN "
            "('PRIMARY KEY', 'UNIQUE')"), doing,
    )  # fmt: skip
    views = session.query(
        Sql("SELECT 1 FROM duckdb_views() WHERE view_name = ", Bind(real), " AND schema_name = ", Bind(schema)), doing
    )
    uniques = [tuple(names) for kind, names in constraints if kind == "UNIQUE"]
    return JdbcTable(
        found,
        tuple(
            JdbcColumn(
                column, type_name, nullable=bool(nullable), autoincrement=(default or "").lower().startswith("nextval("),
                has_default=default is not None or bool(generated), generated=bool(generated), native=native,
            )
            for (_, _, column, type_name, nullable, default, generated), native in zip(columns, types, strict=True)
        ),
        next((tuple(names) for kind, names in constraints if kind == "PRIMARY KEY"), ()),
        "VIEW" if views else "TABLE",
        (*uniques, *_unique_indexes(session, where, {column for _, _, column, *_ in columns}, doing)),
    )  # fmt: skip


def _unique_indexes(session: DriverSession, where: Sql, columns: set[str], doing: str) -> list[tuple[str, ...]]:
    """Returns the unique indexes over columns. DuckDB lists index expressions as text; those that are not column names are
    ignored."""
    rows = session.query(Sql("SELECT expressions FROM duckdb_indexes() WHERE is_unique AND ", where), doing)
    found: list[tuple[str, ...]] = []
    for (text,) in rows:
        names = tuple(part.strip().strip("'\"") for part in text.strip("[]").split(","))
        if all(name in columns for name in names):
            found.append(names)
    return found


def statistics(session: DriverSession, catalog: str | None, schema: str | None) -> dict[TableName, TableStatistics]:
    """Returns estimates of the tables of :func:`tables`."""
    sql = Sql(
        "SELECT database_name, schema_name, table_name, estimated_size, has_primary_key FROM duckdb_tables() WHERE ",
        _matching(catalog, schema),
    )
    return {
        TableName(name, space, database if catalog else None): TableStatistics(
            None if rows is None else int(rows), None, bool(has_key)
        )
        for database, space, name, rows, has_key in session.query(sql, "looking up the sizes of tables")
    }
