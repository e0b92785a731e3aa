"""A standalone worker with its connectors, which tests start and kill. All its files are in one folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.worker_process import SLUICE_STANDALONE, WorkerProcess

_JSON = "org.apache.kafka.connect.json.JsonConverter"

WITHOUT_SCHEMAS = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
SOURCE_ONLY = {**WITHOUT_SCHEMAS, "task.executors": "0"}
"""Settings of a worker whose topics are read by tests alone. It starts twice as fast without executors."""
SHORT_SESSIONS = {"consumer.session.timeout.ms": "2500", "consumer.heartbeat.interval.ms": "500"}
"""A killed worker does not leave its groups: the sinks of the next one wait for the session timeout."""


def create_worker(
    home: Path,
    broker: EmbeddedBroker,
    connectors: Mapping[str, Mapping[str, str]] | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    name: str = "worker",
) -> WorkerProcess:
    """``connectors``: their configs by name; ``properties``: more of the worker's."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "key.converter": _JSON,
        "value.converter": _JSON,
        "offset.storage.file.filename": str(home / ("offsets" if name == "worker" else f"offsets-{name}")),
        "offset.flush.interval.ms": "200",
        **(properties or {}),
    }
    files = [write_connector(home, one, config) for one, config in (connectors or {}).items()]
    return WorkerProcess(SLUICE_STANDALONE, home, name, settings, connector_files=files)


def write_connector(home: Path, name: str, config: Mapping[str, str]) -> Path:
    """Writes the file of a connector, which a worker reads when it starts."""
    path = home / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in {"name": name, **config}.items()), encoding="utf-8")
    return path
