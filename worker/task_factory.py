"""Puts a task together: connector class, converters, transformations, clients.

What is made here is not started. Everything that runs a plugin's code is left to the task's own thread. Executors (processes
for tasks) will be another maker of the same :class:`~worker.task.WorkerTask`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect.connector import SinkConnector, SourceConnector
from connect.converters.api import Converter, HeaderConverter
from connect.errors import ConfigError
from connect.plugins import Plugins
from connect.sink import SinkTask
from connect.source import SourceTask
from connect.strict import strict_settings
from connect.transforms.chain import build_steps
from worker.chain import TransformChain
from worker.client_overrides import client_properties
from worker.config import WorkerConfig
from worker.herder import TaskId
from worker.kafka.record_producer import RecordProducer
from worker.kafka.settings import ClientKind
from worker.kafka.sink_consumer import RebalanceListener, SinkConsumer
from worker.kafka.topics import TopicCreator
from worker.offsets.store import OffsetStore
from worker.sink_loop import SinkParts, Subscription
from worker.sink_task import SinkWorkerTask
from worker.source_batches import Converters
from worker.source_task import FlushTiming, SourceParts, SourceWorkerTask
from worker.task import TaskListener, WorkerTask
from worker.topic_creation import topic_creation_rules

log = logging.getLogger(__name__)

# Java's default is 500. Larger batches cost a sink less a record; what they hold is bounded by the consumer's queue.
_MAX_POLL_RECORDS = 2000


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """One task to be made. Configurations have their variables resolved."""

    id: TaskId
    connector_class: type[SourceConnector] | type[SinkConnector]
    task_class: type[SourceTask] | type[SinkTask]
    connector_config: Mapping[str, str]
    task_config: Mapping[str, str]
    version: str | None
    paused: bool


class TaskFactory:
    """Makes the tasks of one worker."""

    def __init__(self, worker: WorkerConfig, plugins: Plugins, store: OffsetStore) -> None:
        self._worker = worker
        self._plugins = plugins
        self._store = store

    def create(self, request: TaskRequest, listener: TaskListener) -> WorkerTask:
        """A task that is not started."""
        interval_s = self._worker.offset_flush_interval_ms / 1000
        timeout_s = self._worker.offset_flush_timeout_ms / 1000
        graceful_s = self._worker.task_shutdown_graceful_timeout_ms / 1000
        if issubclass(request.task_class, SourceTask):
            task_class = request.task_class

            def source_parts(stopping: Callable[[], bool]) -> SourceParts:
                return self._source_parts(request, task_class, stopping)

            return SourceWorkerTask(
                request.id,
                listener,
                source_parts,
                self._store,
                FlushTiming(interval_s, timeout_s, min(timeout_s, graceful_s * 0.8)),
                version=request.version,
                paused=request.paused,
            )
        sink_class = request.task_class

        def sink_parts(rebalance: RebalanceListener) -> SinkParts:
            return self._sink_parts(request, sink_class, rebalance)

        return SinkWorkerTask(
            request.id, listener, sink_parts, interval_s, timeout_s, version=request.version, paused=request.paused
        )

    def _source_parts(self, request: TaskRequest, task_class: type[SourceTask], stopping: Callable[[], bool]) -> SourceParts:
        config = request.connector_config
        converters, chain = self.converters(config), self.chain(config)
        topics = None
        rules = topic_creation_rules(config) if self._worker.topic_creation_enable else None
        if rules is not None:
            topics = TopicCreator(self._client(ClientKind.ADMIN, request), rules)
        producer = RecordProducer(
            self._client(ClientKind.PRODUCER, request), stopping=stopping, confirms_each=task_class.wants_commit_record
        )
        return SourceParts(task_class(), request.task_config, converters, chain, producer, topics)

    def _sink_parts(self, request: TaskRequest, task_class: type[SinkTask], rebalance: RebalanceListener) -> SinkParts:
        config = request.connector_config
        converters, chain = self.converters(config), self.chain(config)
        java = self._client(ClientKind.CONSUMER, request)
        subscription = subscription_of(config, int(java["metadata.max.age.ms"]) / 1000)
        max_records = max(1, int(java.get("max.poll.records", _MAX_POLL_RECORDS)))
        consumer = SinkConsumer(java, rebalance)
        return SinkParts(task_class(), request.task_config, converters, chain, consumer, subscription, max_records)

    def _client(self, kind: ClientKind, request: TaskRequest) -> dict[str, str]:
        return client_properties(kind, self._worker, request.id.connector, request.id.task, request.connector_config)

    def converters(self, config: Mapping[str, str]) -> Converters:
        """The connector's converters, each with its own settings, or else the worker's with the worker's settings."""
        return Converters(
            self._converter("key.converter", self._worker.key_converter, config, is_key=True),
            self._converter("value.converter", self._worker.value_converter, config, is_key=False),
            self._header_converter(config),
        )

    def _converter(self, key: str, of_worker: str, config: Mapping[str, str], *, is_key: bool) -> Converter:
        name, settings = self._plugin_settings(key, of_worker, config)
        converter = self._plugins.new_converter(name)
        converter.configure(settings, is_key)
        return converter

    def _header_converter(self, config: Mapping[str, str]) -> HeaderConverter:
        name, settings = self._plugin_settings("header.converter", self._worker.header_converter, config)
        converter = self._plugins.new_header_converter(name)
        converter.configure(settings)
        return converter

    def _plugin_settings(self, key: str, of_worker: str, config: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        prefix = f"{key}."
        strict = strict_settings(config)
        if config.get(key):
            return config[key], {**{k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}, **strict}
        return of_worker, {**self._worker.with_prefix(prefix), **strict}

    def chain(self, config: Mapping[str, str]) -> TransformChain:
        """The connector's transformations, configured."""
        return TransformChain(build_steps(config, self._plugins))


def subscription_of(config: Mapping[str, str], refresh_s: float) -> Subscription:
    """What a sink's ``topics`` or ``topics.regex`` say. Raises ConfigError."""
    topics = frozenset(part.strip() for part in config.get("topics", "").split(",") if part.strip())
    regex = config.get("topics.regex", "").strip()
    if bool(topics) == bool(regex):
        raise ConfigError("Must configure one of topics or topics.regex", key="topics")
    try:
        return Subscription(topics, re.compile(regex) if regex else None, refresh_s)
    except re.error as e:
        raise ConfigError.invalid("topics.regex", regex, f"not a regular expression: {e}") from e
