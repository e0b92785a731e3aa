"""Offsets of sink connectors: what their consumer groups have committed, read and changed from outside."""

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
    """Consumer groups of a worker's sinks. Each call opens clients of its own; safe from any thread; blocks until the broker has
    answered, about twenty seconds a request at most.

    The configurations are those with the values of config providers. A group is looked for where the connector's consumers are:
    at ``admin.override.bootstrap.servers``, or else at ``consumer.override.bootstrap.servers``, or else at the worker's cluster.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config

    def group(self, connector: str, config: Mapping[str, str]) -> str:
        """The name of the group; a connector may override it."""
        return client_properties(ClientKind.CONSUMER, self._config, connector, 0, config)["group.id"]

    def offsets(self, connector: str, config: Mapping[str, str]) -> list[OffsetEntry]:
        """What the group has committed, in the order of Apache's answers. Raises UnreachableError, ConnectError."""
        return sink_entries(self.committed(connector, config))

    def committed(self, connector: str, config: Mapping[str, str]) -> dict[TopicPartition, int]:
        """The same as a map."""
        from worker.kafka.group_offsets import committed

        found = committed(self._client(connector, config), self.group(connector, config))
        return {tp: one.offset for tp, one in found.items()}

    def require_empty(self, connector: str, config: Mapping[str, str], *, reset: bool) -> None:
        """Raises ConnectError, in Apache's words, while the group has members: their commits would undo the change."""
        from worker.kafka.group_offsets import has_members

        if has_members(self._client(connector, config), self.group(connector, config)):
            raise _in_use(connector, reset=reset)

    def alter(self, connector: str, config: Mapping[str, str], offsets: SinkOffsets) -> None:
        """Commits these offsets for the group, and forgets partitions with None. Raises ConnectError.

        The client has no call that forgets single partitions: the group is deleted then, and what it had committed for the others
        is committed again. Everything is checked beforehand; should the broker go away between the two, the error tells what the
        group had, and calling again with all of it mends it.
        """
        from worker.kafka.group_offsets import GroupInUseError, UnknownPartitionError, alter

        try:
            alter(self._client(connector, config), self.group(connector, config), offsets)
        except GroupInUseError as e:
            raise _in_use(connector, reset=False) from e
        except UnknownPartitionError as e:
            # Apache does not say which (recording offsets-patch-sink-other-topic).
            raise ConnectError(f"Failed to alter consumer group offsets for connector {connector}") from e
        except ConnectError as e:
            raise ConnectError(f"Failed to alter consumer group offsets for connector {connector}: {e.message}") from e

    def reset(self, connector: str, config: Mapping[str, str]) -> None:
        """Deletes the group; one that is not there is fine. Raises ConnectError."""
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
            # The records are on another cluster, and so is the group; Apache would ask the worker's.
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
