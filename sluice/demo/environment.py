"""The demo's environment: broker, database with a shop, and a worker that runs the connectors of ``configs/``; or without Kafka,
a Spark query in place of broker and worker.

One directory holds everything. Another :class:`DemoEnvironment` for the
same directory controls the same processes, which is how ``sluice down`` works.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from connect.config.properties import read_properties, write_properties
from connect.errors import ConfigError, ConnectError, NotFoundError
from connect.spool.locks import WRITER, SpoolLock
from rest.polling import wait_until
from sluice.demo.compare import READERS, LakeTableReader
from sluice.demo.shops.shop import Shop, Sizes
from sluice.embedded import jar_sets, jars, process
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.ports import LOOPBACK, free_ports
from sluice.embedded.postgres import EmbeddedPostgres
from sluice.embedded.spark_cluster import EmbeddedSparkCluster

SOURCE, UPSERT_SINK, APPEND_SINK = "shop-source", "shop-tables", "shop-audit"
SINK_FILES = {UPSERT_SINK: "spark-sink.properties", APPEND_SINK: "spark-audit-sink.properties"}
CONNECTORS = (SOURCE, *SINK_FILES)
FORMAT_VARIABLE = "SLUICE_DEMO_FORMAT"
SPARK_VARIABLE = "SLUICE_DEMO_SPARK"
KAFKA_VARIABLE = "SLUICE_DEMO_KAFKA"
DATABASE_VARIABLE = "SLUICE_DEMO_DATABASE"
_LOCAL, _CLUSTER = "local", "cluster"
_ON, _OFF = "on", "off"
SINKS = (UPSERT_SINK, APPEND_SINK)
POSTGRES, MARIADB = "postgres", "mariadb"
_SERVERS: Mapping[str, type[EmbeddedPostgres | EmbeddedMariaDB]] = {POSTGRES: EmbeddedPostgres, MARIADB: EmbeddedMariaDB}
_DATABASE_DIR = "database"

_MAX_BATCH_BYTES = 8 << 20
"""The broker accepts batches of this size, which the producer's settings never exceed, however well they compress."""

_MAX_BATCH_ROWS = "20000"
"""Of a query without Kafka: its rows have their schemas, and are in memory several times."""
_SPOOL_STOP_S = 60.0


def demo_table_format() -> str:
    """The format of the demo's tables, from the environment variable SLUICE_DEMO_FORMAT. Raises ConfigError."""
    chosen = os.environ.get(FORMAT_VARIABLE) or "delta"
    if chosen not in READERS:
        raise ConfigError(f"{FORMAT_VARIABLE}={chosen} is not a format of the demo; use {' or '.join(READERS)}")
    return chosen


def demo_uses_cluster() -> bool:
    """Whether the demo's Spark is a standalone cluster, from the environment variable SLUICE_DEMO_SPARK. Raises ConfigError."""
    chosen = os.environ.get(SPARK_VARIABLE) or _LOCAL
    if chosen not in (_LOCAL, _CLUSTER):
        raise ConfigError(f"{SPARK_VARIABLE}={chosen} is not a Spark of the demo; use {_LOCAL} or {_CLUSTER}")
    return chosen == _CLUSTER


def demo_uses_kafka() -> bool:
    """Whether the demo moves data through Kafka, from the environment variable SLUICE_DEMO_KAFKA. Raises ConfigError."""
    chosen = os.environ.get(KAFKA_VARIABLE) or _ON
    if chosen not in (_ON, _OFF):
        raise ConfigError(f"{KAFKA_VARIABLE}={chosen} is not a choice of the demo; use {_ON} or {_OFF}")
    if chosen == _OFF and demo_uses_cluster():
        raise ConfigError(
            f"{KAFKA_VARIABLE}={_OFF} runs Spark in one process, not on a cluster; unset {KAFKA_VARIABLE} or {SPARK_VARIABLE}"
        )
    return chosen == _ON


def demo_database(home: Path | None = None) -> str:
    """The demo's database: that of an earlier start in ``home``, else from the environment variable SLUICE_DEMO_DATABASE. Raises
    ConfigError, also for a variable that contradicts the earlier start."""
    stored = _stored_database(home) if home else None
    chosen = os.environ.get(DATABASE_VARIABLE) or stored or POSTGRES
    if chosen not in _SERVERS:
        raise ConfigError(f"{DATABASE_VARIABLE}={chosen} is not a database of the demo; use {' or '.join(_SERVERS)}")
    if stored not in (None, chosen):
        raise ConfigError(
            f"{DATABASE_VARIABLE}={chosen}, but an earlier start created {home} with {stored}; unset {DATABASE_VARIABLE}, or use "
            "another --data-dir"
        )
    return chosen


