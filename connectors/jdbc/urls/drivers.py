"""The supported sub-protocols and dialects, the packages that they need, and suggestions for misspelled names."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from sqlite3 import sqlite_version

from connect.errors import ConfigError
from connect.suggestions import nearest


@dataclass(frozen=True, slots=True)
class Driver:
    """The modules of a driver and the packages that contain them."""

    modules: tuple[str, ...]
    install: str
    remark: str = ""


DRIVERS: dict[str, Driver] = {
    "postgresql+psycopg": Driver(("psycopg",), "psycopg[binary]"),
    "postgresql+psycopg2": Driver(("psycopg2",), "psycopg2-binary"),
    "postgresql+pg8000": Driver(("pg8000",), "pg8000"),
    "mysql+pymysql": Driver(("pymysql",), "PyMySQL"),
    "mysql+mysqldb": Driver(("MySQLdb",), "mysqlclient"),
    "mysql+mysqlconnector": Driver(("mysql.connector",), "mysql-connector-python"),
    "mysql+cymysql": Driver(("cymysql",), "cymysql"),
    "mysql+pyodbc": Driver(("pyodbc",), "pyodbc"),
    "mariadb+pymysql": Driver(("pymysql",), "PyMySQL"),
    "mariadb+mysqldb": Driver(("MySQLdb",), "mysqlclient"),
    "mariadb+mysqlconnector": Driver(("mysql.connector",), "mysql-connector-python"),
    "mariadb+mariadbconnector": Driver(("mariadb",), "mariadb"),
    "sqlite": Driver((), ""),
    "sqlite+pysqlite": Driver((), ""),
    "sqlite+pysqlcipher": Driver(("sqlcipher3",), "sqlcipher3"),
    "duckdb": Driver(("duckdb_engine", "duckdb"), "duckdb-engine"),
    "mssql": Driver(("pyodbc",), "pyodbc", "Microsoft's ODBC driver must be installed, too"),
    "mssql+pyodbc": Driver(("pyodbc",), "pyodbc", "Microsoft's ODBC driver must be installed, too"),
    "mssql+pymssql": Driver(("pymssql",), "pymssql"),
    "mssql+mssqlpython": Driver(("mssql_python",), "mssql-python"),
    "oracle": Driver(("oracledb",), "oracledb"),
    "oracle+oracledb": Driver(("oracledb",), "oracledb"),
    "oracle+cx_oracle": Driver(("cx_Oracle",), "cx_Oracle"),
    "db2": Driver(("ibm_db_sa", "ibm_db"), "ibm_db_sa"),
    "db2+ibm_db": Driver(("ibm_db_sa", "ibm_db"), "ibm_db_sa"),
    "ibm_db_sa": Driver(("ibm_db_sa", "ibm_db"), "ibm_db_sa"),
    "hana": Driver(("sqlalchemy_hana", "hdbcli"), "sqlalchemy-hana"),
    "hana+hdbcli": Driver(("sqlalchemy_hana", "hdbcli"), "sqlalchemy-hana"),
    "snowflake": Driver(("snowflake.sqlalchemy",), "snowflake-sqlalchemy"),
    "redshift": Driver(("sqlalchemy_redshift", "psycopg2"), "sqlalchemy-redshift psycopg2-binary"),
    "redshift+psycopg2": Driver(("sqlalchemy_redshift", "psycopg2"), "sqlalchemy-redshift psycopg2-binary"),
    "redshift+redshift_connector": Driver(
        ("sqlalchemy_redshift", "redshift_connector"), "sqlalchemy-redshift redshift_connector"
    ),
    "clickhousedb": Driver(("clickhouse_connect",), "clickhouse-connect[sqlalchemy]"),
    "clickhousedb+connect": Driver(("clickhouse_connect",), "clickhouse-connect[sqlalchemy]"),
    "clickhouse+native": Driver(("clickhouse_sqlalchemy",), "clickhouse-sqlalchemy"),
    "clickhouse+http": Driver(("clickhouse_sqlalchemy",), "clickhouse-sqlalchemy"),
    "cockroachdb": Driver(("sqlalchemy_cockroachdb", "psycopg2"), "sqlalchemy-cockroachdb psycopg2-binary"),
    "cockroachdb+psycopg": Driver(("sqlalchemy_cockroachdb", "psycopg"), "sqlalchemy-cockroachdb psycopg[binary]"),
    "cockroachdb+psycopg2": Driver(("sqlalchemy_cockroachdb", "psycopg2"), "sqlalchemy-cockroachdb psycopg2-binary"),
    "vertica+vertica_python": Driver(
        ("vertica_sqlalchemy_dialect", "vertica_python"),
        "vertica-sqlalchemy-dialect",
        "check that its release supports SQLAlchemy 2: those up to 0.0.8.2 do not",
    ),
    "sybase+pyodbc": Driver(("sqlalchemy_sybase", "pyodbc"), "sqlalchemy-sybase", "FreeTDS' ODBC driver must be installed, too"),
    "trino": Driver(("trino",), "trino[sqlalchemy]"),
    "teradatasql": Driver(("teradatasqlalchemy",), "teradatasqlalchemy"),
    "hive": Driver(("pyhive",), "PyHive[hive]"),
    "impala": Driver(("impala",), "impyla"),
    "bigquery": Driver(("sqlalchemy_bigquery",), "sqlalchemy-bigquery"),
    "awsathena+rest": Driver(("pyathena",), "PyAthena[SQLAlchemy]"),
    "databricks": Driver(("databricks.sqlalchemy",), "databricks-sqlalchemy"),
    "firebird+firebird": Driver(("sqlalchemy_firebird",), "sqlalchemy-firebird"),
    "exa+websocket": Driver(("sqlalchemy_exasol",), "sqlalchemy-exasol"),
    "crate": Driver(("sqlalchemy_cratedb",), "sqlalchemy-cratedb"),
    "monetdb": Driver(("sqlalchemy_monetdb",), "sqlalchemy-monetdb"),
}
"""Drivers by SQLAlchemy's name of dialect and driver."""

