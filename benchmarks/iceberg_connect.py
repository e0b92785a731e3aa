"""Runs the sink of Apache Iceberg in Apache Kafka Connect, as a peer."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environment import JSON, BenchmarkEnvironment, free_port, rest, write_properties
from benchmarks.iceberg_log import IcebergLog
from benchmarks.measure import Measured
from sluice.embedded.jar_sets import Jar, JarSet
from sluice.embedded.jars import class_path, ensure_jars
from sluice.embedded.java import ensure_java
from tests.interop.connect_jars import CONNECT

# Resolved once from iceberg-kafka-connect and iceberg-parquet. Hadoop's client is in pyspark.
_COORDINATES = """
    org.apache.iceberg:iceberg-kafka-connect:1.11.0
    org.apache.iceberg:iceberg-kafka-connect-events:1.11.0
    org.apache.iceberg:iceberg-api:1.11.0
    org.apache.iceberg:iceberg-bundled-guava:1.11.0
    org.apache.iceberg:iceberg-common:1.11.0
    org.apache.iceberg:iceberg-core:1.11.0
    org.apache.iceberg:iceberg-data:1.11.0
    org.apache.iceberg:iceberg-orc:1.11.0
    org.apache.iceberg:iceberg-parquet:1.11.0
    com.fasterxml.jackson.core:jackson-annotations:2.21
    com.fasterxml.jackson.core:jackson-core:2.21.3
    com.fasterxml.jackson.core:jackson-databind:2.21.3
    com.github.ben-manes.caffeine:caffeine:2.9.3
    com.github.luben:zstd-jni:1.5.7-3
    commons-pool:commons-pool:1.6
    io.airlift:aircompressor:2.0.3
    javax.annotation:javax.annotation-api:1.3.2
    org.apache.avro:avro:1.12.1
    org.apache.httpcomponents.client5:httpclient5:5.6.1
    org.apache.httpcomponents.core5:httpcore5-h2:5.4
    org.apache.httpcomponents.core5:httpcore5:5.4
    org.apache.orc:orc-core:1.9.8
    org.apache.parquet:parquet-avro:1.17.1
    org.apache.parquet:parquet-column:1.17.1
    org.apache.parquet:parquet-common:1.17.1
    org.apache.parquet:parquet-encoding:1.17.1
    org.apache.parquet:parquet-format-structures:1.17.1
    org.apache.parquet:parquet-hadoop:1.17.1
    org.apache.parquet:parquet-jackson:1.17.1
    org.apache.parquet:parquet-variant:1.17.1
    org.locationtech.jts:jts-core:1.20.0
    org.roaringbitmap:RoaringBitmap:1.6.14
    org.threeten:threeten-extra:1.7.1
    org.xerial.snappy:snappy-java:1.1.10.7
"""
_SINK = JarSet(
    "iceberg-connect",
    "Apache Iceberg's sink for Kafka Connect",
    tuple(Jar(*line.split(":")) for line in _COORDINATES.split()),
)
_WORKER = "org.apache.kafka.connect.cli.ConnectStandalone"
_STATUS = "/connectors/iceberg-connect/status"
# As Apache's start script sets it.
_JVM = ("-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")


@dataclass(frozen=True, slots=True)
class IcebergConnect:
    """A running worker and the table that its sink writes."""

    process: Measured
    port: int
    log: IcebergLog

    def wait_for_rows(self, rows: int, timeout_s: float) -> None:
        """Waits until the table has the rows. Raises RuntimeError when the sink fails."""
        self.process.wait_until(lambda: self.log.read().rows >= rows or self._has_failed(), timeout_s, 0.2)
        if self._has_failed():
            raise RuntimeError(f"Iceberg's sink failed:\n{rest(self.port, _STATUS)}")

    def _has_failed(self) -> bool:
        return any(task["state"] == "FAILED" for task in (rest(self.port, _STATUS) or {}).get("tasks", ()))


@contextlib.contextmanager
def iceberg_connect(here: BenchmarkEnvironment, topic: str, commit_ms: int) -> Iterator[IcebergConnect]:
    """Appends the rows of a topic's insert events to an Iceberg table."""
    home = here.home / "iceberg-connect"
    plugin = home / "plugins" / "iceberg"
    plugin.mkdir(parents=True)
    for jar in [*ensure_jars(_SINK), *_hadoop_jars()]:
        (plugin / jar.name).symlink_to(jar)
    here.create_topic("control-iceberg")
    port = free_port()
    worker = {
        "bootstrap.servers": here.broker.bootstrap,
        "plugin.path": str(plugin.parent),
        "plugin.discovery": "service_load",
        "key.converter": JSON,
        "value.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": str(home / "offsets"),
        "listeners": f"http://127.0.0.1:{port}",
    }
    sink = {
        "name": "iceberg-connect",
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "consumer.override.auto.offset.reset": "earliest",
        # Its DebeziumTransform would do more than what the events need.
        "transforms": "row",
        "transforms.row.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.row.field": "after",
        "iceberg.tables": "db.changes",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog": "local",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": f"file://{home / 'warehouse'}",
        "iceberg.control.topic": "control-iceberg",
        "iceberg.control.commit.interval-ms": str(commit_ms),
        "iceberg.control.commit.timeout-ms": "30000",
        "iceberg.kafka.bootstrap.servers": here.broker.bootstrap,
    }
    files = [write_properties(home / "worker.properties", worker), write_properties(home / "sink.properties", sink)]
    command = [str(ensure_java().executable), *_JVM, "-cp", class_path(ensure_jars(CONNECT)), _WORKER, *files]
    with Measured(command, home / "worker.log") as process:
        yield IcebergConnect(process, port, IcebergLog(home / "warehouse" / "db" / "changes"))


def _hadoop_jars() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return sorted((Path(spec.origin).parent / "jars").glob("hadoop-client-*.jar"))
