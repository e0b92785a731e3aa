"""An embedded Apache Kafka broker: one KRaft node on the loopback interface.

For first runs, tests, and benchmarks. The data directory contains::

    server.properties   written at every start; its ports are reused at the next start
    log/                Kafka's data
    broker.log          the broker's own log, appended to
    broker.pid          the running process, if any
"""

from __future__ import annotations

import base64
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from connect.errors import ConfigError, ConnectError, IllegalStateError
from sluice.embedded import class_archive, jars
from sluice.embedded.directories import cache_dir
from sluice.embedded.jar_sets import KAFKA_VERSION
from sluice.embedded.java import Java, ensure_java
from sluice.embedded.ports import LOOPBACK, free_ports, port_is_free, require_free_port
from sluice.embedded.server import EmbeddedServer

DEFAULT_PORT = 9092

# Measured on two cores: ready in 1.9-2.1 s. Serial GC needs 0.5 CPU seconds less than G1 and no extra threads. The second
# compiler stays enabled: without it startup is 0.1 s faster and everything after it slower.
_JVM = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true")

# Measured for 610,000 records of 4.5 kB: 3.3 CPU seconds instead of 5.7, of which the second compiler took 3.0.
_FIRST_COMPILER_ONLY = ("-XX:TieredStopAtLevel=1",)

_PLAIN, _CONTROLLER = "PLAINTEXT", "CONTROLLER"
_LISTENER = re.compile(r"(\w+)://[^:,]+:(\d+)")

_SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "true",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # The lowest allowed session timeout, so that tests of lost members need not wait for the usual six seconds.
    "group.min.session.timeout.ms": "1000",
    # Abort timed out transactions within one second instead of ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # A quarter of the heap by default.
    "log.cleaner.dedupe.buffer.size": "16777216",
    # After SIGKILL the controller rejects a new broker until the former one's session has expired. With a shorter session, a
    # machine busy with Spark would fence a live broker.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    # A single node elects itself.
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.election.backoff.max.ms": "100",
}


