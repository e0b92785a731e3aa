"""One Spark per process, shared by its connectors.

The first lease starts Spark on its own thread, so that the worker's REST API is available meanwhile; some time after the last
lease is released, Spark stops. Users of a session call only DataFrames and SQL, so that the same code runs on Spark Connect.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connect.errors import ConfigError, ConnectError
from connectors.spark.config import SparkConfig
from connectors.spark.plan.sql import DELETE_FLAG, merge_statement, table_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

DELTA_COORDINATES = "io.delta:delta-spark_4.0_2.13:4.4.0"
JARS_VARIABLE = "SLUICE_SPARK_JARS"
MINIMUM_JAVA = 17
_WARM_UP_STOP_S = 10.0
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

# For a small driver that runs all the time: fast start, little memory, few tasks per shuffle, UTC, exact old dates, and no job
# that measures what staged files already record.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.driver.memory": "1g",
    # No table is created by name alone; an existing folder prevents Spark from creating one in the working directory.
    "spark.sql.warehouse.dir": Path(tempfile.gettempdir()).as_uri(),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
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
}
SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The source of a merge is staged in files that nobody changes; otherwise Delta would copy it once more.
    "spark.databricks.delta.merge.materializeSource": "none",
}


class Lease:
    """A task's use of Spark. ``session`` waits until Spark runs; ``release`` may be called twice."""

    def __init__(self, runtime: _Runtime, settings: SparkConfig) -> None:
        self._runtime = runtime
        self._settings = settings
        self._session: SparkSession | None = None
        self._released = False

    def session(self) -> SparkSession:
        """Returns the task's own session on the shared Spark. Raises the error that prevented the start."""
        if self._session is None:
            session = self._runtime.started.result()
            self._session = session if self._settings.remote else session.newSession()
            for key, value in (*SESSION_SETTINGS.items(), *_session_conf(self._settings)):
                with contextlib.suppress(Exception):  # a setting that only the server's operator may change
                    self._session.conf.set(key, value)
        return self._session

    def release(self) -> None:
        if not self._released:
            self._released = True
            _release(self._runtime, self._settings.linger_ms)


class _Runtime:
    """The Spark of the process, starting or running."""

    def __init__(self, settings: SparkConfig) -> None:
        self.settings = settings
        self.started: Future[SparkSession] = Future()
        self.leases = 0
        self.linger: threading.Timer | None = None
        self._warm_up_thread: threading.Thread | None = None
        self.thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self.thread.start()

    def _start(self) -> None:
        try:
            self.started.set_result(_connect(self.settings) if self.settings.remote else _launch(self.settings))
        except BaseException as e:
            self.started.set_exception(e)

    def warm_up(self) -> None:
        """Runs a first merge in the background, once; only if Spark runs in this process."""
        if self._warm_up_thread is None and self.settings.master.startswith("local") and not self.settings.remote:
            self._warm_up_thread = threading.Thread(target=self._run_warm_up, name="spark-warm-up", daemon=True)
            self._warm_up_thread.start()

    def _run_warm_up(self) -> None:
        try:
            session = self.started.result().newSession()
        except Exception:
            return  # callers of Lease.session get the error
        warm_up_merge(session)

    def stop(self) -> None:
        """Stops Spark and waits until its JVM has exited."""
        self.thread.join()
        if self._warm_up_thread is not None:
            self._warm_up_thread.join(_WARM_UP_STOP_S)
        if self.started.exception() is None:
            _shut_down(self.started.result(), local=not self.settings.remote)


_lock = threading.Lock()
_runtime: _Runtime | None = None


