"""A Hive metastore from PySpark's own JARs, with its database in memory: stopping it empties it."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from sluice.embedded.java import ensure_java
from sluice.embedded.ports import LOOPBACK, free_ports
from sluice.embedded.server import EmbeddedServer
from sluice.embedded.spark_cluster import spark_home

_CLASS = "org.apache.hadoop.hive.metastore.HiveMetaStore"
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_SETTINGS = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    # Asynchronous logging needs a library that PySpark does not have.
    "hive.async.log.enabled": "false",
    # The default needs a library that PySpark does not have, too.
    "datanucleus.connectionPoolingType": "none",
    "hive.hmshandler.retry.interval": "1ms",
    "hive.root.logger": "console",
    "hive.log.level": "WARN",
}
_WITH_LOCKS = Path(__file__).with_name("MetastoreWithLocks.java")
# Janino, which Spark brings, compiles a class and runs it.
_COMPILER = "org.codehaus.janino.SimpleCompiler"


class EmbeddedHiveMetastore(EmbeddedServer):
    """One metastore for the tables below ``data_dir/warehouse``. Without ``has_locks``, its database lacks the transaction
    tables."""

    name, stem = "Hive's metastore", "metastore"

    def __init__(self, data_dir: Path | str, *, has_locks: bool = True, dies_with_parent: bool = False) -> None:
        super().__init__(data_dir, dies_with_parent=dies_with_parent)
        self._has_locks = has_locks

    @property
    def uri(self) -> str:
        """For ``spark.sql.catalog.<catalog>.uri``."""
        return f"thrift://{self.host}:{self.port}"

    @property
    def warehouse(self) -> Path:
        return self.data_dir / "warehouse"

    @property
    def _known_port(self) -> int | None:
        return None

    @property
    def _requested_port(self) -> int | None:
        return None

    def _serves(self, port: int) -> bool:
        with contextlib.closing(socket.socket()) as probe:
            return probe.connect_ex((LOOPBACK, port)) == 0

    def _launch(self, timeout_s: float) -> None:
        (port,) = free_ports(1)
        settings = _SETTINGS | {"hive.metastore.warehouse.dir": str(self.warehouse)}
        given = [part for key, value in settings.items() for part in ("--hiveconf", f"{key}={value}")]
        command: list[str | Path] = [
            ensure_java().executable,
            *_JVM,
            f"-Dderby.system.home={self.data_dir}",
            *(f"-D{key}={value}" for key, value in _SETTINGS.items() if key.startswith("javax.jdo.")),
            "-cp",
            f"{spark_home()}/jars/*",
        ]
        command += [_COMPILER, _WITH_LOCKS, _WITH_LOCKS.stem] if self._has_locks else [_CLASS]
        self._process.launch([*command, "-p", str(port), *given], port, lambda: self._serves(port), timeout_s)
