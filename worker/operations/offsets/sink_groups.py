"""Reads and changes the committed offsets of sink connectors' consumer groups."""

from __future__ import annotations

from collections.abc import Mapping

from connect.errors import ConnectError
from connect.record import TopicPartition
from worker.config.client_overrides import client_properties
from worker.config.worker_config import WorkerConfig
from worker.kafka.settings import ClientKind, client_settings_of
from worker.model import OffsetEntry
from worker.operations.offsets.changes import SinkOffsets, sink_entries


class SinkGroups:
    """Consumer groups of a worker's sinks. Each call opens its own clients, is safe from any thread, and blocks until the broker
    responds, at most about twenty seconds per request.

    Configurations contain config provider values. A group is on the cluster of the connector's consumers:
    ``admin.override.bootstrap.servers``, else ``consumer.override.bootstrap.servers``, else the worker's cluster.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config

    def group(self, connector: str, config: Mapping[str, str]) -> str:
        """Returns the name of the group, which a connector may override."""
        return client_properties(ClientKind.CONSUMER, self._config, connector, 0, config)["group.id"]

    def offsets(self, connector: str, config: Mapping[str, str]) -> list[OffsetEntry]:
        """Returns the committed offsets, in Apache's order. Raises UnreachableError, ConnectError."""
        return sink_entries(self.committed(connector, config))

    def committed(self, connector: str, config: Mapping[str, str]) -> dict[TopicPartition, int]:
        """Returns the committed offsets by partition."""
        from worker.kafka.group_offsets import committed

        found = committed(self._client(connector, config), self.group(connector, config))
        return {tp: one.offset for tp, one in found.items()}

    def partitions(self, connector: str, config: Mapping[str, str]) -> set[TopicPartition]:
        """Returns the partitions with committed offsets, and those of the sink's topics: it may have offsets where the group has
        none, because it expired, or a topic was recreated."""
        from worker.kafka.group_offsets import partitions
        from worker.sink.topic_discovery import parse_subscription

        subscription = parse_subscription(config, 0.0)
        of_topics = {tp for tp in partitions(self._client(connector, config)) if subscription.has(tp.topic)}
        return of_topics | self.committed(connector, config).keys()

    def require_changeable(self, connector: str, config: Mapping[str, str], offsets: SinkOffsets | None) -> None:
        """Raises ConnectError, with Apache's message, while the group has members, whose commits would undo the change, and if a
        partition that gets an offset does not exist: then the broker would change the others. None for a reset."""
        from worker.kafka.group_offsets import UnknownPartitionError, has_members, require_partitions

        client = self._client(connector, config)
        if has_members(client, self.group(connector, config)):
            raise _in_use(connector, reset=offsets is None)
        try:
            require_partitions(client, offsets or {})
        except UnknownPartitionError as e:
            # Apache does not name the partition (recording offsets-patch-sink-other-topic).
            raise ConnectError(f"Failed to alter consumer group offsets for connector {connector}") from e

    def alter(self, connector: str, config: Mapping[str, str], offsets: SinkOffsets) -> None:
        """Commits these offsets for the group, and removes partitions with None. Raises ConnectError.

        The client cannot remove single partitions: the group is deleted, and the offsets of its other partitions are committed
        again. If the broker becomes unavailable in between, the error lists the group's offsets, so that the call can be repeated
        with all of them.
        """
        from worker.kafka.group_offsets import GroupInUseError, UnknownPartitionError, alter

        try:
            alter(self._client(connector, config), self.group(connector, config), offsets)
        except GroupInUseError as e:
            raise _in_use(connector, reset=False) from e
        except UnknownPartitionError as e:
            # Apache does not name the partition (recording offsets-patch-sink-other-topic).
            raise ConnectError(f"Failed to alter consumer group offsets for connector {connector}") from e
        except ConnectError as e:
            raise ConnectError(f"Failed to alter consumer group offsets for connector {connector}: {e.message}") from e

    def reset(self, connector: str, config: Mapping[str, str]) -> None:
        """Deletes the group, if it exists. Raises ConnectError."""
        from worker.kafka.group_offsets import GroupInUseError, delete_group

        try:
            delete_group(self._client(connector, config), self.group(connector, config))
        except GroupInUseError as e:
            raise _in_use(connector, reset=True) from e
        except ConnectError as e:
            raise ConnectError(f"Failed to reset consumer group offsets for sink connector {connector}: {e.message}") from e

    def _client(self, connector: str, config: Mapping[str, str]) -> dict[str, str]:
        java = client_properties(
            ClientKind.ADMIN, self._config, connector, 0, config, client_id=f"connector-worker-adminclient-{connector}"
        )
        if "consumer.override.bootstrap.servers" in config and "admin.override.bootstrap.servers" not in config:
            # The records, and so the group, are on another cluster; Apache would look on the worker's.
            consumer = client_properties(ClientKind.CONSUMER, self._config, connector, 0, config)
            java.update({**client_settings_of(consumer), "client.id": java["client.id"]})
        return java


def _in_use(connector: str, *, reset: bool) -> ConnectError:
    doing = "reset" if reset else "alter"
    return ConnectError(
        f"Failed to {doing} consumer group offsets for connector {connector} either because its tasks haven't stopped completely "
        f"yet or the connector was resumed before the request to {doing} its offsets could be successfully completed. If the "
        "connector is in a stopped state, this operation can be safely retried. If it doesn't eventually succeed, the Connect "
        "cluster may need to be restarted to get rid of the zombie sink tasks."
    )
