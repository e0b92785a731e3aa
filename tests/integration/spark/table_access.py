"""How tests read and change a table, by its format: with Spark, and with a second engine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sluice.demo.delta_table import read_delta_table

CATALOG = "lake"


class TableAccess(Protocol):
    """One table."""

    path: Path

    log: Path
    """The folder of its metadata, where its writers lock."""

    def versions(self) -> int:
        """The number of commits."""
        ...

    def by_spark(self, spark: Any) -> pa.Table: ...

    def by_second_engine(self) -> pa.Table: ...

    def change(self, spark: Any, statement: str) -> None:
        """Runs a statement of SQL on the table ``{table}``."""
        ...


class DeltaAccess:
    """The second engine is delta-rs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "_delta_log"

    def versions(self) -> int:
        return len(list(self.log.glob("*.json")))

    def by_spark(self, spark: Any) -> pa.Table:
        return spark.read.format("delta").load(str(self.path)).toArrow()

    def by_second_engine(self) -> pa.Table:
        return read_delta_table(self.path)

    def change(self, spark: Any, statement: str) -> None:
        spark.sql(statement.replace("{table}", f"delta.`{self.path}`"))


class IcebergAccess:
    """A table below the warehouse of a Hadoop catalog, or a branch of it; the second engine is PyIceberg."""

    def __init__(self, path: Path, branch: str | None = None) -> None:
        self.path = path
        self.log = path / "metadata"
        self._branch = branch

    def versions(self) -> int:
        hint = self.log / "version-hint.text"
        return int(hint.read_text()) if hint.exists() else 0

    def by_spark(self, spark: Any) -> pa.Table:
        configure_catalog(spark, self.path.parent)
        version = "" if self._branch is None else f" VERSION AS OF '{self._branch}'"
        return spark.sql(f"SELECT * FROM {self.name}{version}").toArrow()

    @property
    def name(self) -> str:
        return f"{CATALOG}.`{self.path.name}`"

    def by_second_engine(self, where: str | None = None) -> pa.Table:
        """``where``: a condition in PyIceberg's form."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.table import StaticTable

        scan = StaticTable.from_metadata(str(self.metadata_file())).scan(where or AlwaysTrue())
        return (scan if self._branch is None else scan.use_ref(self._branch)).to_arrow()

    def metadata_file(self) -> Path:
        """The file with the newest metadata."""
        return self.log / f"v{self.versions()}.metadata.json"

    def change(self, spark: Any, statement: str) -> None:
        configure_catalog(spark, self.path.parent)
        if statement.startswith("OPTIMIZE"):
            options = "options => map('min-input-files', '2')"
            spark.sql(f"CALL {CATALOG}.system.rewrite_data_files(table => '`{self.path.name}`', {options})").collect()
        elif statement.startswith("VACUUM"):
            now = "older_than => TIMESTAMP '2999-01-01', retain_last => 5"
            spark.sql(f"CALL {CATALOG}.system.expire_snapshots(table => '`{self.path.name}`', {now})").collect()
        else:
            spark.sql(self._with_all_columns(spark, statement).replace("{table}", self.name))

    def _with_all_columns(self, spark: Any, statement: str) -> str:
        """Spark inserts into Iceberg tables only rows with all columns."""
        found = re.fullmatch(r"INSERT INTO {table} \((.*?)\) VALUES (.*)", statement)
        if found is None:
            return statement
        given = found.group(1).split(", ")
        listed = ", ".join(name if name in given else "NULL" for name in spark.table(self.name).columns)
        return f"INSERT INTO {{table}} SELECT {listed} FROM VALUES {found.group(2)} AS given({found.group(1)})"


def catalog_props(warehouse: Path | str) -> dict[str, str]:
    """Properties of Spark for a Hadoop catalog of this name."""
    key = f"spark.sql.catalog.{CATALOG}"
    return {
        key: "org.apache.iceberg.spark.SparkCatalog",
        f"{key}.type": "hadoop",
        f"{key}.warehouse": str(warehouse),
        f"{key}.cache-enabled": "false",
    }


def configure_catalog(spark: Any, warehouse: Path | str) -> None:
    for key, value in catalog_props(warehouse).items():
        spark.conf.set(key, value)


FORMATS: dict[str, Callable[[Path], TableAccess]] = {"delta": DeltaAccess, "iceberg": IcebergAccess}
