"""Settings of Spark, and the plan of how to launch it. Pure, except that it looks for JARs, Java, and the master of a cluster."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from connectors.spark.config import REQUIRED_SETTINGS, SparkConfig
from connectors.spark.masters import is_local
from connectors.spark.session.cluster_driver import BIND_ADDRESS, HOST, driver_conf
from connectors.spark.session.jars import (
    DELTA_COORDINATES,
    JARS_VARIABLE,
    S3_COORDINATES,
    S3_EXCLUDED,
    find_iceberg_jars,
    find_jars,
    find_s3_jars,
    has_s3a,
)
from connectors.spark.session.java import require_java
from connectors.spark.session.s3_log_store import LOG_STORE

log = logging.getLogger(__name__)

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH = "spark.driver.extraClassPath"
_CLUSTER_LISTING_TASKS = "100"
_LOG_SETTINGS = Path(__file__).parent.with_name("log4j2.properties")

# For a small driver that runs all the time: fast start, little memory, few tasks per shuffle, UTC, exact old dates, and no job
# that measures what staged files already record.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.driver.memory": "1g",
    # No table is created by name alone; an existing folder prevents Spark from creating one in the working directory.
    "spark.sql.warehouse.dir": Path(tempfile.gettempdir()).as_uri(),
    "spark.cleaner.periodicGC.interval": "15min",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.autoBroadcastJoinThreshold": "64m",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Offsets are read from checksum files, one entry per partition.
    "spark.databricks.delta.setTransactionsInCrc.maxAllowed": "10000",
    # The files in checksum files are recomputed by a Spark job after each change of the schema.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    # On a local disk, the defaults rename through Hadoop's FileContext, which forks readlink several times in each commit:
    # nine tenths of a small commit's time.
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    # On S3, Delta's own log store is safe only inside one JVM, and lists the whole log for each commit.
    "spark.delta.logStore.s3a.impl": LOG_STORE,
    "spark.delta.logStore.s3.impl": LOG_STORE,
    "spark.hadoop.delta.enableFastS3AListFrom": "true",
    # Catalogs of Iceberg place tables at s3://.
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    # Commits are repeated by the task, which can be stopped meanwhile.
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
    "spark.hadoop.fs.s3a.retry.limit": "3",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
}
SESSION_SETTINGS = {
    **REQUIRED_SETTINGS,
    # The source of a merge is staged in files that nobody changes; otherwise Delta would copy it once more.
    "spark.databricks.delta.merge.materializeSource": "none",
}


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How to launch Spark's JVM. Contains all properties, so it may contain secrets."""

    master: str
    conf: dict[str, str]
    java: str
    last_jars: list[str] = field(default_factory=list)
    """JARs that come last on the class path, so that a class archive fits with them and without them."""
    executors_timeout_s: float = 60.0

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)


def plan_launch(settings: SparkConfig, *, optional_jars: bool = True) -> LaunchPlan:
    """Without ``optional_jars``, the JARs for S3 and Iceberg are left out. Raises ConfigError when Java or a configured JAR
    is missing, and ConnectError when no master of a cluster answers."""
    java = require_java()
    s3_jars = find_s3_jars(settings.jars, settings.conf) if optional_jars else []
    iceberg_jars = find_iceberg_jars(settings.jars, settings.conf) if optional_jars else []
    conf = {**SETTINGS, **SESSION_SETTINGS, "spark.app.name": "sluice", "spark.master": settings.master}
    own = dict(settings.conf)
    local = is_local(settings.master)
    # After an OutOfMemoryError a JVM may be half dead: it ends, and the host and its clients start another.
    options = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()} -XX:+UseSerialGC -Xss4m -XX:+ExitOnOutOfMemoryError"
    if local:
        conf |= {HOST: "127.0.0.1", BIND_ADDRESS: "127.0.0.1"}
        cores = str(_local_cores(settings.master))
        conf |= {"spark.sql.shuffle.partitions": cores, "spark.default.parallelism": cores}
        # VACUUM lists files in this many tasks: 10,000 by default, which take a minute.
        conf["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = cores
        # With one task per core there is nothing to adapt, and planning stage by stage takes a third of a merge.
        conf["spark.sql.adaptive.enabled"] = "false"
        # The optimizing compiler costs a small Spark more than it saves: 42 instead of 25 CPU seconds for the first million
        # records. For large merges all day, set spark.conf.spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=4.
        options += " -XX:TieredStopAtLevel=1"
    else:
        conf["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = _CLUSTER_LISTING_TASKS
        if HOST not in own:
            conf |= driver_conf(settings.master)
    conf |= _jar_conf(settings, local, s3_jars, iceberg_jars)
    conf |= own
    # The connector's own options come last because the JVM uses the last of two conflicting options.
    conf[JAVA_OPTIONS] = f"{options} {own.get(JAVA_OPTIONS, '')}".strip()
    last_jars = list(map(str, [*s3_jars, *iceberg_jars]))
    return LaunchPlan(settings.master, conf, str(java), last_jars, settings.executors_timeout_ms / 1000)


def _jar_conf(settings: SparkConfig, local: bool, s3_jars: list[Path], iceberg_jars: list[Path]) -> dict[str, str]:
    own = dict(settings.conf)
    if "spark.jars" in own or "spark.jars.packages" in own:
        last = [*s3_jars, *iceberg_jars]
        return {CLASS_PATH: _join(last)} if local and last else {}
    jars = find_jars(settings.jars)
    packages = [] if jars else [DELTA_COORDINATES]
    if settings.s3 is not None and not s3_jars and not has_s3a(jars):
        packages += S3_COORDINATES
    if packages:
        log.warning(
            "JARs are neither configured (spark.jars or %s) nor fetched by sluice setup: Spark downloads %s, which takes a while",
            JARS_VARIABLE,
            ", ".join(packages),
        )
        # All in one place: Delta's classes use those of S3A.
        listed = {
            "spark.jars": ",".join(map(str, [*jars, *s3_jars, *iceberg_jars])),
            "spark.jars.excludes": ",".join(S3_EXCLUDED),
        }
        return {"spark.jars.packages": ",".join(packages)} | {key: value for key, value in listed.items() if value}
    if local:
        # Directly on the class path; spark.jars would first copy them into a temporary folder.
        return {CLASS_PATH: _join([*jars, *s3_jars, *iceberg_jars])}
    return {"spark.jars": ",".join(map(str, [*jars, *(s3_jars if settings.s3 is not None else ()), *iceberg_jars]))}


def _join(jars: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, jars))


def s3_conf(settings: SparkConfig) -> dict[str, str]:
    """Settings of S3A for a connector's sessions in a JVM of ours: connectors that share Spark can use different stores."""
    return {} if settings.s3 is None else dict(settings.s3.options)


def session_conf(settings: SparkConfig) -> dict[str, str]:
    """Settings of a connector's sessions: ours, and the connector's own that may differ between sessions of one Spark."""
    own = {key: value for key, value in settings.conf if key.startswith(("spark.sql.", "spark.databricks."))}
    return {**SESSION_SETTINGS, **own}


def _local_cores(master: str) -> int:
    found = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    if found:
        return int(found.group(1))
    return 1 if master == "local" else os.cpu_count() or 1
