"""Finds tables of a catalog that Spark's settings describe, by PyIceberg."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyarrow import fs
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from connect.errors import ConfigError, ConnectError, RetriableError
from connect.suggestions import did_you_mean
from connectors.jdbc.urls.connection_url import parse_connection_url
from connectors.spark.s3_settings import S3A_PREFIX, is_s3, read_s3_settings, with_s3a_scheme
from connectors.spark.source.errors import TableAbsentError, UnsupportedTableError
from connectors.spark.source.iceberg.metadata import Json, TableMetadata, parse_metadata
from connectors.spark.source.iceberg.table_home import TableDirectory, TableHome
from connectors.spark.tables.staging import open_location

CATALOGS = "spark.sql.catalog."
HADOOP, JDBC = "hadoop", "jdbc"
_TYPES = {"hive": "hive", "rest": "rest", "glue": "glue", JDBC: "sql"}
"""The types of catalogs by their names in Spark's settings, as PyIceberg calls them."""
_IMPLEMENTATIONS = {
    "org.apache.iceberg.hadoop.HadoopCatalog": HADOOP,
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.jdbc.JdbcCatalog": JDBC,
}
_UNAVAILABLE = ("OperationalError", "InterfaceError")
"""Errors of SQLAlchemy, which only connectors/jdbc may import: the database of a catalog is down."""


class CatalogTableHome:
    """A table of a catalog."""

    def __init__(self, name: str, catalog: Catalog, identifier: tuple[str, ...], conf: Mapping[str, str]) -> None:
        """``conf``: Spark's settings, without the prefix of connector keys."""
        self._name = name
        self._catalog = catalog
        self._identifier = identifier
        self._conf = conf

    def read(self) -> tuple[Json, str]:
        table = self._load()
        return json.loads(table.metadata.model_dump_json()), table.metadata_location

    def _load(self) -> Table:
        with _explained(self._name):
            try:
                return self._catalog.load_table(self._identifier)
            except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError) as e:
                raise TableAbsentError(f"there is no Iceberg table {self._name}{self._similar_table()}") from e

    def load(self) -> tuple[TableMetadata, fs.FileSystem]:
        table = self._load()
        node = json.loads(table.metadata.model_dump_json())
        metadata = parse_metadata(node, table.metadata_location, self._name)
        return metadata, self._open_files(metadata.location, table.io)

    def has_changed(self, known: TableMetadata) -> bool:
        with _explained(self._name):
            try:
                return bool(self._catalog.load_table(self._identifier).metadata_location != known.source)
            except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError):
                return True

    def _similar_table(self) -> str:
        try:
            names = [found[-1] for found in self._catalog.list_tables(self._identifier[:-1])]
        except (exceptions.NoSuchNamespaceError, exceptions.RESTError):
            return ""
        return did_you_mean(self._identifier[-1], names, "; ")

    def _open_files(self, location: str, io: Any) -> fs.FileSystem:
        if not is_s3(location) or any(key.startswith(S3A_PREFIX) for key in self._conf):
            files, _ = open_location(location, read_s3_settings(self._conf, location), "the location of the table")
            return files
        scheme, netloc, _ = PyArrowFileIO.parse_location(location)
        own = io if isinstance(io, PyArrowFileIO) else PyArrowFileIO(io.properties)
        return own.fs_by_scheme(scheme, netloc)


def open_table(catalog: str, identifier: tuple[str, ...], conf: Mapping[str, str]) -> TableHome:
    """The table ``identifier`` (namespaces and name) of a catalog. Raises ConfigError, RetriableError, and other
    ConnectErrors."""
    key = f"{CATALOGS}{catalog}"
    given = {name.removeprefix(f"{key}."): value for name, value in conf.items() if name.startswith(f"{key}.")}
    name = ".".join((catalog, *identifier))
    kind = _kind(key, given)
    if kind == HADOOP:
        warehouse = given.get("warehouse", "").rstrip("/")
        if not warehouse:
            raise _missing(key, "warehouse")
        location = with_s3a_scheme("/".join((warehouse, *identifier)))
        files, folder = open_location(location, read_s3_settings(conf, location), f"spark.conf.{key}.warehouse")
        return TableDirectory(files, folder, name)
    with _explained(name):
        return CatalogTableHome(name, load_catalog(catalog, **_properties(key, kind, given)), identifier, conf)


def _kind(key: str, given: Mapping[str, str]) -> str:
    implementation = given.get("catalog-impl")
    if implementation is not None:
        if implementation not in _IMPLEMENTATIONS:
            raise ConfigError.invalid(f"spark.conf.{key}.catalog-impl", implementation, f"Expected {', '.join(_IMPLEMENTATIONS)}")
        return _IMPLEMENTATIONS[implementation]
    kind = given.get("type")
    if kind is None:
        raise _missing(key, "type")
    if kind.lower() not in (HADOOP, *_TYPES):
        raise ConfigError.invalid(f"spark.conf.{key}.type", kind, f"Expected {', '.join((HADOOP, *_TYPES))}")
    return kind.lower()


def _missing(key: str, name: str) -> ConfigError:
    return ConfigError(f"table.catalog needs spark.conf.{key}.{name}", key="table.catalog")


def _properties(key: str, kind: str, given: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg's properties of a catalog: most have the same names."""
    found = {name: value for name, value in given.items() if name not in ("catalog-impl", "io-impl", "type")}
    if "uri" not in found and kind != "glue":
        raise _missing(key, "uri")
    if kind == JDBC:
        target = parse_connection_url(
            found["uri"], found.pop("jdbc.user", None), found.pop("jdbc.password", None), {}, key=f"spark.conf.{key}.uri"
        )
        found["uri"] = target.url.render_as_string(hide_password=False)
        # The tables of the catalog are there; reading must not create them.
        found["init_catalog_tables"] = "false"
    if found.pop("s3.path-style-access", "true").lower() == "false":
        found["s3.force-virtual-addressing"] = "true"
    return {**found, "type": _TYPES[kind]}


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Raises errors of PyIceberg as ours, inside a with block."""
    try:
        yield
    except (exceptions.UnauthorizedError, exceptions.ForbiddenError, exceptions.OAuthError) as e:
        raise ConnectError(
            f"the catalog refuses to load table {name}: {e}. Check its credential, token, and permissions "
            "(spark.conf.spark.sql.catalog.*)"
        ) from e
    except (exceptions.ServerError, exceptions.ServiceUnavailableError, exceptions.TooManyRequestsError, OSError) as e:
        raise RetriableError(f"the catalog of table {name} does not answer: {e}") from e
    except (exceptions.NotInstalledError, ImportError) as e:
        raise ConnectError(f"the catalog of table {name} needs a package that is not installed: {e}") from e
    except ConnectError:
        raise
    except Exception as e:
        if type(e).__name__ in _UNAVAILABLE:
            raise RetriableError(f"the catalog of table {name} does not answer: {e}") from e
        found = " ".join(line.strip() for line in str(e).splitlines()[:3])
        raise UnsupportedTableError(
            f"PyIceberg cannot load table {name} from its catalog: {found}. If the table has a feature or type that PyIceberg "
            "does not know, copy it into one without it with Spark, and read the copy"
        ) from e
