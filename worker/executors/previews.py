"""Previews in an executor: the worker's converters and clients for :mod:`worker.preview.stages`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.plugins import Plugins
from worker.config.client_overrides import client_properties
from worker.config.worker_config import WorkerConfig
from worker.kafka.sampling import sample_topic
from worker.kafka.settings import ClientKind
from worker.model import PreviewRequest
from worker.preview.conversion import Message
from worker.preview.stages import TopicMessages, preview_stages

_MAX_SAMPLE_BYTES = 1024 * 1024


def preview(values: Mapping[str, str | None], worker: WorkerConfig, plugins: Plugins, request: PreviewRequest) -> dict[str, Any]:
    """As :meth:`worker.executor.Executor.preview`."""

    def read_topic(topic: str, limit: int) -> TopicMessages:
        java = client_properties(ClientKind.CONSUMER, worker, values.get("name") or "preview", 0, values)
        sample = sample_topic(java, topic, limit, _MAX_SAMPLE_BYTES)
        found = []
        for message in sample.messages:
            headers = tuple(message.headers() or ())
            found.append((message.offset() or 0, Message(topic, message.key(), message.value(), headers)))
        return TopicMessages(found, sample.skipped)

    of_worker = {**worker.originals, "key.converter": worker.key_converter, "value.converter": worker.value_converter}
    return preview_stages(values, of_worker, plugins, request, read_topic)
