"""One Spark session a process, shared by the connectors in it.

The first lease starts Spark on a thread of its own, so that the worker's REST is up meanwhile; the last one that is released
lets it linger for a while and then stops it. DataFrames and SQL only are used on what is handed out, so that the same code
runs against a Spark Connect server.
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
from connectors.spark.config import SparkSettings
from connectors.spark.tables.merge_warmup import merge_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

DELTA_COORDINATES = "io.delta:delta-spark_4.0_2.13:4.4.0"
JARS_VARIABLE = "SLUICE_SPARK_JARS"
MINIMUM_JAVA = 17
_WARM_UP_STOP_S = 10.0
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

# For a small driver that is always on; reasons in the order of the keys: start time and memory, no 200 tasks a shuffle, UTC,
# exact old dates, no job that measures what staged files already say.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.driver.memory": "1g",
    # No table is ever made by a bare name, and a folder that exists is not created where the worker happens to run.
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
    # What is merged is staged in files that nobody changes; without this Delta copies it once more to be sure.
    "spark.databricks.delta.merge.materializeSource": "none",
}


class Lease:
    """One task's use of Spark. ``session`` waits until Spark runs; ``release`` may be called twice."""

    def __init__(self, runtime: _Runtime, settings: SparkSettings) -> None:
        self._runtime = runtime
        self._settings = settings
        self._session: SparkSession | None = None
        self._released = False

    def session(self) -> SparkSession:
        """A session of the task's own, with settings of its own, over the shared Spark. Raises what kept Spark from starting."""
        if self._session is None:
            session = self._runtime.started.result()
            self._session = session if self._settings.remote else session.newSession()
            for key, value in (*SESSION_SETTINGS.items(), *_session_conf(self._settings)):
                with contextlib.suppress(Exception):  # one that only a server's operator may set
                    self._session.conf.set(key, value)
        return self._session

    def release(self) -> None:
        if not self._released:
            self._released = True
            _release(self._runtime, self._settings.linger_ms)


class _Runtime:
    """The process's Spark, from the moment its start was asked for."""

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self.started: Future[SparkSession] = Future()
        self.leases = 0
        self.linger: threading.Timer | None = None
        self._warming: threading.Thread | None = None
        self.thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self.thread.start()

    def _start(self) -> None:
        try:
            self.started.set_result(_connect(self.settings) if self.settings.remote else _launch(self.settings))
        except BaseException as e:
            self.started.set_exception(e)

    def warm_up(self) -> None:
        """Has the first merge done on the side, once; only where Spark is in this process."""
        if self._warming is None and self.settings.master.startswith("local") and not self.settings.remote:
            self._warming = threading.Thread(target=self._merge_once, name="spark-warm-up", daemon=True)
            self._warming.start()

    def _merge_once(self) -> None:
        try:
            session = self.started.result().newSession()
        except Exception:
            return  # whoever waits for Spark is told
        merge_once(session)

    def stop(self) -> None:
        """Stops Spark and waits until its JVM is gone."""
        self.thread.join()
        if self._warming is not None:
            self._warming.join(_WARM_UP_STOP_S)
        if self.started.exception() is None:
            _shut_down(self.started.result(), local=not self.settings.remote)


_lock = threading.Lock()
_runtime: _Runtime | None = None


def lease(settings: SparkSettings, *, merges: bool = False) -> Lease:
    """Asks for Spark; returns at once. ``merges`` has it prepare for that.

    Raises ConfigError when this process already runs another Spark than is asked for."""
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
                f"this worker process already runs Spark at {running.remote or running.master}, and has one Spark; "
                "give all Spark connectors the same address, or this one a worker of its own",
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
        # Within the lock: who leases now waits, and then gets a Spark that starts, not one that ends.
        runtime.stop()
        _runtime = None


@atexit.register
def stop() -> None:
    """Stops Spark now, whoever uses it. When the process is killed instead, the JVM sees its standard input close, and ends."""
    global _runtime
    with _lock:
        runtime, _runtime = _runtime, None
        if runtime is not None:
            if runtime.linger is not None:
                runtime.linger.cancel()
            runtime.stop()