DATABASES = {
    "PostgreSQL": "postgresql+psycopg",
    "MySQL and MariaDB": "mysql+pymysql",
    "SQLite": "sqlite",
    "DuckDB": "duckdb",
    "SQL Server": "mssql+pyodbc",
    "Oracle": "oracle+oracledb",
    "Db2": "db2+ibm_db",
    "SAP HANA": "hana+hdbcli",
    "Snowflake": "snowflake",
    "Redshift": "redshift+psycopg2",
    "ClickHouse": "clickhousedb+connect",
    "CockroachDB": "cockroachdb+psycopg",
    "Vertica": "vertica+vertica_python",
}
"""The databases whose drivers ``sluice doctor`` checks, each with the driver of its JDBC URLs."""

PREFERRED = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "cockroachdb": "cockroachdb+psycopg",
}
"""The driver for a URL that names none. Other dialects use SQLAlchemy's default."""

REFUSED = {
    "derby": "Apache Derby has no Python driver; only Java can open such a database",
    "h2": "H2 has no Python driver; only Java can open such a database",
    "hsqldb": "HSQLDB has no Python driver; only Java can open such a database",
    "ucanaccess": "Microsoft Access has no supported Python driver; only Java can open such a database",
    "mysql+srv": "DNS SRV lookup of servers is not supported; name them: jdbc:mysql://host:3306/database",
}
"""Unsupported sub-protocols, with the reason."""

