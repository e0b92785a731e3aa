"""Puts a task together: connector class, converters, transformations, clients.

What is made here is not started. Everything that runs a plugin's code is left to the task's own thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from connect.connector import SinkConnector, SourceConnector
from connect.converters.api import Converter, HeaderConverter
from connect.plugins import Plugins
from connect.sink import SinkTask
from connect.source import OwnedTopicSettings, SourceTask, TopicReader
from connect.strict import STRICT
from connect.transforms.chain import build_steps
from worker.config.client_overrides import DEFAULT_BATCH_SIZE, client_properties, with_transactions
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.errors.config import DeadLetterTopic, error_settings
from worker.errors.handler import DeadLetterQueue, ErrorHandler
from worker.errors.resend import RejectedRecords
from worker.executor import WorkerServices
from worker.kafka.dead_letter_producer import DeadLetterProducer
from worker.kafka.first_partition import FirstPartitionReader
from worker.kafka.idempotence import with_idempotence
from worker.kafka.record_producer import RecordProducer
from worker.kafka.settings import ClientKind
from worker.kafka.sink_consumer import RebalanceListener, SinkConsumer
from worker.kafka.topic_creation import NewTopicSpec, topic_creation_rules, uniform_rules
from worker.kafka.topic_creator import TopicCreator
from worker.kafka.transactions import Transactions
from worker.model import ErrorCounts, TaskId
from worker.observability.metrics.task_figures import PluginFacts, TaskPlugins
from worker.observability.metrics.task_meter import TaskMeter
from worker.observability.metrics.windows import WindowSettings
from worker.sink.range_reader import KafkaRangeReader
from worker.sink.runtime import SinkTaskRuntime
from worker.sink.task import SinkWorkerTask
from worker.sink.topic_discovery import parse_subscription
from worker.source.owned_topics import OwnedTopics
from worker.source.runtime import FlushTiming, ProducerOptions, SourceTaskRuntime, TransactionRuntime
from worker.source.task import SourceWorkerTask
from worker.source.transaction_boundary import parse_boundary
from worker.tasks.converters import Converters, converter_settings
from worker.tasks.transformation_chain import TransformationChain
from worker.tasks.worker_task import TaskListener, WorkerTask

if TYPE_CHECKING:
    from worker.observability.tracing.tracing import Tracing

log = logging.getLogger(__name__)

# Java's default is 500. Larger batches cost a sink less per record; the consumer's queue bounds their memory.
_MAX_POLL_RECORDS = 2000
_LAST_EXPORT_S = 1.0
"""How long a collector that does not respond may delay a shutdown."""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task to create. Variables in the configs are resolved."""

    id: TaskId
    connector_class: type[SourceConnector] | type[SinkConnector]
    task_class: type[SourceTask] | type[SinkTask]
    connector_config: Mapping[str, str]
    task_config: Mapping[str, str]
    version: str | None
    paused: bool
    transactional_id: str | None = None
    """Set for a source task with exactly-once."""
    start_id: int = 0
    """The start ID of the task."""


