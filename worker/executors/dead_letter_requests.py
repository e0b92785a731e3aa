"""Answers requests about dead letters with the Kafka clients' settings of a connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.plugins import Plugins
from worker.config.client_overrides import client_properties
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.dead_letters.engine import answer
from worker.dead_letters.positions import replay_group
from worker.dead_letters.reader import LetterSource
from worker.executor import ConnectorSpec
from worker.kafka.settings import ClientKind

REQUEST_TIMEOUT_S = 20.0
"""How long one request reads; what remains is the next request's."""


def answer_dead_letter_request(
    worker: WorkerConfig, plugins: Plugins, mask: SecretMask, spec: ConnectorSpec, request: Mapping[str, Any]
) -> dict[str, Any]:
    """As :meth:`worker.executor.Executor.dead_letters`. Raises BadRequestError, ConnectError."""
    group = replay_group(spec.name)
    consumer = client_properties(ClientKind.CONSUMER, worker, spec.name, 0, spec.config, client_id=group)
    producer = client_properties(ClientKind.PRODUCER, worker, spec.name, 0, spec.config, client_id=group)
    originals = {
        **worker.originals,
        "key.converter": worker.key_converter,
        "value.converter": worker.value_converter,
        "header.converter": worker.header_converter,
    }
    source = LetterSource(spec.name, spec.config, originals, plugins, {**consumer, "group.id": group}, producer, mask)
    return answer(source, request, timeout_s=REQUEST_TIMEOUT_S)