def _launch(settings: SparkSettings) -> SparkSession:
    require_java()
    from pyspark.sql import SparkSession

    conf = {**SETTINGS, **SESSION_SETTINGS}
    local = settings.master.startswith("local")
    cores = _local_cores(settings.master) if local else 0
    if local:
        conf |= {"spark.sql.shuffle.partitions": str(cores), "spark.default.parallelism": str(cores)}
        # With a task a core there is nothing to adapt, and planning stage by stage costs a merge a third of its time.
        conf["spark.sql.adaptive.enabled"] = "false"
    conf |= _jar_conf(settings, local)
    conf |= dict(settings.conf)
    own = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()} -XX:+UseSerialGC -Xss4m"
    if local:
        # Compiling for the long run costs a small Spark more than it ever gives back: 42 against 25 CPU seconds for the first
        # million records. For large merges all day long spark.conf.spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=4.
        own += " -XX:TieredStopAtLevel=1"
    # The connector's own come last: of two that differ the JVM takes the later.
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
            f"Spark could not be started at {settings.master}: {lines[0]}; its own words are in the worker's log"
        ) from e


def _connect(settings: SparkSettings) -> SparkSession:
    try:
        from pyspark.sql.connect.session import SparkSession as Remote
    except ImportError as e:
        what = f"Spark Connect's client is not complete ({e}); install pyspark[connect]"
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
        # The JVM ends when its standard input does; its shutdown hooks remove Spark's temporary folders.
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    # So that the next session starts a JVM of its own.
    SparkContext._gateway = None
    SparkContext._jvm = None


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Spark takes the loopback address for its own, and says nothing about a host name that it cannot resolve."""
    previous = os.environ.get("SPARK_LOCAL_IP")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        yield
    finally:
        if previous is None:
            os.environ.pop("SPARK_LOCAL_IP", None)


def require_java() -> None:
    """Raises ConfigError that says what to do when there is no Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).is_file():
        where = (
            f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH, and JAVA_HOME is not set"
        )
        raise ConfigError(f"The Spark sink needs Java {MINIMUM_JAVA} or later: {where}. Install a JRE, or point JAVA_HOME to one")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    if found is None or int(found.group(1)) < MINIMUM_JAVA:
        version = found.group(1) if found else "one that tells no version"
        raise ConfigError(
            f"The Spark sink needs Java {MINIMUM_JAVA} or later, and {java} is {version}; point JAVA_HOME to a newer one"
        )


def find_jars(given: Sequence[str]) -> list[Path]:
    """The jars behind ``spark.jars`` or the environment variable: files, and all jars of folders. Raises ConfigError."""
    places = list(given) or [p for p in os.environ.get(JARS_VARIABLE, "").split(os.pathsep) if p]
    jars: list[Path] = []
    for place in places:
        path = Path(place).expanduser()
        found = sorted(path.glob("*.jar")) if path.is_dir() else [path]
        if not found or not all(jar.is_file() for jar in found):
            key = "spark.jars" if given else JARS_VARIABLE
            raise ConfigError.invalid(key, place, "Expected a jar or a folder with jars")
        jars += found
    return jars


def _jar_conf(settings: SparkSettings, local: bool) -> dict[str, str]:
    own = dict(settings.conf)
    if "spark.jars" in own or "spark.jars.packages" in own:
        return {}
    jars = find_jars(settings.jars)
    if not jars:
        log.warning(
            "No jars for the table format are given (spark.jars, or %s): Spark fetches %s now, which takes a while",
            JARS_VARIABLE,
            DELTA_COORDINATES,
        )
        return {"spark.jars.packages": DELTA_COORDINATES}
    if local:
        # On the class path at once; spark.jars would copy them into a temporary folder first.
        return {"spark.driver.extraClassPath": os.pathsep.join(map(str, jars))}
    return {"spark.jars": ",".join(map(str, jars))}


def _session_conf(settings: SparkSettings) -> list[tuple[str, str]]:
    """The connector's own settings that may differ between sessions of one Spark."""
    return [(k, v) for k, v in settings.conf if k.startswith(("spark.sql.", "spark.databricks."))]


def _local_cores(master: str) -> int:
    found = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    if found:
        return int(found.group(1))
    return 1 if master == "local" else os.cpu_count() or 1