class TaskFactory:
    """Creates the tasks of one worker."""

    def __init__(
        self,
        worker: WorkerConfig,
        plugins: Plugins,
        services: WorkerServices,
        mask: SecretMask,
        tracing: Tracing | None = None,
    ) -> None:
        """``mask`` masks secrets in reports of failed records. Without ``tracing``, tasks are not traced."""
        self._worker = worker
        self._plugins = plugins
        self._services = services
        self._mask = mask
        self._tracing = tracing
        self._descs = {desc.path: desc for desc in plugins.all()}

    def create(self, request: TaskRequest, listener: TaskListener) -> WorkerTask:
        """Returns a task that is not started."""
        timing = self.timing()
        trace = None if self._tracing is None else self._tracing.trace(request.id)
        meter = TaskMeter(WindowSettings(self._worker.metrics_sample_window_ms / 1000, self._worker.metrics_num_samples))
        if issubclass(request.task_class, SourceTask):
            task_class = request.task_class

            def source_runtime(stopping: Callable[[], bool], options: ProducerOptions) -> SourceTaskRuntime:
                runtime = self.create_source_runtime(request, task_class, stopping, options)
                meter.plugins = self._plugins_of(request, runtime.converters, runtime.chain)
                return runtime

            return SourceWorkerTask(
                request.id,
                listener,
                source_runtime,
                self._services,
                timing,
                start_id=request.start_id,
                version=request.version,
                paused=request.paused,
                meter=meter,
                trace=trace,
            )
        sink_class = request.task_class

        def sink_runtime(rebalance: RebalanceListener) -> SinkTaskRuntime:
            runtime = self._create_sink_runtime(request, sink_class, rebalance)
            meter.plugins = self._plugins_of(request, runtime.converters, runtime.chain)
            return runtime

        return SinkWorkerTask(
            request.id,
            listener,
            sink_runtime,
            timing.interval_s,
            timing.timeout_s,
            version=request.version,
            paused=request.paused,
            meter=meter,
            trace=trace,
        )

    def close(self) -> None:
        """Exports the last spans of tasks, which have ended."""
        if self._tracing is not None:
            self._tracing.close(_LAST_EXPORT_S)

    def _plugins_of(self, request: TaskRequest, converters: Converters, chain: TransformationChain) -> TaskPlugins:
        def facts(plugin: type, alias: str = "") -> PluginFacts:
            path = f"{plugin.__module__}:{plugin.__qualname__}"
            desc = self._descs.get(path)
            return PluginFacts(path, "", alias) if desc is None else PluginFacts(desc.class_name, desc.version, alias)

        config = request.connector_config
        predicates = {config.get(f"transforms.{step.alias}.predicate") or "": step.predicate for step in chain.steps}
        return TaskPlugins(
            PluginFacts(facts(request.task_class).class_name, request.version or ""),
            facts(type(converters.key)),
            facts(type(converters.value)),
            facts(type(converters.header)),
            tuple(facts(type(step.transformation), step.alias) for step in chain.steps),
            tuple(facts(type(one), alias) for alias, one in predicates.items() if one is not None),
        )

    def timing(self) -> FlushTiming:
        """Returns when tasks flush their offsets."""
        timeout_s = self._worker.offset_flush_timeout_ms / 1000
        graceful_s = self._worker.task_shutdown_graceful_timeout_ms / 1000
        return FlushTiming(self._worker.offset_flush_interval_ms / 1000, timeout_s, min(timeout_s, graceful_s * 0.8))

    def create_source_runtime(
        self, request: TaskRequest, task_class: type[SourceTask], stopping: Callable[[], bool], options: ProducerOptions
    ) -> SourceTaskRuntime:
        """Creates the components of a source task, on its thread. ``stopping`` says whether the producer must give up."""
        config = request.connector_config
        converters, chain = self.converters(config), self.chain(config)
        topic_creator = None
        rules = topic_creation_rules(config) if self._worker.topic_creation_enable else None
        if rules is not None:
            topic_creator = TopicCreator(self._client(ClientKind.ADMIN, request), rules)
        assert issubclass(request.connector_class, SourceConnector)
        defaults = dict(request.connector_class.producer_defaults)
        if not options.large_batches:
            defaults.pop("batch.size", None)
        configured = self._client(ClientKind.PRODUCER, request, defaults=defaults)
        java, replaceable = configured, False
        if request.transactional_id is not None:
            java = with_transactions(configured, request.transactional_id)
        elif options.idempotent:
            java = with_idempotence(configured)
            replaceable = java != configured
        confirms_each = task_class.wants_commit_record
        has_own_batches = _has_default(configured, defaults, "batch.size")
        producer = RecordProducer(
            java,
            stopping=stopping,
            confirms_each=confirms_each,
            replaceable=replaceable,
            smaller_batch_size=DEFAULT_BATCH_SIZE if has_own_batches else 0,
        )
        task, errors = task_class(), self.error_handler(request, "source")
        rejected = RejectedRecords(task, producer, errors)
        transaction = None
        if request.transactional_id is not None:
            timing = self.timing()
            transactions = Transactions(producer, java, str(request.id), stopping=stopping, last_s=timing.last_timeout_s)
            transaction = TransactionRuntime(transactions, parse_boundary(config, timing.interval_s))

        def open_topic(topic: str, settings: Mapping[str, str], position: int | None) -> TopicReader:
            own = {} if "bootstrap.servers" in settings else self._client(ClientKind.CONSUMER, request)
            return FirstPartitionReader({**own, **settings}, topic, position)

        def complete(topic: str, settings: OwnedTopicSettings) -> OwnedTopicSettings:
            clients = ((ClientKind.CONSUMER, settings.consumer), (ClientKind.PRODUCER, settings.producer))
            consumer, producer = (
                own if "bootstrap.servers" in own else {**self._client(kind, request), **own} for kind, own in clients
            )
            return settings._replace(consumer=consumer, producer=producer)

        return SourceTaskRuntime(
            task,
            request.task_config,
            converters,
            chain,
            producer,
            topic_creator,
            errors,
            rejected,
            open_topic,
            OwnedTopics(complete),
            transaction,
            lingers_for_backlog=_has_default(configured, defaults, "linger.ms"),
        )

    def _create_sink_runtime(
        self, request: TaskRequest, task_class: type[SinkTask], rebalance: RebalanceListener
    ) -> SinkTaskRuntime:
        config = request.connector_config
        converters, chain = self.converters(config, exact=task_class.needs_exact_values), self.chain(config)
        errors = self.error_handler(request, "sink")
        java = self._client(ClientKind.CONSUMER, request)
        subscription = parse_subscription(config, int(java["metadata.max.age.ms"]) / 1000)
        max_records = max(1, int(java.get("max.poll.records", _MAX_POLL_RECORDS)))
        assert issubclass(request.connector_class, SinkConnector)
        defaults = request.connector_class.consumer_defaults
        consumer = SinkConsumer(java, rebalance, defaults, allows_resets=task_class.allows_offset_resets)
        exact = {STRICT: "true", **config} if task_class.needs_exact_values else config
        roles = ("key.converter", self._worker.key_converter), ("value.converter", self._worker.value_converter)
        key, value = (self._plugin_settings(role, of_worker, exact) for role, of_worker in roles)
        header = self._plugin_settings("header.converter", self._worker.header_converter, exact)
        reader = KafkaRangeReader(request.id, java, key, value, header, dict(config))
        return SinkTaskRuntime(
            task_class(), request.task_config, converters, chain, consumer, subscription, max_records, errors, reader
        )

    def _client(
        self,
        kind: ClientKind,
        request: TaskRequest,
        client_id: str | None = None,
        defaults: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, str]:
        of_task = request.id.connector, request.id.task, request.connector_config
        return client_properties(kind, self._worker, *of_task, client_id=client_id, defaults=defaults)

    def error_handler(self, request: TaskRequest, connector_type: str) -> ErrorHandler:
        """Creates the handler of failed records of a ``source`` or ``sink`` task."""
        settings = error_settings(request.connector_config, connector_type)
        counts = ErrorCounts()
        queue = None
        if settings.dead_letters is not None:
            queue = self._dead_letter_queue(request, settings.dead_letters, counts)
        return ErrorHandler(request.id, settings, counts, queue=queue, class_name=self._class_name, mask=self._mask)

    def _dead_letter_queue(self, request: TaskRequest, topic: DeadLetterTopic, counts: ErrorCounts) -> DeadLetterQueue:
        def count_failure() -> None:
            counts.dead_letter_failures += 1

        # One partition, and client IDs, as in Apache's worker.
        spec = NewTopicSpec(1, topic.replication_factor, {})
        admin = self._client(ClientKind.ADMIN, request, "connector-dlq-adminclient-")
        java = self._client(ClientKind.PRODUCER, request, f"connector-dlq-producer-{request.id}")
        producer = DeadLetterProducer(java, topic.name, str(request.id), on_failure=count_failure)
        return DeadLetterQueue(
            producer, TopicCreator(admin, uniform_rules(spec), f"{topic.prefix}topic.*"), topic.context_headers
        )

    def _class_name(self, plugin: object) -> str:
        """Returns the Java name of a plugin's class, or its path."""
        path = f"{type(plugin).__module__}:{type(plugin).__qualname__}"
        desc = self._descs.get(path)
        return path if desc is None else desc.class_name

    def converters(self, config: Mapping[str, str], *, exact: bool = False) -> Converters:
        """Creates the converters: the connector's with its settings, or the worker's with the worker's settings. With ``exact``,
        they refuse to change values silently unless the connector sets ``conversion.strict``."""
        if exact:
            config = {STRICT: "true", **config}
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
        found = converter_settings(key, config, {**self._worker.originals, key: of_worker})
        assert found is not None  # the worker has one for every role
        return found

    def chain(self, config: Mapping[str, str]) -> TransformationChain:
        """Creates the connector's transformations."""
        return TransformationChain(build_steps(config, self._plugins))


def _has_default(configured: Mapping[str, str], defaults: Mapping[str, str], key: str) -> bool:
    """Whether the connector's default of a client setting is in effect."""
    return key in defaults and configured[key] == defaults[key]
