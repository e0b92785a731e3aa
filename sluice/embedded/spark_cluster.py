"""An embedded Spark standalone cluster: a master and its workers, each a JVM from PySpark's own JARs, on the loopback interface.

For first runs, tests, and benchmarks. Executors are child processes of a worker, which end with it. The data directory contains::

    secret              what everybody on the cluster authenticates with, readable only by the owner
    master/             the master's log, its ports, and the state with which a restarted master knows its applications
    worker-<n>/         a worker's log, and below work/ a directory per application, with the executors' logs
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from connect.errors import ConfigError
from connect.extras import install_command
from sluice.embedded.java import ensure_java
from sluice.embedded.ports import LOOPBACK, PersistentPort, free_ports
from sluice.embedded.server import EmbeddedServer

_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")
_JVM = ("-Xmx256m", *_SMALL_JVM)
_SCALA = "2.13"
_ANSWER_S = 5.0

WrapCommand = Callable[[Sequence[str | Path]], Sequence[str | Path]]
"""Returns the command that runs another one, for example in a network namespace. It must replace itself with it (exec)."""


def _unchanged(command: Sequence[str | Path]) -> Sequence[str | Path]:
    return command


class SparkDaemon(EmbeddedServer):
    """A JVM of the cluster."""

    # A worker's executors would notice its end, but a few seconds later.
    kill_tree = True
    environment: Mapping[str, str] = {}
    """Variables of the process, in addition to those of this one."""

    def __init__(self, data_dir: Path, *, host: str, properties: Path, wrap: WrapCommand, dies_with_parent: bool) -> None:
        super().__init__(data_dir, dies_with_parent=dies_with_parent)
        self.host = host
        self._properties = properties
        self._wrap = wrap

    def _run(self, java_class: str, port: int, *arguments: str | Path, timeout_s: float) -> None:
        home = spark_home()
        java = ensure_java()
        command: list[str | Path] = [java.executable, *_JVM, "-cp", f"{home}/jars/*", java_class]
        command += ["--host", self.host, "--port", str(port), "--properties-file", self._properties, *arguments]
        variables = {
            **os.environ,
            # What Spark's scripts set, to launch executors.
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(java.home),
            "SPARK_SCALA_VERSION": _SCALA,
            # Of the web interface, which otherwise listens on all interfaces.
            "SPARK_LOCAL_IP": self.host,
            **self.environment,
        }
        program, *rest = self._wrap(command)
        found = shutil.which(str(program))
        if found is None:
            raise ConfigError(f"the program {program} is not installed")
        self._process.launch([found, *rest], port, lambda: self._serves(port), timeout_s, environment=variables)


class SparkMaster(SparkDaemon):
    """The cluster's master. After a kill, the next start has the same port, and knows the applications from before."""

    name, stem = "Spark's master", "master"

    def __init__(self, data_dir: Path, *, host: str, properties: Path, wrap: WrapCommand, dies_with_parent: bool) -> None:
        super().__init__(data_dir, host=host, properties=properties, wrap=wrap, dies_with_parent=dies_with_parent)
        self._persistent_port = PersistentPort(self.data_dir / "port", None)
        self._web_port_file = self.data_dir / "web-port"

    @property
    def _known_port(self) -> int | None:
        return self._persistent_port.known

    @property
    def _requested_port(self) -> int | None:
        return None

    @property
    def url(self) -> str:
        """The value for ``spark.master``."""
        return f"spark://{self.host}:{self.port}"

    def _serves(self, port: int) -> bool:
        return bool(self.describe())

    def describe(self) -> dict[str, Any]:
        """The workers and applications, as the master's web interface shows them; empty when it does not answer."""
        try:
            web_port = int(self._web_port_file.read_text(encoding="utf-8"))
            with contextlib.closing(http.client.HTTPConnection(self.host, web_port, timeout=_ANSWER_S)) as connection:
                connection.request("GET", "/json/")
                described: dict[str, Any] = json.loads(connection.getresponse().read())
        except (OSError, ValueError, http.client.HTTPException):
            return {}
        return described

    def _launch(self, timeout_s: float) -> None:
        port, web_port = self._persistent_port.choose(self._label), free_ports(1)[0]
        self._web_port_file.write_text(str(web_port), encoding="utf-8")
        self._run(_MASTER, port, "--webui-port", str(web_port), timeout_s=timeout_s)