def demo_jar_sets(home: Path | None = None) -> list[str]:
    """The names of the sets of JARs that the demo needs, by its environment variables and what is in ``home``. Raises
    ConfigError."""
    return [
        *([jar_sets.KAFKA.name] if demo_uses_kafka() else []),
        jar_sets.SPARK.name,
        *([jar_sets.SPARK_ICEBERG.name] if demo_table_format() == "iceberg" else []),
        *([jar_sets.MARIADB.name] if demo_database(home) == MARIADB else []),
    ]


def _stored_database(home: Path) -> str | None:
    """The kind of the database that an earlier start created in ``home``."""
    return next((kind for kind, server in _SERVERS.items() if server(home / _DATABASE_DIR).has_data), None)


def _create_shop(home: Path, *, dies_with_parent: bool) -> Shop:
    """Returns the shop of an earlier start in ``home``, whatever the variable is now: it may run, and is to be stopped."""
    kind, folder = _stored_database(home) or demo_database(), home / _DATABASE_DIR
    if kind == MARIADB:
        from sluice.demo.shops.mariadb import MariaDbShop

        return MariaDbShop(folder, dies_with_parent=dies_with_parent)
    from sluice.demo.shops.postgres import PostgresShop

    return PostgresShop(folder, dies_with_parent=dies_with_parent)


