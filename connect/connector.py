"""Connectors: divide a job into task configurations. Source: KIP-26, Kafka Connect's API.

The worker calls all methods, never two at once on the same instance. They may block for as long as a REST client would wait; a
connector that monitors something starts its own thread in ``start`` and ends it in ``stop``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from connect.config.definition import ConfigDef, ConfigValue
from connect.record import SourceRecord, TopicPartition
from connect.sink import SinkTask
from connect.source import OffsetReader, SourceTask

if TYPE_CHECKING:
    from connect.external_system import EntryForm, ExternalSystem
    from connect.verification import VerifiableSink, VerifiableSource


class ExactlyOnceSupport(Enum):
    """Whether a source supports exactly-once delivery with a given configuration (KIP-618)."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"


class ConnectorContext(Protocol):
    """The worker's services for a connector. Every method may be called from any thread."""

    def request_task_reconfiguration(self) -> None:
        """Asks the worker to call ``task_configs`` again soon, and to restart the tasks if their configurations changed."""

    def raise_error(self, error: Exception) -> None:
        """Fails the connector with this error."""


class SourceConnectorContext(ConnectorContext, Protocol):
    """The worker's services for a source connector."""

    def offset_reader(self) -> OffsetReader:
        """Returns a reader of the offsets that this connector's tasks stored."""


class Connector(ABC):
    """Base class of all connectors. Call order: ``initialize``, ``start``, ``task_configs`` (any number of times), ``stop``.

    After ``stop`` the worker may call ``start`` again on the same instance (resume).
    """

    version: ClassVar[str] = "unknown"
    """The version that REST shows; usually that of the distribution."""

    open_prefixes: ClassVar[tuple[str, ...]] = ()
    """Prefixes of keys that the connector reads without defining them; ``sluice lint`` does not report such keys as unknown.
    Converters, transformations, and predicates may have this attribute too. ``""`` matches every key."""

    caseless_prefixes: ClassVar[tuple[str, ...]] = ()
    """Those of ``open_prefixes`` below which no key has capital letters. Spark passes names of options in lower case: its data
    source refuses other keys that nobody defines, unless it knows their case."""

    most_tasks: ClassVar[int | None] = None
    """The maximum number of tasks, whatever ``tasks.max`` says; None: no limit but ``tasks.max``."""

    collection_keys: ClassVar[Mapping[str, EntryForm]] = MappingProxyType({})
    """The keys that select data collections of :meth:`external_system`, with the form of their entries."""

    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        """Called once, before ``start``."""
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Starts the connector. ``config`` has its variables resolved. Raises ConfigError when the configuration cannot work."""

    @abstractmethod
    def task_class(self) -> type[SourceTask] | type[SinkTask]:
        """Returns the class of the tasks."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Returns one configuration per task, at most ``max_tasks``, in a stable order: the same job gives the same list."""

    @abstractmethod
    def stop(self) -> None:
        """Stops the connector. May be called more than once, and without a successful ``start``."""

    @abstractmethod
    def config_def(self) -> ConfigDef:
        """Returns the definition of this connector's keys. Called on instances that were never started."""

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks a configuration without opening a connection or file. Override it for rules that involve several keys.

        Called on an instance that was never started, also by ``sluice lint``, which may run where the system is unreachable.
        Returns one entry for each key of :meth:`config_def`.
        """
        return self.config_def().validate(config)

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks a configuration completely, for REST and before a start. Override it to check external systems too (connection,
        tables). Must not change anything. Called on the same instances and with the same result as :meth:`check_config`.
        """
        return self.check_config(config)

    def external_system(self, config: Mapping[str, str]) -> ExternalSystem | None:
        """Returns what tests the connection and lists tables with this configuration, of which keys may be missing or wrong; None
        if the connector has no such thing. Called on an instance that was never started. Raises ConfigError if the keys of the
        connection are wrong."""
        return None


class SourceConnector(Connector):
    """Copies data from a system into topics."""

    producer_defaults: ClassVar[Mapping[str, str]] = {}
    """Settings of the tasks' producers, in Java's names. Those in the worker's file (``producer.*``) and in the connector's
    configuration (``producer.override.*``) take precedence.

    If a topic takes no batches of the ``batch.size`` given here, the task restarts with the worker's. The ``linger.ms`` given
    here is for backlogs: a batch of a few topics is sent at once if the task's ``has_more`` is False then."""

    @abstractmethod
    def task_class(self) -> type[SourceTask]: ...

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Returns whether exactly-once delivery is supported with this configuration; None: unknown, as for older connectors."""
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """Returns whether the connector supports ``transaction.boundary=connector`` with this configuration."""
        return False

    def sample_records(self, config: Mapping[str, str], count: int) -> Sequence[SourceRecord]:
        """Returns at most ``count`` records like those that the tasks would produce, derived from the configuration alone.
        ``sluice preview`` shows them when it has no other records. Called on an instance that was never started. By default,
        there are none.
        """
        return []

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        """Called on a stopped connector before its stored offsets are changed over REST.

        ``offsets`` maps a source partition (its items as a tuple; None for a null partition) to the new offset, or to None to
        delete the stored one. Returns True when the connector has altered whatever offsets it stores itself. Raises
        BadRequestError for invalid offsets and UnsupportedError when they cannot be changed. The default returns False: the
        worker changes the offsets in Kafka and reports that the connector may store others elsewhere (recording
        offsets-patch-mock-no-support).
        """
        return False

    def verification(self, config: Mapping[str, str]) -> VerifiableSource | None:
        """Returns how ``sluice verify`` reads what the connector captures; None if it cannot. Called on an instance that was
        never started."""
        return None


class SinkConnector(Connector):
    """Copies topics into a system."""

    needs_schema: ClassVar[bool] = False
    """Whether values must have a schema; ``sluice lint`` then reports a converter that provides none."""

    consumer_defaults: ClassVar[Mapping[str, str]] = {}
    """Settings of the tasks' consumers, in Java's names. Those in the worker's file (``consumer.*``) and in the connector's
    configuration (``consumer.override.*``) take precedence."""

    @abstractmethod
    def task_class(self) -> type[SinkTask]: ...

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Called on a stopped connector before its consumer group's offsets are changed over REST. Otherwise like
        :meth:`SourceConnector.alter_offsets`; the default returns True."""
        return True

    def reset_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Called instead of :meth:`alter_offsets` when all offsets are reset: ``offsets`` has None for each partition of the
        sink's topics, and of its group. A sink that stores offsets itself also deletes those of partitions that no longer exist.
        The default calls :meth:`alter_offsets`."""
        return self.alter_offsets(config, offsets)

    def verification(self, config: Mapping[str, str]) -> VerifiableSink | None:
        """Returns how ``sluice verify`` reads what the connector writes; None if it cannot. Called on an instance that was
        never started."""
        return None