def lease(settings: SparkConfig, *, merges: bool = False) -> Lease:
    """Requests Spark; returns immediately. ``merges`` warms it up for merges.

    Raises ConfigError when this process already runs Spark at another address."""
    global _runtime
    with _lock:
        if _runtime is not None and _runtime.started.done() and _runtime.started.exception() is not None and not _runtime.leases:
            _runtime = None
        if _runtime is None:
            _runtime = _Runtime(settings)
        running = _runtime.settings
        if (running.master, running.remote) != (settings.master, settings.remote):
            raise ConfigError.invalid(
                "spark.remote" if settings.remote else "spark.master",
                settings.remote or settings.master,
                f"this worker process already runs Spark at {running.remote or running.master}, and a process has only one; "
                "use the same address for all Spark connectors, or run this one on a separate worker",
            )
        if _runtime.linger is not None:
            _runtime.linger.cancel()
            _runtime.linger = None
        _runtime.leases += 1
        if merges:
            _runtime.warm_up()
        return Lease(_runtime, settings)


def _release(runtime: _Runtime, linger_ms: int) -> None:
    with _lock:
        runtime.leases -= 1
        if runtime.leases or runtime is not _runtime:
            return
        runtime.linger = threading.Timer(linger_ms / 1000, _stop_if_idle, (runtime,))
        runtime.linger.name = "spark-linger"
        runtime.linger.daemon = True
        runtime.linger.start()


def _stop_if_idle(runtime: _Runtime) -> None:
    global _runtime
    with _lock:
        if runtime is not _runtime or runtime.leases:
            return
        # Holding the lock: a new lease waits, and then gets a Spark that starts, not one that stops.
        runtime.stop()
        _runtime = None


@atexit.register
def stop() -> None:
    """Stops Spark immediately, even if in use. If the process is killed instead, the JVM exits when its standard input closes."""
    global _runtime
    with _lock:
        runtime, _runtime = _runtime, None
        if runtime is not None:
            if runtime.linger is not None:
                runtime.linger.cancel()
            runtime.stop()


def _launch(settings: SparkConfig) -> SparkSession:
    require_java()
    from pyspark.sql import SparkSession

    conf = {**SETTINGS, **SESSION_SETTINGS}
    local = settings.master.startswith("local")
    cores = _local_cores(settings.master) if local else 0
    if local:
        conf |= {"spark.sql.shuffle.partitions": str(cores), "spark.default.parallelism": str(cores)}
        # With one task per core there is nothing to adapt, and planning stage by stage takes a third of a merge.
        conf["spark.sql.adaptive.enabled"] = "false"
    conf |= _jar_conf(settings, local)
    conf |= dict(settings.conf)
    own = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()} -XX:+UseSerialGC -Xss4m"
    if local:
        # The optimizing compiler costs a small Spark more than it saves: 42 instead of 25 CPU seconds for the first million
        # records. For large merges all day, set spark.conf.spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=4.
        own += " -XX:TieredStopAtLevel=1"
    # The connector's own options come last because the JVM uses the last of two conflicting options.
    conf[_JAVA_OPTIONS] = f"{own} {dict(settings.conf).get(_JAVA_OPTIONS, '')}".strip()
    builder = SparkSession.builder.appName("sluice").master(settings.master)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        with _on_loopback():
            return builder.getOrCreate()
    except Exception as e:
        lines = str(e).strip().splitlines() or [type(e).__name__]
        raise ConnectError(
            f"Spark could not be started at {settings.master}: {lines[0]}; see the worker's log for Spark's output"
        ) from e


def _connect(settings: SparkConfig) -> SparkSession:
    try:
        from pyspark.sql.connect.session import SparkSession as Remote
    except ImportError as e:
        what = f"the Spark Connect client is incomplete ({e}); install pyspark[connect]"
        raise ConfigError.invalid("spark.remote", settings.remote, what) from e
    try:
        session: Any = Remote.builder.remote(settings.remote).create()
    except Exception as e:
        raise ConnectError(f"Spark Connect at {settings.remote} does not answer: {str(e).strip().splitlines()[0]}") from e
    return session