class DemoEnvironment:
    """The processes with the directory ``home``. With ``dies_with_parent`` they end when this process ends in any way (Linux)."""

    def __init__(self, home: Path, sizes: Sizes, *, dies_with_parent: bool) -> None:
        self.home = home
        self.sizes = sizes
        self._dies_with_parent = dies_with_parent
        self.broker = EmbeddedBroker(
            home / "broker",
            dies_with_parent=dies_with_parent,
            short_lived=dies_with_parent,
            settings={"message.max.bytes": str(_MAX_BATCH_BYTES)},
        )
        self.shop = _create_shop(home, dies_with_parent=dies_with_parent)
        self.spark = EmbeddedSparkCluster(home / "spark", dies_with_parent=dies_with_parent)
        self.uses_kafka = demo_uses_kafka()
        self.uses_cluster = demo_uses_cluster()
        self.spool = home / "spool"
        self.query_progress = home / "progress.json"
        self.lake = home / "lake"
        self.table_format = demo_table_format()
        self.worker_log = home / "worker.log"
        self._worker = process.PidFile(home / "worker.pid")
        self._properties = home / "configs"

    @property
    def rest_url(self) -> str:
        """URL of the running worker's REST API. Raises NotFoundError when no worker runs here."""
        server = self._worker.read()
        if server is None:
            raise NotFoundError(f"no worker runs from {self.home}")
        return f"http://{LOOPBACK}:{server.port}"

    @property
    def worker_running(self) -> bool:
        return self._worker.read() is not None

    @property
    def running(self) -> bool:
        """Whether any of the processes runs."""
        return self.worker_running or any(server.running for server in (self.broker, self.shop.server, self.spark))

    def start_database(self) -> None:
        """Starts the database and creates the shop, unless it exists. May run on another thread than the broker's start."""
        self.shop.start(self.sizes)

    def start_worker(self) -> None:
        """Starts ``connect-standalone`` with the sinks in ``configs/`` and this environment's addresses. Does not wait.

        Needs the broker and Spark's master, but no database: Spark starts while the database is filled.
        """
        port = free_ports(1)[0]
        files = [self._write_worker(port), *(self._write_connector(name) for name in SINKS)]
        self._spawn(["sluice.run.standalone", *files], port)

    def start_query(self) -> None:
        """Starts a Spark query in place of broker and worker, which reads the source through a spool. Does not wait. Needs the
        database."""
        source = self._write_connector(SOURCE, {"spool.location": str(self.spool), "maxRowsPerTrigger": _MAX_BATCH_ROWS})
        options = [f"--checkpoint={self.home / 'checkpoint'}", f"--progress={self.query_progress}"]
        self._spawn(["connectors.spark.datasource", *options, source, *map(self._write_connector, SINKS)], 0)

    def _spawn(self, module: list[str | Path], port: int) -> None:
        """Starts a Python module that starts Spark."""
        spark_jars = jars.folder_of(jars.jar_set("spark"))
        jars.ensure_jars("spark")
        if self.table_format == "iceberg":
            jars.ensure_jars("spark-iceberg")
        with process.interrupts_deferred():
            child = process.spawn(
                [sys.executable, "-m", *module],
                log=self.worker_log,
                cwd=self.home,
                environment={**os.environ, "SLUICE_SPARK_JARS": str(spark_jars)},
                death_signal=signal.SIGTERM if self._dies_with_parent else None,
            )
            self._worker.write(child.pid, port)

    def source_config(self) -> dict[str, str]:
        """Returns the source's configuration. Contains the database's password."""
        return dict(read_properties(self._write_connector(SOURCE)))

    def _write_worker(self, port: int) -> Path:
        changes = {
            "bootstrap.servers": self.broker.bootstrap,
            "listeners": f"http://{LOOPBACK}:{port}",
            "offset.storage.file.filename": str(self.home / "connect.offsets"),
            "offset.flush.interval.ms": "1000",
            # The schema in every JSON record repeats and compresses to almost nothing if a batch holds many records: see
            # "Throughput" in docs/postgres.md.
            "producer.compression.type": "zstd",
            "producer.compression.zstd.level": "1",
            "producer.batch.size": "4000000",
            "producer.max.request.size": str(_MAX_BATCH_BYTES),
            "producer.linger.ms": "5",
            # One megabyte of a fetch would be a hundred in memory.
            "consumer.max.partition.fetch.bytes": "262144",
            # A Spark commit in progress may take longer than Apache's five seconds.
            "task.shutdown.graceful.timeout.ms": "30000",
        }
        return self._write("connect-standalone.properties", changes)

    def _write_connector(self, name: str, more: Mapping[str, str] = MappingProxyType({})) -> Path:
        if name == SOURCE:
            changes = self.shop.source_settings(uses_kafka=self.uses_kafka)
            return self._write(self.shop.source_file, {"name": name, **changes, **more})
        changes = {"table.location": str(self.lake), "table.format": self.table_format}
        if self.uses_cluster:
            changes |= self.spark.connector_settings()
        return self._write(SINK_FILES[name], {"name": name, **changes, **more})

    def _write(self, template: str, changes: Mapping[str, str]) -> Path:
        """Writes a copy of a file in ``configs/`` with some values changed. Only its owner can read it: it may contain a
        password."""
        properties = {**read_properties(configs_dir() / template), **changes}
        self._properties.mkdir(parents=True, exist_ok=True)
        path = self._properties / template
        path.touch(mode=0o600)
        path.write_text(write_properties(properties), encoding="utf-8")
        return path

    def read_table(self, table: str) -> LakeTableReader:
        """Opens the newest version of a lake table."""
        return READERS[self.table_format](self.lake / table)

    def check_worker(self) -> None:
        """Raises ConnectError with the end of the log when the worker or the query has ended."""
        if not self.worker_running:
            name = "worker" if self.uses_kafka else "Spark query"
            raise ConnectError(f"the {name} ended:\n{process.log_tail(self.worker_log)}\nThe full log is {self.worker_log}")

    def stop(self) -> None:
        """Stops the worker or the query, then database, Spark's cluster, and broker. Returns once they have ended."""
        if server := self._worker.read():
            process.end(server, first=signal.SIGTERM, grace_s=30, kill_tree=True)
        self._worker.path.unlink(missing_ok=True)
        if self.spool.exists():
            # The process of the connector ends soon after its query.
            wait_until(SpoolLock(self.spool, WRITER).is_free, _SPOOL_STOP_S, 0.05)
        with ThreadPoolExecutor(2, "demo-stop") as pool:
            stopped = [pool.submit(server.stop) for server in (self.shop.server, self.spark)]
            self.broker.stop()
        for done in stopped:
            done.result()


def configs_dir() -> Path:
    """Returns the directory of ready-to-run configuration files: of the checkout, else of the distribution."""
    for folder in (Path(__file__).parents[2] / "configs", Path(__file__).parents[1] / "configs"):
        if (folder / "connect-standalone.properties").exists():
            return folder
    raise NotFoundError("the directory configs/ is missing; reinstall sluice-connect")


def new_home(base: Path) -> Path:
    """Creates a directory for one run of the demo below ``base``."""
    home = base / f"demo-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    home.mkdir(parents=True)
    return home