class SparkWorker(SparkDaemon):
    """A worker of the cluster: it starts executors. Each start is another worker for the master, with another port."""

    name, stem = "a Spark worker", "worker"

    def __init__(
        self,
        data_dir: Path,
        master: SparkMaster,
        *,
        cores: int,
        memory: str,
        host: str,
        properties: Path,
        wrap: WrapCommand,
        dies_with_parent: bool,
    ) -> None:
        super().__init__(data_dir, host=host, properties=properties, wrap=wrap, dies_with_parent=dies_with_parent)
        self._master = master
        self._size = ("--cores", str(cores), "--memory", memory)
        self.work_dir = self.data_dir / "work"

    @property
    def _known_port(self) -> int | None:
        return None

    @property
    def _requested_port(self) -> int | None:
        return None

    def _serves(self, port: int) -> bool:
        registered = self._master.describe().get("workers", [])
        return any(worker["port"] == port and worker["state"] == "ALIVE" for worker in registered)

    def _launch(self, timeout_s: float) -> None:
        port, web_port = free_ports(2)
        arguments = ("--webui-port", str(web_port), *self._size, "--work-dir", self.work_dir, self._master.url)
        self._run(_WORKER, port, *arguments, timeout_s=timeout_s)

    def executor_logs(self) -> list[Path]:
        """What its executors have written to their standard error."""
        return sorted(self.work_dir.glob("app-*/*/stderr"))


class EmbeddedSparkCluster:
    """A master and workers with the data directory ``data_dir``. Objects are handles: another one for the same directory controls
    the same processes. Not thread-safe.

    With ``dies_with_parent`` they are killed when this process ends in any way (Linux). ``host`` is the address of all of them,
    and ``wrap`` runs their commands, for example in a network namespace that has the address.
    """

    def __init__(
        self,
        data_dir: Path | str,
        *,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        host: str = LOOPBACK,
        wrap: WrapCommand = _unchanged,
        dies_with_parent: bool = False,
    ) -> None:
        self.data_dir = Path(data_dir).expanduser().absolute()
        self._secret_file = self.data_dir / "secret"
        properties = self._properties = self.data_dir / "spark.properties"
        self.master = SparkMaster(
            self.data_dir / "master", host=host, properties=properties, wrap=wrap, dies_with_parent=dies_with_parent
        )
        self.workers = [
            SparkWorker(
                self.data_dir / f"worker-{number}",
                self.master,
                cores=cores,
                memory=memory,
                host=host,
                properties=properties,
                wrap=wrap,
                dies_with_parent=dies_with_parent,
            )
            for number in range(workers)
        ]

    @property
    def running(self) -> bool:
        """Whether a process of the cluster runs."""
        return any(server.running for server in (self.master, *self.workers))

    def connector_settings(self) -> dict[str, str]:
        """What a connector needs to use the cluster: its address and secret, and that executors are JVMs that start fast."""
        return {
            "spark.master": self.master.url,
            "spark.conf.spark.authenticate": "true",
            "spark.conf.spark.authenticate.secret": self._secret_file.read_text(encoding="utf-8"),
            "spark.conf.spark.executor.extraJavaOptions": " ".join(_SMALL_JVM),
        }

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts what does not run, and returns once all workers are registered. Nothing is left running after an error."""
        self._write_properties()
        try:
            self.master.start(timeout_s)
            with ThreadPoolExecutor(len(self.workers), "spark-workers") as pool:
                for started in [pool.submit(worker.start, timeout_s) for worker in self.workers]:
                    started.result()
        except BaseException:
            self.kill()
            raise

    def _write_properties(self) -> None:
        """The secret, because a master runs the code of everybody who reaches it; and how a restarted master finds its state."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._secret_file.touch(mode=0o600)
        if not self._secret_file.read_text(encoding="utf-8"):
            self._secret_file.write_text(secrets.token_urlsafe(24), encoding="utf-8")
        settings = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": self._secret_file.read_text(encoding="utf-8"),
            "spark.ui.killEnabled": "false",
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(self.data_dir / "master" / "recovery"),
            # Of a worker that does not answer any more; a killed one is noticed at once.
            "spark.worker.timeout": "15",
        }
        self._properties.touch(mode=0o600)
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        self._properties.write_text(text.replace("\\", "\\\\"), encoding="utf-8")

    def stop(self, grace_s: float = 20.0) -> bool:
        """Stops all processes; with SIGKILL after ``grace_s``. Returns, once they have ended, whether one was running."""
        return self._end(lambda server: server.stop(grace_s))

    def kill(self) -> bool:
        """Kills all processes, as in a crash."""
        return self._end(lambda server: server.kill())

    def _end(self, end: Callable[[SparkDaemon], bool]) -> bool:
        servers = [*self.workers, self.master]
        with ThreadPoolExecutor(len(servers), "spark-stop") as pool:
            return any([*pool.map(end, servers)])

    def remove(self) -> None:
        """Kills all processes and deletes the data directory."""
        self.kill()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.data_dir)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def spark_home() -> Path:
    """The directory of PySpark, which has Spark's JARs and scripts."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError(f"pyspark, which has Spark's JARs, is not installed; run: {install_command('spark')}")
    return Path(spec.origin).parent