class EmbeddedBroker(EmbeddedServer):
    """One Kafka broker with the data directory ``data_dir``.

    ``port`` None means the previous port, or a free one. With ``dies_with_parent`` the broker is killed when this process ends in
    any way (Linux). ``listeners`` are additional listeners: upper-case names with their security protocols, such as
    ``{"SECURE": "SASL_SSL"}``; `bootstrap_of` returns their addresses. ``settings`` are additional server properties, for example
    for key stores and authentication; ``jvm_options`` replace the options for the class archive. A ``short_lived`` broker does
    without the JVM's second compiler, which takes more time in the first minute than it saves.
    """

    name, stem = "the broker", "broker"

    def __init__(
        self,
        data_dir: Path | str,
        *,
        port: int | None = None,
        dies_with_parent: bool = False,
        listeners: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] | None = None,
        short_lived: bool = False,
    ) -> None:
        super().__init__(data_dir, dies_with_parent=dies_with_parent)
        self._asked_port = port
        self._protocols = dict(listeners or {})
        self._settings = dict(settings or {})
        self._jvm_options = jvm_options
        self._short_lived = short_lived

    @property
    def _requested_port(self) -> int | None:
        return self._asked_port

    @property
    def _known_port(self) -> int | None:
        return self._asked_port if self._asked_port is not None else self._ports_before().get(_PLAIN)

    @property
    def bootstrap(self) -> str:
        """The value for ``bootstrap.servers``."""
        return f"{LOOPBACK}:{self.port}"

    def bootstrap_of(self, listener: str) -> str:
        """Returns ``bootstrap.servers`` for an additional listener. The broker must have been started."""
        found = self._ports_before().get(listener)
        if found is None:
            raise IllegalStateError(f"the broker in {self.data_dir} has no listener {listener}")
        return f"{LOOPBACK}:{found}"

    def _serves(self, port: int) -> bool:
        return has_live_broker(port)

    def _launch(self, timeout_s: float) -> None:
        ports = self._choose_ports()
        class_path = jars.class_path(jars.ensure_jars("kafka"))
        java = ensure_java()
        self._write_properties(ports)
        if not (self.data_dir / "log" / "meta.properties").exists():
            self._format(str(java.executable), class_path)
        self._launch_java(java, class_path, ports[_PLAIN], timeout_s)

    def _choose_ports(self) -> dict[str, int]:
        """Returns a port for each listener, by name."""
        instead = "choose another port with --port, or stop the process that uses it"
        before = self._ports_before()
        port = self._requested_port or before.get(_PLAIN)
        if port is not None:
            require_free_port(port, self._label, instead)
        names = [_CONTROLLER, *self._protocols]
        spare = [free for free in free_ports(2 + len(names)) if free != port]
        if port is None:
            port = spare.pop()
        ports = {_PLAIN: port}
        for name in names:
            # Nobody depends on these port numbers: replace one that is in use.
            same = before.get(name) if before.get(_PLAIN) == port else None
            ports[name] = same if same is not None and port_is_free(same) else spare.pop()
        return ports

    def _ports_before(self) -> dict[str, int]:
        """Returns the ports of the previous start by listener name; empty before the first start."""
        try:
            text = (self.data_dir / "server.properties").read_text(encoding="utf-8")
        except OSError:
            return {}
        line = re.search(r"^listeners=(.*)$", text, re.MULTILINE)
        return {name: int(port) for name, port in _LISTENER.findall(line[1])} if line else {}

    def _write_properties(self, ports: Mapping[str, int]) -> None:
        here = LOOPBACK
        protocols = {_PLAIN: "PLAINTEXT", _CONTROLLER: "PLAINTEXT", **self._protocols}
        settings = {
            **_SETTINGS,
            "listeners": ",".join(f"{name}://{here}:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "controller.quorum.voters": f"1@{here}:{ports[_CONTROLLER]}",
            "log.dirs": str(self.data_dir / "log"),
            **self._settings,
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.data_dir / "server.properties").write_text(text, encoding="utf-8")

    def _format(self, java: str, class_path: str) -> None:
        """Formats the storage: gives the directory an identity. The rest is always the same and cached."""
        log_dir = self.data_dir / "log"
        log_dir.mkdir(parents=True, exist_ok=True)
        template = cache_dir() / f"kafka-{KAFKA_VERSION}-bootstrap.checkpoint"
        if not template.exists():
            self._create_template(template, java, class_path)
        shutil.copyfile(template, log_dir / "bootstrap.checkpoint")
        identity = f"version=1\ncluster.id={_kafka_uuid()}\nnode.id=1\ndirectory.id={_kafka_uuid()}\n"
        # Last, and by rename: this file marks the directory as formatted.
        draft = log_dir / "meta.properties.draft"
        draft.write_text(identity, encoding="utf-8")
        draft.replace(log_dir / "meta.properties")

    def _create_template(self, template: Path, java: str, class_path: str) -> None:
        with tempfile.TemporaryDirectory(prefix=".format-", dir=template.parent) as work:
            properties = Path(work) / "server.properties"
            text = (self.data_dir / "server.properties").read_text(encoding="utf-8")
            properties.write_text(f"{text}log.dirs={work}/log\n", encoding="utf-8")
            tool = ("kafka.tools.StorageTool", "format", "-t", _kafka_uuid(), "-c", str(properties))
            quiet = ("-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
            result = subprocess.run(
                [java, *_JVM, *quiet, "-cp", class_path, *tool], capture_output=True, text=True, timeout=120, check=False
            )
            if result.returncode != 0:
                raise ConnectError(f"formatting the broker's storage failed:\n{result.stdout}{result.stderr}")
            (Path(work) / "log" / "bootstrap.checkpoint").replace(template)

    def _launch_java(self, java: Java, class_path: str, port: int, timeout_s: float) -> None:
        options = class_archive.options_for(java) if self._jvm_options is None else self._jvm_options
        if self._short_lived:
            options = [*options, *_FIRST_COMPILER_ONLY]
        logging = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")
        stamp = "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS"
        command: list[str | Path] = [
            java.executable, *_JVM, *options, *logging, stamp, "-cp", class_path,
            "kafka.Kafka", self.data_dir / "server.properties",
        ]  # fmt: skip
        self._process.launch(command, port, lambda: has_live_broker(port), timeout_s)


def create_class_archive(java: Java) -> None:
    """Runs a broker once and archives its loaded classes. Takes about seven seconds. The archive is optional: after a failure
    there is none, and no error is raised."""
    target = class_archive.path_for(java)
    with tempfile.TemporaryDirectory(prefix=".train-", dir=target.parent) as work:
        draft = Path(work) / "classes.jsa"
        broker = EmbeddedBroker(Path(work) / "broker", dies_with_parent=True, jvm_options=[f"-XX:ArchiveClassesAtExit={draft}"])
        try:
            broker.start()
            broker.stop(grace_s=60.0)
        except ConnectError:
            return
        finally:
            broker.kill()
        if draft.is_file():
            draft.replace(target)


def has_live_broker(port: int, host: str = LOOPBACK) -> bool:
    """Returns whether a broker at ``host:port`` answers a Metadata request (version 1, no topics) with a live broker.

    An open port is not enough: the broker opens it before it may serve. Encoded by hand because a client library would retry with
    backoff and is a heavy import for this check.
    """
    request = struct.pack(">hhihi", 3, 1, 0, -1, 0)
    try:
        with socket.create_connection((host, port), 1.0) as connection:
            connection.settimeout(5.0)
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                if not 8 <= size <= 1_000_000:  # not Kafka
                    return False
                _, brokers = struct.unpack_from(">ii", answer.read(size))
    except (OSError, struct.error):
        return False
    return bool(brokers > 0)


def _kafka_uuid() -> str:
    """Returns a random ID in Kafka's format. It never starts with a dash, which Kafka's tools would parse as an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def require_port_number(port: int | None) -> None:
    """Raises `ConfigError` unless ``port`` is None or a port number."""
    if port is not None and not 1 <= port <= 65_535:
        raise ConfigError(f"{port} is not a port; expected 1 to 65535")
