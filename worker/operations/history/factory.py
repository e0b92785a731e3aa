"""Creates a worker's config history: in a topic for a cluster, in memory for a standalone worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.config.extension_keys import HISTORY_TOPIC
from worker.config.worker_config import WorkerConfig
from worker.kafka.settings import client_settings_of
from worker.operations.history.memory import MemoryHistory
from worker.operations.history.topic import HistoryLog, OnRecord, TopicHistory
from worker.operations.history.versions import History

if TYPE_CHECKING:
    from worker.kafka.topic_log import TopicLogSettings


def create_history(config: WorkerConfig) -> History:
    """Creates the history that the worker's properties configure. It is not started."""
    topic = history_topic(config)
    if topic is None:
        return MemoryHistory(config.config_history_size)
    return TopicHistory(topic, config.config_history_size, lambda on_record: _log(config, topic, on_record))


def history_topic(config: WorkerConfig) -> str | None:
    """Returns the name of the topic, or None without one."""
    if config.distributed is None:
        return None
    given = config.originals.get(HISTORY_TOPIC)
    return f"{config.distributed.config_topic.name}-history" if given is None else given.strip() or None


def _log(config: WorkerConfig, topic: str, on_record: OnRecord) -> HistoryLog:
    from worker.kafka.topic_log import TopicLog

    return TopicLog(_log_settings(config, topic), lambda record: on_record(record.key, record.value))


def _log_settings(config: WorkerConfig, topic: str) -> TopicLogSettings:
    from worker.kafka.internal_topics import InternalTopic
    from worker.kafka.topic_log import TopicLogSettings
    from worker.storage.topic_logs import client_id_base

    own = config.distributed
    assert own is not None
    client = {
        **client_settings_of(config.originals),
        "bootstrap.servers": ",".join(config.bootstrap_servers),
        "client.id": f"{client_id_base(config)}history",
    }
    made = InternalTopic(
        topic, 1, own.config_topic.replication_factor, {}, HISTORY_TOPIC, "earlier configurations", single_partition=True
    )
    consumer = {**client, "group.id": own.group_id}
    return TopicLogSettings(made, consumer, {**client, "delivery.timeout.ms": "30000"}, client)
