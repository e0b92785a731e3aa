"""Connectors: they split a job into task configurations and watch over it. Source: KIP-26, Kafka Connect's API.

All methods are called by the worker, never two at once for one instance. They may block for as long as an operator would
wait for a REST answer; a connector that must watch something starts a thread of its own in ``start`` and ends it in ``stop``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol

from connect.config.definition import ConfigDef, ConfigValue
from connect.record import SourceRecord, TopicPartition
from connect.sink import SinkTask
from connect.source import OffsetReader, SourceTask


class ExactlyOnceSupport(Enum):
    """Whether a source can be exactly-once with a given configuration (KIP-618)."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"


class ConnectorContext(Protocol):
    """What the worker offers a connector. Every method may be called from any thread."""

    def request_task_reconfiguration(self) -> None:
        """Asks the worker to call ``task_configs`` again, soon, and to restart the tasks if they changed."""

    def raise_error(self, error: Exception) -> None:
        """Fails the connector with this error."""


class SourceConnectorContext(ConnectorContext, Protocol):
    """A source connector can read its stored offsets too."""

    def offset_reader(self) -> OffsetReader:
        """Reads the offsets that this connector's tasks stored."""


class Connector(ABC):
    """Base of all connectors. Order of calls: ``initialize``, ``start``, ``task_configs`` (any number of times), ``stop``.

    After ``stop`` the worker may call ``start`` again on the same instance (resume).
    """

    version: ClassVar[str] = "unknown"
    """Shown by REST. A plugin of a distribution usually gives that distribution's version."""

    open_prefixes: ClassVar[tuple[str, ...]] = ()
    """Keys that begin with one of these are read too, whatever follows: ``sluice lint`` does not call them unknown. Converters,
    transformations and predicates may have such an attribute as well; ``""`` in it stands for every key."""

    most_tasks: ClassVar[int | None] = None
    """How many tasks the connector makes at most, whatever ``tasks.max`` says; None: as many as that."""

    shares_executor: ClassVar[str | None] = None
    """A name for what connectors share that exists once a process and is dear, as a Spark session: all connectors whose classes
    have the same name here run in one executor process, unless they have ``task.isolation=dedicated``. None: wherever there is
    room."""

    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        """Called once, before ``start``."""
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Takes the connector's configuration, variables resolved. Raises ConfigError when it cannot work."""

    @abstractmethod
    def task_class(self) -> type[SourceTask] | type[SinkTask]:
        """The class of which each task is an instance."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """At most ``max_tasks`` configurations, one a task, in a stable order: the same job gives the same list."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what ``start`` began. May be called without a successful ``start``, and more than once."""

    @abstractmethod
    def config_def(self) -> ConfigDef:
        """The table of this connector's keys. Called on instances that were never started."""

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks a configuration by itself: no connection, no file. Override it for rules that look at several keys.

        Called on an instance that was never started, by ``sluice lint`` too, where the system may be out of reach. Returns one
        entry a key of :meth:`config_def`.
        """
        return self.config_def().validate(config)

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """The whole check, for REST and before a start; override to look at the outside world too (connection, tables). Must not
        change anything. Called and answering as :meth:`check_config`.
        """
        return self.check_config(config)


class SourceConnector(Connector):
    """Reads some system into topics."""

    @abstractmethod
    def task_class(self) -> type[SourceTask]: ...

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """None says: unknown, as old connectors do."""
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        return False

    def sample_records(self, config: Mapping[str, str], count: int) -> Sequence[SourceRecord]:
        """Records as the tasks would make them, ``count`` at most, from nothing but the configuration: what ``sluice preview``
        shows when it is given none. Called on an instance that was never started. The base has none.
        """
        return []

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        """Called before stored offsets are changed over REST, on a stopped connector.

        ``offsets`` maps a source partition (its items, as a tuple; None for one that was null) to the new offset, or None to
        forget it. Returns True when the connector has done all there is to do; raises BadRequestError for offsets that make no
        sense, UnsupportedError when they cannot be changed. The base returns False: the worker changes its own, and tells that
        the connector may keep others elsewhere (recording offsets-patch-mock-no-support).
        """
        return False


class SinkConnector(Connector):
    """Writes topics into some system."""

    needs_schema: ClassVar[bool] = False
    """Whether values must come with a schema, so that ``sluice lint`` can tell when the converter gives none."""

    @abstractmethod
    def task_class(self) -> type[SinkTask]: ...

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Called before the consumer group's offsets are changed over REST, on a stopped connector; see the source's."""
        return True
