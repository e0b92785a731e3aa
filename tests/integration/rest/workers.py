"""Workers of both modes inside the test's own process, one for each set of settings that recordings ask for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer

from connect.errors import ConnectError
from rest.forwarding.leader_client import RestLeaderClient
from rest.forwarding.worker_client import WorkerClient
from rest.rest_server import RestServer
from tests.integration.rest.replay import Target
from worker.config.worker_config import WorkerConfig
from worker.distributed.bootstrap import assemble
from worker.distributed.herder import DistributedHerder
from worker.standalone.herder import StandaloneHerder

JSON = "org.apache.kafka.connect.json.JsonConverter"
STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Running:
    """A worker that answers."""

    server: RestServer
    herder: StandaloneHerder | DistributedHerder
    target: Target

    def close(self) -> None:
        self.server.stop()
        self.herder.close(STOP_S)


class Workers:
    """Owns the workers: :meth:`get` starts one at its first use, :meth:`close` stops all."""

    def __init__(self, bootstrap: str, new_folder: Callable[[], Path]) -> None:
        self._bootstrap = bootstrap
        self._new_folder = new_folder
        self._running: dict[str, Running] = {}
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def get(self, mode: str, extra: Mapping[str, str]) -> Running:
        key = json.dumps([mode, extra])
        if key not in self._running:
            start = self._standalone if mode == "standalone" else self._distributed
            self._running[key] = start(
                {
                    "bootstrap.servers": self._bootstrap,
                    "key.converter": JSON,
                    "value.converter": JSON,
                    "offset.flush.interval.ms": "100",
                    "listeners": "http://127.0.0.1:0",
                    "task.executors": "0",
                    **extra,
                }
            )
        return self._running[key]

    def close(self) -> None:
        for running in self._running.values():
            running.close()
        self._producer.close()

    def _standalone(self, props: dict[str, str]) -> Running:
        config = WorkerConfig.standalone({**props, "offset.storage.file.filename": str(self._new_folder() / "offsets")})
        server = RestServer.from_config(config)
        herder = StandaloneHerder(config, worker_id=server.worker_id)
        herder.start()
        server.start(herder)
        herder.started()
        return Running(server, herder, self._target(server))

    def _distributed(self, props: dict[str, str]) -> Running:
        group = f"rest-{uuid4().hex[:8]}"
        topics: dict[str, Any] = {f"{what}.storage.topic": f"{group}-{what}" for what in ("config", "offset", "status")}
        factors = {f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")}
        own = {"group.id": group, "offset.storage.partitions": "1", "status.storage.partitions": "1"}
        config = WorkerConfig.for_cluster({**props, **own, **topics, **factors})
        server = RestServer.from_config(config)
        leader_client = RestLeaderClient(WorkerClient.from_config(config))
        parts = assemble(config, worker_id=server.worker_id, url=server.url, leader_client=leader_client, on_fatal=_fail)
        herder = DistributedHerder(parts)
        server.start(herder)
        herder.start()
        target = self._target(server)
        target.wait_until_healthy()
        return Running(server, herder, target)

    def _target(self, server: RestServer) -> Target:
        return Target("127.0.0.1", server.ports[0], self._produce)

    def _produce(self, topic: str, values: list[str]) -> None:
        for value in values:
            self._producer.produce(topic, value.encode())
        self._producer.flush()


def _fail(error: ConnectError) -> None:
    raise error
