"""What all connectors for change data capture do: one task, validation of keys and server, and checks of new offsets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from connect.config.definition import ConfigValue
from connect.connector import ExactlyOnceSupport, SourceConnector
from connect.errors import BadRequestError, ConfigError, ConnectError
from connect.external_system import EntryForm
from connect.version import sluice_version
from connectors.cdc.config.column_rules import CASELESS_PREFIXES
from connectors.cdc.config.signal_keys import CONSUMER_PREFIX
from connectors.cdc.errors import WaitInterrupted
from connectors.cdc.offsets import CONTRACTS, PARTITION_KEY
from connectors.cdc.schema.contracts import parse_contracts
from connectors.cdc.source_settings import SourceSettings

MAX_VALIDATION_S = 10.0
"""How long the validation waits for a server."""


class ChangeSource(SourceConnector):
    """A connector with a single task, because a log has one reader."""

    version = sluice_version()
    most_tasks = 1
    # With a backlog, large requests save a quarter of the CPU: while a request is in flight, the client's thread keeps looking
    # whether the next one may be sent, if that is full or has waited for linger.ms (librdkafka 2.16 with an idempotent producer).
    producer_defaults = MappingProxyType({"batch.size": "1000000", "linger.ms": "20"})
    collection_keys: ClassVar[Mapping[str, EntryForm]] = MappingProxyType(
        dict.fromkeys(("table.include.list", "table.exclude.list", "snapshot.include.collection.list"), EntryForm.REGEX)
    )

    caseless_prefixes: ClassVar[tuple[str, ...]] = (CONSUMER_PREFIX, *CASELESS_PREFIXES)

    server_key: ClassVar[str] = "database.hostname"
    """The key that errors of the server belong to, unless they name another one."""

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    @abstractmethod
    def parse(self, config: Mapping[str, str]) -> SourceSettings:
        """Raises ConfigError for the first key that is missing, invalid, or not supported."""

    @abstractmethod
    def check_keys(self, config: Mapping[str, str]) -> Iterable[ConfigValue]:
        """Checks keys without a fixed name, and keys that depend on one another."""

    @abstractmethod
    def check_on_server(self, config: Mapping[str, str]) -> None:
        """Connects and checks the server. Raises ConfigError for what the configuration or the server must change."""

    @abstractmethod
    def check_offset(self, offset: Mapping[str, Any]) -> None:
        """Raises ConnectError for a new offset that the task cannot read."""

    def start(self, config: Mapping[str, str]) -> None:
        self.parse(config)
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config)]

    def stop(self) -> None:
        """Does nothing: the task owns all connections."""

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        values = super().check_config(config)
        known = {value.name: value for value in values}
        for finding in self.check_keys(config):
            if finding.name in known:
                known[finding.name].errors += finding.errors
            else:
                values.append(finding)
        return values

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks the keys, then the server."""
        values = self.check_config(config)
        known = {value.name: value for value in values}
        if any(value.errors for value in values):
            return values
        try:
            self.check_on_server(config)
        except ConfigError as e:
            known[e.key if e.key in known else self.server_key].errors.append(e.message)
        except ConnectError as e:
            known[self.server_key].errors.append(e.message)
        except WaitInterrupted:
            pass
        return values

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        prefix = self.parse(config).topic_prefix
        for partition, offset in offsets.items():
            if offset is None:
                continue
            if (given := dict(partition or ())) != {PARTITION_KEY: prefix}:
                raise BadRequestError(
                    f'source partition {given} is not this connector\'s, which is {{"{PARTITION_KEY}": "{prefix}"}}'
                )
            try:
                parse_contracts(offset.get(CONTRACTS))
                self.check_offset(offset)
            except ConnectError as e:
                raise BadRequestError(e.message) from e
        return True
