"""Iceberg's library in Spark's JVM, behind one Java class: each call takes and returns JSON, because calls into the JVM cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connect.errors import ConnectError
from connectors.spark.config_keys import MAIN_BRANCH
from connectors.spark.errors import root_cause
from connectors.spark.session.java_classes import install_class
from connectors.spark.tables.conflicts import CommitConflict, TableNotLocked
from connectors.spark.tables.iceberg.types import Json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "sluice.spark.IcebergTables"
_SOURCE = Path(__file__).with_name("IcebergTables.java")
_DAMAGE = (
    "com.fasterxml.jackson.",
    "ChecksumException",
    "org.apache.iceberg.exceptions.NotFoundException",
    "Metadata file for version",
    "Cannot parse",
    "Cannot read unsupported version",
)
"""What Iceberg says of a metadata file that is damaged, missing, or of a newer version of its format."""
_REMEDY = "run 'sluice setup --iceberg' and restart the worker, or add Iceberg's JAR to spark.jars"


def is_unreadable_metadata(error: BaseException) -> bool:
    """Whether Iceberg cannot read the metadata file of a table. What a catalog answers is none."""
    text = str(error)
    return "RESTException" not in text and any(sign in text for sign in _DAMAGE)


@dataclass(frozen=True, slots=True)
class IcebergName:
    """A table of a catalog, or without one at a location."""

    catalog: str
    namespace: tuple[str, ...]
    name: str

    @classmethod
    def parse(cls, catalog: str, text: str) -> IcebergName:
        """``catalog`` is ``table.catalog``: a catalog, and perhaps a namespace; dots in the name separate further namespaces.
        Without a catalog, the name is a location."""
        if not catalog:
            return cls("", (), text)
        first, *namespace = f"{catalog}.{text}".split(".")
        return cls(first, tuple(namespace[:-1]), namespace[-1])

    def __str__(self) -> str:
        return ".".join([self.catalog, *self.namespace, self.name]) if self.catalog else self.name


class IcebergLibrary:
    """The library in one JVM, for the tables of one session. May be used by one thread at a time."""

    def __init__(self, session: SparkSession) -> None:
        install_class(session, _CLASS, _SOURCE, "Iceberg", _REMEDY)
        jvm: Any = session._jvm
        self._jvm = jvm
        self._session: Any = session._jsparkSession
        self._java = jvm.sluice.spark.IcebergTables
        self._conf = session.conf

    def load(self, name: IcebergName, branch: str = MAIN_BRANCH) -> IcebergHandle | None:
        """The table, to read and write one branch; None if there is none. Raises ConnectError without such a catalog."""
        found = self._java.load(self._session, self._catalog(name.catalog), self._list(name.namespace), name.name)
        return None if found is None else IcebergHandle(self._java, found, branch)

    def create(self, name: IcebergName, schema: Json, spec: Json, properties: Mapping[str, str]) -> None:
        """Creates a table, and the namespaces that it lacks. Does nothing if the table exists."""
        values = self._jvm.java.util.HashMap()
        for key, value in properties.items():
            values.put(key, value)
        namespace, catalog = self._list(name.namespace), self._catalog(name.catalog)
        self._java.create(self._session, catalog, namespace, name.name, json.dumps(schema), json.dumps(spec), values)

    def table_names(self, catalog: str, namespace: Sequence[str]) -> list[str]:
        """The tables of a namespace, and of those below it, by their names relative to it."""
        found: list[str] = json.loads(self._java.tableNames(self._catalog(catalog), self._list(namespace)))
        return found

    def _catalog(self, name: str) -> Any:
        if not name:
            return None
        key = f"spark.sql.catalog.{name}"
        implementation = self._conf.get(key, None)
        if implementation is None:
            raise ConnectError(
                f"there is no catalog {name}: set spark.conf.{key}=org.apache.iceberg.spark.SparkCatalog and its properties "
                f"(spark.conf.{key}.type, .uri, .warehouse), or correct table.catalog"
            )
        try:
            return self._java.catalog(self._session, name)
        except Exception as e:
            raise ConnectError(
                f"the catalog {name} cannot be opened: {root_cause(str(e))}; check the properties spark.conf.{key}.*"
            ) from e

    def _list(self, values: Sequence[str]) -> Any:
        listed = self._jvm.java.util.ArrayList()
        for value in values:
            listed.add(value)
        return listed


class IcebergHandle:
    """A branch of a table in the JVM."""

    def __init__(self, java: Any, table: Any, branch: str) -> None:
        self._java = java
        self._branch = branch
        self._table = table
        self._uuid = str(table.uuid())

    def read(self) -> Json:
        """The newest state (see ``read`` in ``IcebergTables.java``)."""
        found: Json = json.loads(self._java.read(self._table, self._branch))
        return found

    @property
    def uuid(self) -> str:
        """Of the table when it was loaded."""
        return self._uuid

    def property_names(self) -> list[str]:
        """The properties of the newest state."""
        self._table.refresh()
        return [str(name) for name in self._table.properties()]

    def history(self, since: int) -> Json:
        found: Json = json.loads(self._java.history(self._table, self._branch, since))
        return found

    def files(self, snapshot: int) -> list[Json]:
        found: list[Json] = json.loads(self._java.files(self._table, snapshot))
        return found

    def changes(self, snapshot: int) -> Json:
        found: Json = json.loads(self._java.changes(self._table, snapshot))
        return found

    def commit(self, change: Json) -> Json:
        """Commits a change. Raises CommitConflict and TableNotLocked; after another error it is not known whether there was a
        commit."""
        answer: Json = json.loads(self._java.commit(self._table, self._branch, json.dumps(change)))
        if "conflict" in answer:
            raise CommitConflict(answer["conflict"])
        if "unlocked" in answer:
            raise TableNotLocked(f"LockException: {answer['unlocked']}")
        return answer

    def add_columns(self, schema: Json) -> None:
        self._java.addColumns(self._table, json.dumps(schema))

    def change_types(self, types: Mapping[str, str]) -> None:
        self._java.changeTypes(self._table, types)

    def set_property(self, name: str, value: str) -> None:
        self._java.setProperty(self._table, name, value)

    def remove_property(self, name: str) -> None:
        self._java.removeProperty(self._table, name)

    def count_snapshots(self, before_ms: int) -> tuple[int, int, int]:
        """The number of snapshots, of those from before a time (ms since 1970) that no branch or tag points to, and the time of
        the oldest of these; in the state that was read last."""
        found = json.loads(self._java.countSnapshots(self._table, before_ms))
        return int(found["count"]), int(found["old"]), int(found["oldest"])

    def expire_snapshots(self) -> None:
        self._java.expire(self._table)
