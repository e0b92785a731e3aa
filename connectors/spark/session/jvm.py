"""Launches Spark's JVM and creates its Spark context."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from connect.errors import ConfigError, ConnectError
from connectors.spark.errors import APPLICATION_ENDED, APPLICATION_ENDED_ADVICE
from connectors.spark.session import class_archive
from connectors.spark.session.gateway import close_connection_of_thread, connect_gateway
from connectors.spark.session.settings import CLASS_PATH, JAVA_OPTIONS, LaunchPlan

_CLASS = "org.apache.spark.deploy.SparkSubmit"
_SHELL = "pyspark-shell"
_STOP_S = 10.0
_POLL_S = 0.01
# With any of these, only Spark's own scripts know how to launch it.
_SCRIPT_VARIABLES = (
    "HADOOP_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_HOME",
    "SPARK_SUBMIT_OPTS",
    "YARN_CONF_DIR",
)
_SCRIPT_PROPERTIES = ("spark.driver.extraLibraryPath", "spark.driver.defaultJavaOptions")
# As org.apache.spark.launcher.JavaModuleOptions has them.
_MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
)


class SparkJvm:
    """A JVM with a py4j gateway. It ends when its standard input closes, so it never outlives its owner."""

    def __init__(self, plan: LaunchPlan, *, options: tuple[str, ...] | None = None) -> None:
        """Starts the JVM; does not wait for it. ``options`` replace those of the class archive."""
        self._plan = plan
        self._folder = tempfile.mkdtemp(prefix="sluice-spark-")  # mode 0700: the token passes through it
        self._info = Path(self._folder) / "gateway"
        properties = Path(self._folder) / "spark.properties"
        # In a file, because other users can read command lines (promise 9).
        properties.write_text("".join(f"{_escape(key)}={_escape(value)}\n" for key, value in plan.conf.items()), encoding="ascii")
        environment = {**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._info)}
        # Without a warning about a host name that it cannot resolve.
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        environment.setdefault("PYTHONHASHSEED", "0")
        if needs_scripts(os.environ, plan.conf):
            # SPARK_HOME's scripts, else those of PySpark.
            command = [str(_spark_home() / "bin" / "spark-submit"), "--load-spark-defaults", "--properties-file", str(properties)]
            command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", _SHELL))
        else:
            # Without Spark's launcher, which is another JVM, and without a wildcard, which no class archive fits. Without
            # SPARK_HOME, too: Spark would have its Python processes import PySpark from a ZIP file, where each of them compiles
            # it anew, and give a query up whose process has not started within ten seconds.
            environment.pop("SPARK_HOME", None)
            command = [*java_command(plan, options), "--properties-file", str(properties), _SHELL]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        self.gateway: Any = None
        self.context: Any = None
        """Spark's context, once it was created."""
        self.token = ""
        self.port = 0

    def create_context(self) -> None:
        """Waits for the JVM and creates the Spark context and its default session. Raises ConnectError."""
        try:
            self.port, self.token = self._read_address()
            self.gateway = connect_gateway(self.port, self.token)
            jvm = self.gateway.jvm
            context = jvm.JavaSparkContext(jvm.SparkConf())  # the properties of the file are Java's system properties by now
            session = jvm.org.apache.spark.sql.classic.SparkSession(context.sc(), {})
            jvm.org.apache.spark.sql.classic.SparkSession.setDefaultSession(session)
            self.context = context.sc()
        except Exception as e:
            text = str(getattr(e, "java_exception", None) or e).strip()
            first = next(iter(text.splitlines()), type(e).__name__)
            ended = f"; {APPLICATION_ENDED_ADVICE}" if any(sign in text for sign in APPLICATION_ENDED) else ""
            raise ConnectError(
                f"Spark could not be started at {self._plan.master}: {first}{ended}; see the worker's log for Spark's output"
            ) from e
        finally:
            self._remove_files()

    def _read_address(self) -> tuple[int, str]:
        while not self._info.exists():  # Java renames the complete file
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise ConnectError(f"Java ended with exit code {self.process.wait(_POLL_S)}")
        data = self._info.read_bytes()
        port, size = struct.unpack_from(">ii", data)
        return port, data[8 : 8 + size].decode()

    def ping(self) -> bool:
        """Whether the JVM answers. Blocks as long as it hangs."""
        try:
            self.gateway.jvm.java.lang.System.nanoTime()
        except Exception:
            return False
        finally:
            close_connection_of_thread(self.gateway)
        return True

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """Ends the JVM and waits for it. Its shutdown hooks stop Spark and remove Spark's temporary folders."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._remove_files()

    def _remove_files(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def needs_scripts(environment: Mapping[str, str], conf: Mapping[str, str]) -> bool:
    """Whether Spark has to be launched with its own scripts, because its environment is configured."""
    if any(environment.get(name) for name in _SCRIPT_VARIABLES) or any(conf.get(name) for name in _SCRIPT_PROPERTIES):
        return True
    return not conf["spark.master"].startswith(("local", "spark://"))


def java_command(plan: LaunchPlan, options: tuple[str, ...] | None = None) -> list[str]:
    """The command line as Spark's launcher makes it."""
    paths = class_path(plan)
    # The JVM accepts an archive whose class path is the beginning of its own.
    archived = [path for path in paths if path not in plan.last_jars]
    archive = class_archive.options_for(Path(plan.java), archived) if options is None else list(options)
    return [
        plan.java,
        f"-Xmx{plan.conf['spark.driver.memory']}",
        *_MODULE_OPTIONS,
        *archive,
        *shlex.split(plan.conf.get(JAVA_OPTIONS, "")),
        "-cp",
        os.pathsep.join(paths),
        _CLASS,
    ]


def class_path(plan: LaunchPlan) -> list[str]:
    last = set(plan.last_jars)
    own = [path for path in plan.conf.get(CLASS_PATH, "").split(os.pathsep) if path]
    first = [path for path in own if path not in last]
    return [*first, *map(str, sorted((_spark_home() / "jars").glob("*.jar"))), *(path for path in own if path in last)]


def _spark_home() -> Path:
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("The Spark sink needs pyspark, which is not installed")
    return Path(spec.origin).parent


def _escape(text: str) -> str:
    """A key or value of a properties file: anything but letters, digits, and harmless signs as UTF-16 code units."""
    units = struct.iter_unpack(">H", text.encode("utf-16-be"))
    return "".join(chr(u) if u < 128 and (chr(u).isalnum() or chr(u) in "._-/+@%") else f"\\u{u:04x}" for (u,) in units)
