"""An embedded Apache Kafka: one KRaft node on the loopback interface, from its own jars.

For a first run, tests and benchmarks. The data folder holds everything, its layout being::

    server.properties   written at every start; holds the ports, so that a restart keeps them
    log/                Kafka's data
    broker.log          the broker's own log, appended to
    broker.pid          the running process, if there is one
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
from sluice.embedded import class_archive, jars, locations
from sluice.embedded.jarsets import KAFKA_VERSION
from sluice.embedded.java import Java, ensure_java
from sluice.embedded.server import EmbeddedServer

DEFAULT_PORT = 9092

# Measured on two cores: ready in 1.9-2.1 s. Serial needs 0.5 CPU seconds less than G1 until then and no extra threads. The
# second compiler stays on: without it the start is 0.1 s faster and everything after slower.
_JVM = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true")

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
    # The lowest that is allowed to a group member, so that tests of lost members need not wait for the usual six seconds.
    "group.min.session.timeout.ms": "1000",
    # Transactions that ran out are aborted within a second, not within ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # A quarter of the heap by default.
    "log.cleaner.dedupe.buffer.size": "16777216",
    # After SIGKILL the controller takes the former broker for alive this long and admits its successor no sooner; shorter, and
    # a machine busy with Spark would fence a living broker.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    # One node elects itself; nobody else will answer.
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.election.backoff.max.ms": "100",
}


class EmbeddedBroker(EmbeddedServer):
    """One Kafka broker over ``data_dir``.

    ``port`` is kept across restarts of the folder; None means the port used before, or a free one. With
    ``dies_with_parent`` the broker is killed when this process ends in whatever way (Linux). ``listeners`` are further ones
    beside the plain one, by their names, in capitals, with the security protocol of each, as ``{"SECURE": "SASL_SSL"}``;
    `bootstrap_of` tells where they are. ``settings`` are further lines for server.properties, as for key stores and logins;
    ``jvm_options`` replace the use of the class archive.
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
    ) -> None:
        super().__init__(data_dir, dies_with_parent=dies_with_parent)
        self._asked_port = port
        self._protocols = dict(listeners or {})
        self._settings = dict(settings or {})
        self._jvm_options = jvm_options

    @property
    def _wanted_port(self) -> int | None:
        return self._asked_port

    @property
    def _known_port(self) -> int | None:
        return self._asked_port if self._asked_port is not None else self._ports_before().get(_PLAIN)

    @property
    def bootstrap(self) -> str:
        """What a client takes as ``bootstrap.servers``."""
        return f"{locations.LOOPBACK}:{self.port}"

    def bootstrap_of(self, listener: str) -> str:
        """The same for one of the further listeners, once the broker was started."""
        found = self._ports_before().get(listener)
        if found is None:
            raise IllegalStateError(f"the broker in {self.data_dir} has no listener {listener}")
        return f"{locations.LOOPBACK}:{found}"

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
        """A port for each listener, by its name."""
        instead = "choose another with --port, or stop what listens there"
        before = self._ports_before()
        port = self._wanted_port or before.get(_PLAIN)
        if port is not None:
            locations.require_free_port(port, self._place, instead)
        names = [_CONTROLLER, *self._protocols]
        spare = [free for free in locations.free_ports(2 + len(names)) if free != port]
        if port is None:
            port = spare.pop()
        ports = {_PLAIN: port}
        for name in names:
            # These are nobody's business by their numbers: if one was taken meanwhile, another will do.
            same = before.get(name) if before.get(_PLAIN) == port else None
            ports[name] = same if same is not None and locations.port_is_free(same) else spare.pop()
        return ports

    def _ports_before(self) -> dict[str, int]:
        """The ports of the start before by the names of their listeners; empty when there was none."""
        try:
            text = (self.data_dir / "server.properties").read_text(encoding="utf-8")
        except OSError:
            return {}
        line = re.search(r"^listeners=(.*)$", text, re.MULTILINE)
        return {name: int(port) for name, port in _LISTENER.findall(line[1])} if line else {}

    def _write_properties(self, ports: Mapping[str, int]) -> None:
        here = locations.LOOPBACK
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
        """Give the folder an identity. The rest of a fresh format is the same every time and kept in the cache."""
        log_dir = self.data_dir / "log"
        log_dir.mkdir(parents=True, exist_ok=True)
        template = locations.cache_dir() / f"kafka-{KAFKA_VERSION}-bootstrap.checkpoint"
        if not template.exists():
            self._make_template(template, java, class_path)
        shutil.copyfile(template, log_dir / "bootstrap.checkpoint")
        identity = f"version=1\ncluster.id={_kafka_uuid()}\nnode.id=1\ndirectory.id={_kafka_uuid()}\n"
        # Last, and by rename: its presence is what says that the folder is formatted.
        draft = log_dir / "meta.properties.draft"
        draft.write_text(identity, encoding="utf-8")
        draft.replace(log_dir / "meta.properties")

    def _make_template(self, template: Path, java: str, class_path: str) -> None:
        with tempfile.TemporaryDirectory(prefix=".format-", dir=template.parent) as work:
            properties = Path(work) / "server.properties"
            text = (self.data_dir / "server.properties").read_text(encoding="utf-8")
            properties.write_text(f"{text}log.dirs={work}/log\n", encoding="utf-8")
            tool = ("kafka.tools.StorageTool", "format", "-t", _kafka_uuid(), "-c", str(properties))
            quiet = ("-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
            answer = subprocess.run(
                [java, *_JVM, *quiet, "-cp", class_path, *tool], capture_output=True, text=True, timeout=120, check=False
            )
            if answer.returncode != 0:
                raise ConnectError(f"formatting the broker's storage failed:\n{answer.stdout}{answer.stderr}")
            (Path(work) / "log" / "bootstrap.checkpoint").replace(template)

    def _launch_java(self, java: Java, class_path: str, port: int, timeout_s: float) -> None:
        options = class_archive.options_for(java) if self._jvm_options is None else self._jvm_options
        logging = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")
        stamp = "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS"
        command: list[str | Path] = [
            java.executable, *_JVM, *options, *logging, stamp, "-cp", class_path,
            "kafka.Kafka", self.data_dir / "server.properties",
        ]  # fmt: skip
        self._process.launch(command, port, lambda: has_live_broker(port), timeout_s)


def has_live_broker(port: int, host: str = locations.LOOPBACK) -> bool:
    """Whether a broker at ``host:port`` answers a Metadata request (version 1, no topics) with a live broker in it.

    A port that is open proves nothing: the broker opens it before it may serve. Written out by hand because a client library
    would retry with back-off, and is a heavy import for a command that only asks this.
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
    """A random id as Kafka writes them, never one that starts with a dash (its tools would take it for an option)."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def require_port_number(port: int | None) -> None:
    """Raise `ConfigError` unless ``port`` is None or a port number."""
    if port is not None and not 1 <= port <= 65_535:
        raise ConfigError(f"{port} is no port; expected 1 to 65535")
