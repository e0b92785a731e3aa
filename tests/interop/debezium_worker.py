"""Debezium's PostgreSQL connector on a standalone worker of Apache Kafka Connect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connect.errors import NotFoundError
from rest.client import ConnectClient
from sluice.embedded import jars
from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.worker_process import WorkerProcess
from tests.interop.apache_worker import APACHE_STANDALONE
from tests.support.jar_sets import DEBEZIUM
from tests.support.waiting import WAIT_S


class DebeziumWorker:
    """A worker with the connector ``name``."""

    def __init__(self, home: Path, broker: EmbeddedBroker, name: str) -> None:
        jars.ensure_jars(DEBEZIUM)
        plugins = home / "plugins"
        plugins.mkdir(parents=True)
        (plugins / "debezium").symlink_to(jars.folder_of(DEBEZIUM))
        self._name = name
        self._worker = WorkerProcess(
            APACHE_STANDALONE,
            home,
            "debezium",
            {
                "bootstrap.servers": broker.bootstrap,
                "key.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "key.converter.schemas.enable": "false",
                "value.converter.schemas.enable": "false",
                "offset.storage.file.filename": str(home / "offsets"),
                "offset.flush.interval.ms": "20",
                "plugin.path": str(plugins),
            },
        )

    @property
    def client(self) -> ConnectClient:
        return self._worker.client

    def start(self) -> None:
        self._worker.start()
        self._worker.wait_until_up()

    def create(self, config: Mapping[str, str], offset: Mapping[str, Any] | None = None) -> None:
        """Creates the connector; with ``offset`` it continues from there."""
        if offset is None:
            self.client.create(self._name, config)
            return
        self.client.create(self._name, config, initial_state="STOPPED")
        self._worker.wait_for(self._is_stopped, WAIT_S, "the connector to stop")
        partition = {"server": config["topic.prefix"]}
        self.client.alter_offsets(self._name, [{"partition": partition, "offset": dict(offset)}])
        self.client.resume(self._name)

    def _is_stopped(self) -> bool:
        try:
            return bool(self.client.status(self._name)["connector"]["state"] == "STOPPED")
        except NotFoundError:
            return False

    def offset(self) -> dict[str, Any] | None:
        """The stored offset."""
        try:
            stored = self.client.offsets(self._name)
        except NotFoundError:
            return None
        return dict(stored[0]["offset"]) if stored else None

    def log_tail(self) -> str:
        return self._worker.log_tail()

    def kill(self) -> None:
        self._worker.end()