def _shut_down(session: SparkSession, *, local: bool) -> None:
    if not local:
        session.stop()
        return
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    with contextlib.suppress(Exception):
        session.stop()
    with contextlib.suppress(Exception):
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is not None:
        # The JVM exits when its standard input closes; its shutdown hooks remove Spark's temporary folders.
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    # So that the next session starts a new JVM.
    SparkContext._gateway = None
    SparkContext._jvm = None


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Makes Spark use the loopback address, without a warning about a host name that it cannot resolve."""
    previous = os.environ.get("SPARK_LOCAL_IP")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        yield
    finally:
        if previous is None:
            os.environ.pop("SPARK_LOCAL_IP", None)


def require_java() -> None:
    """Raises ConfigError when there is no Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).is_file():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH, and JAVA_HOME is not set"
        raise ConfigError(f"The Spark sink needs Java {MINIMUM_JAVA} or later: {where}. Install a JRE, or point JAVA_HOME to one")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    if found is None or int(found.group(1)) < MINIMUM_JAVA:
        version = found.group(1) if found else "an unknown version"
        raise ConfigError(
            f"The Spark sink needs Java {MINIMUM_JAVA} or later, and {java} is {version}; point JAVA_HOME to a newer one"
        )


def find_jars(given: Sequence[str]) -> list[Path]:
    """The JARs of ``spark.jars`` or of the environment variable: files, and all JARs of folders. Raises ConfigError."""
    places = list(given) or [p for p in os.environ.get(JARS_VARIABLE, "").split(os.pathsep) if p]
    jars: list[Path] = []
    for place in places:
        path = Path(place).expanduser()
        found = sorted(path.glob("*.jar")) if path.is_dir() else [path]
        if not found or not all(jar.is_file() for jar in found):
            key = "spark.jars" if given else JARS_VARIABLE
            raise ConfigError.invalid(key, place, "Expected a JAR file or a folder with JAR files")
        jars += found
    return jars


def _jar_conf(settings: SparkConfig, local: bool) -> dict[str, str]:
    own = dict(settings.conf)
    if "spark.jars" in own or "spark.jars.packages" in own:
        return {}
    jars = find_jars(settings.jars)
    if not jars:
        log.warning(
            "No JARs of the table format are configured (spark.jars or %s): Spark downloads %s now, which takes a while",
            JARS_VARIABLE,
            DELTA_COORDINATES,
        )
        return {"spark.jars.packages": DELTA_COORDINATES}
    if local:
        # Directly on the class path; spark.jars would first copy them into a temporary folder.
        return {"spark.driver.extraClassPath": os.pathsep.join(map(str, jars))}
    return {"spark.jars": ",".join(map(str, jars))}


def _session_conf(settings: SparkConfig) -> list[tuple[str, str]]:
    """The connector's settings that may differ between sessions of one Spark."""
    return [(k, v) for k, v in settings.conf if k.startswith(("spark.sql.", "spark.databricks."))]


def _local_cores(master: str) -> int:
    found = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    if found:
        return int(found.group(1))
    return 1 if master == "local" else os.cpu_count() or 1


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_VIEW = "sluice_warm_up"


def warm_up_merge(session: SparkSession) -> None:
    """Merges a few rows like an upsert. Needs its own session, and a Spark that shares our file system. Never raises."""
    folder = tempfile.mkdtemp(prefix="sluice-warm-up-")
    target = table_at(str(Path(folder) / "table"))
    try:
        rows = f"SELECT id, cast(id AS string) AS name, id % 2 = 0 AS `{DELETE_FLAG}` FROM range(4)"
        session.sql(f"CREATE TABLE {target} (id BIGINT, name STRING) USING delta")
        session.sql(f"INSERT INTO {target} SELECT id, name FROM ({rows})")
        staged = str(Path(folder) / "staged")
        session.sql(rows).coalesce(1).write.parquet(staged)
        session.read.parquet(staged).createOrReplaceTempView(_VIEW)
        columns = ["id", "name"]
        session.sql(merge_statement(target, _VIEW, ["id"], columns, columns, (), ("id", 0, 3), deletes=True))
    except Exception as e:
        # A real problem with Spark will occur again in a commit.
        log.debug("MERGE was not warmed up: %s", e)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
