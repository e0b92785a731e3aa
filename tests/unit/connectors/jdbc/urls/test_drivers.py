"""The drivers that ``sluice doctor`` lists."""

from __future__ import annotations

import importlib.metadata

import pytest

from connectors.jdbc.urls import drivers


@pytest.mark.long
def test_each_database_is_listed_with_its_driver_or_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {database: (version, fix) for database, version, fix in drivers.installed()}
    assert list(found) == list(drivers.DATABASES)
    assert found["PostgreSQL"] == (f"psycopg {importlib.metadata.version('psycopg')}", "")
    assert found["SQLite"][0].startswith("sqlite3 of Python, SQLite 3.")
    monkeypatch.setattr(drivers, "_is_there", lambda module: module != "pyodbc" and module != "psycopg")
    missing = {database: fix for database, version, fix in drivers.installed() if not version}
    assert missing["PostgreSQL"] == "pip install 'psycopg[binary]' in the worker's environment"
    assert "ODBC driver" in missing["SQL Server"]
    assert "DuckDB" not in missing