AS_SQLALCHEMY = {
    "trino": "trino://user:password@host:8080/catalog",
    "presto": "trino://user:password@host:8080/catalog",
    "teradata": "teradatasql://user:password@host",
    "hive2": "hive://user@host:10000/database",
    "impala": "impala://host:21050/database",
    "bigquery": "bigquery://project/dataset",
    "awsathena": "awsathena+rest://:@athena.region.amazonaws.com/database?s3_staging_dir=s3://...",
    "athena": "awsathena+rest://:@athena.region.amazonaws.com/database?s3_staging_dir=s3://...",
    "databricks": "databricks://token:...@host?http_path=...",
    "firebirdsql": "firebird+firebird://user:password@host/path",
    "exa": "exa+websocket://user:password@host:8563/schema",
    "crate": "crate://host:4200",
    "monetdb": "monetdb://user:password@host:50000/database",
    "as400": "db2as400://user:password@host/database (of ibm_db_sa)",
}
"""Unsupported sub-protocols, with an equivalent SQLAlchemy URL."""

_BUILT_IN = ("postgresql", "mysql", "mariadb", "sqlite", "mssql", "oracle")
_ASYNC = frozenset(
    {
        "asyncpg",
        "psycopg_async",
        "aiosqlite",
        "aiomysql",
        "asyncmy",
        "aioodbc",
        "oracledb_async",
        "asyncmy_async",
        "connect_async",
    }
)


def check_dialect(drivername: str) -> None:
    """Raises ConfigError for an asynchronous driver or a misspelled name. Imports no driver."""
    backend, _, driver = drivername.partition("+")
    known = {name.partition("+")[0] for name in DRIVERS}
    if driver in _ASYNC:
        choices = _sync_drivers(backend)
        raise ConfigError(f"{drivername} is asynchronous, which is not supported; supported are {', '.join(choices)}")
    if drivername in DRIVERS or _registered(drivername):
        return
    if backend in _BUILT_IN and driver:
        near = nearest(drivername, _sync_drivers(backend))
        hint = f"did you mean {near}? " if near else ""
        raise ConfigError(
            f"SQLAlchemy has no driver {driver} for {backend}; {hint}supported are {', '.join(_sync_drivers(backend))}"
        )
    if backend not in known:
        near = nearest(backend, known, 0.75)
        if near:
            raise ConfigError(f"SQLAlchemy has no dialect {backend}; did you mean {near}://?")


def require(drivername: str) -> None:
    """Raises ConfigError, with the package to install, if the dialect or its driver is missing. Imports neither."""
    driver = DRIVERS.get(drivername)
    if driver is None:
        if not _registered(drivername):
            raise ConfigError(f"SQLAlchemy has no dialect {drivername} here; install its package in the worker's environment")
        return
    missing = [module for module in driver.modules if not _is_there(module)]
    if missing:
        remark = f" ({driver.remark})" if driver.remark else ""
        raise ConfigError(
            f"{drivername} needs {' and '.join(missing)}, which is not installed: pip install {_quoted(driver.install)}{remark}"
        )


def installed() -> list[tuple[str, str, str]]:
    """Returns for each database in DATABASES: its name, its driver with version or ``""``, and how to install a missing driver
    or ``""``. Imports no driver."""
    found = []
    for database, drivername in DATABASES.items():
        driver = DRIVERS[drivername]
        missing = [module for module in driver.modules if not _is_there(module)]
        if missing:
            remark = f" ({driver.remark})" if driver.remark else ""
            found.append((database, "", f"pip install {_quoted(driver.install)} in the worker's environment{remark}"))
        else:
            found.append((database, " ".join(map(_version, driver.modules)) or f"sqlite3 of Python, SQLite {sqlite_version}", ""))
    return found


def _version(module: str) -> str:
    for package in importlib.metadata.packages_distributions().get(module.partition(".")[0], ()):
        return f"{package} {importlib.metadata.version(package)}"
    return module


def _sync_drivers(backend: str) -> list[str]:
    return sorted(name for name in DRIVERS if name.startswith(f"{backend}+"))


def _registered(drivername: str) -> bool:
    return bool(importlib.metadata.entry_points(group="sqlalchemy.dialects", name=drivername.replace("+", ".")))


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False  # a parent package is missing


def _quoted(packages: str) -> str:
    return " ".join(f"'{package}'" if "[" in package else package for package in packages.split(" "))
