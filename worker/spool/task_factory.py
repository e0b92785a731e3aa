"""Creates source tasks that write to a spool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from connect.connector import SourceConnector
from connect.errors import ConfigError
from connect.plugins import Plugins
from connect.source import OwnedTopicSettings, SourceTask, TopicReader
from connect.spool import record_columns
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import WorkerServices
from worker.executors.task_factory import TaskFactory, TaskRequest
from worker.kafka.first_partition import FirstPartitionReader
from worker.source.owned_topics import OwnedTopics
from worker.source.runtime import ProducerOptions, SourceTaskRuntime
from worker.spool.delivery import SpoolDelivery
from worker.spool.output import SpoolOutput
from worker.spool.producer import SpoolProducer
from worker.tasks.worker_task import TaskHandle


class SpoolTaskFactory(TaskFactory):
    """Tasks as in a worker, except for where their records go."""

    def __init__(
        self, worker: WorkerConfig, plugins: Plugins, services: WorkerServices, mask: SecretMask, output: SpoolOutput
    ) -> None:
        super().__init__(worker, plugins, services, mask)
        self._output = output

    def create_source_runtime(
        self, request: TaskRequest, task_class: type[SourceTask], stopping: Callable[[], bool], options: ProducerOptions
    ) -> SourceTaskRuntime:
        assert issubclass(request.connector_class, SourceConnector)
        config = request.connector_config
        producer = SpoolProducer(str(request.id), request.id.task, request.start_id, self._output)

        def create_delivery(handle: TaskHandle, runtime: SourceTaskRuntime) -> SpoolDelivery:
            return SpoolDelivery(handle, runtime, producer, self._output, self.timing())

        return SourceTaskRuntime(
            task_class(),
            request.task_config,
            replace(self.converters(config), splits_schemas=True, columns=record_columns if self._output.keeps_columns else None),
            self.chain(config),
            producer,
            None,
            self.error_handler(request, "source"),
            None,
            _open_topic,
            OwnedTopics(_require_brokers),
            create_delivery=create_delivery,
        )


def _require_brokers(topic: str, settings: OwnedTopicSettings) -> OwnedTopicSettings:
    if not all("bootstrap.servers" in client for client in (settings.consumer, settings.producer)):
        raise ConfigError(
            f"topic {topic} cannot be used: the connector runs without Kafka. Set bootstrap.servers for it (Debezium: "
            "schema.history.internal.kafka.bootstrap.servers), or store elsewhere than in Kafka"
        )
    return settings


def _open_topic(topic: str, settings: Mapping[str, str], position: int | None) -> TopicReader:
    if "bootstrap.servers" not in settings:
        raise ConfigError(
            f"topic {topic} cannot be read: the connector runs without Kafka. Set bootstrap.servers for it (Debezium: "
            "signal.consumer.bootstrap.servers), or use another channel than Kafka"
        )
    return FirstPartitionReader(settings, topic, position)
