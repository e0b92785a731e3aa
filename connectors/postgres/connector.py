"""The PostgreSQL source connector: validates on the server, and runs a single task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import ExactlyOnceSupport, SourceConnector
from connect.errors import BadRequestError, ConfigError, ConnectError
from connect.external_system import EntryForm
from connect.version import sluice_version
from connectors.cdc.config.signal_keys import CONSUMER_PREFIX
from connectors.cdc.errors import WaitInterrupted
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.schema.filters import Filters, name_matches
from connectors.cdc.validation import check_given_offset, with_findings
from connectors.postgres.config import Address, PostgresConfig, parse_config
from connectors.postgres.config_keys import config_def
from connectors.postgres.connection import Connection, is_standby
from connectors.postgres.offsets import COMMIT_LSN, TIMELINE, TX_EVENTS, TX_LSN, parse_offset
from connectors.postgres.schema.catalog import describe_no_match
from connectors.postgres.schema.checks import check_keys, check_topics
from connectors.postgres.snapshot.transaction import check_access
from connectors.postgres.streaming import publications, slots
from connectors.postgres.task import PostgresSourceTask
from connectors.postgres.unsupported_keys import check_dynamic_keys

if TYPE_CHECKING:
    from connect.external_system import ExternalSystem
    from connect.verification import VerifiableSource

_MAX_VALIDATION_S = 10.0
_POSITIONS = ("lsn", "lsn_proc", "lsn_commit", TX_LSN, TX_EVENTS, TIMELINE, COMMIT_LSN)


class PostgresSource(SourceConnector):
    """Captures changes of a PostgreSQL database in Debezium's format.

    The counterpart of ``io.debezium.connector.postgresql.PostgresConnector``.
    """

    version = sluice_version()
    most_tasks = 1
    # With a backlog, large requests save a quarter of the CPU: while a request is in flight, the client's thread keeps looking
    # whether the next one may be sent, if that is full or has waited for linger.ms (librdkafka 2.16 with an idempotent producer).
    producer_defaults = MappingProxyType({"batch.size": "1000000", "linger.ms": "20"})
    open_prefixes = (CONSUMER_PREFIX, "column.mask.", "column.truncate.", "snapshot.select.statement.overrides.")

    collection_keys = MappingProxyType(
        dict.fromkeys(("table.include.list", "table.exclude.list", "snapshot.include.collection.list"), EntryForm.REGEX)
    )

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def start(self, config: Mapping[str, str]) -> None:
        parse_config(config)
        self._config = dict(config)

    def task_class(self) -> type[PostgresSourceTask]:
        return PostgresSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config)]

    def stop(self) -> None:
        """Does nothing: the task owns all connections."""

    def config_def(self) -> ConfigDef:
        return config_def()

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return with_findings(super().check_config(config), check_dynamic_keys(config))

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks the keys, then the server: connects and checks wal_level, privileges, slot, publication, and tables."""
        values = self.check_config(config)
        known = {value.name: value for value in values}
        if any(value.errors for value in values):
            return values
        try:
            _validate_on_server(parse_config(config))
        except ConfigError as e:
            known[e.key if e.key in known else "database.hostname"].errors.append(e.message)
        except ConnectError as e:
            known["database.hostname"].errors.append(e.message)
        except WaitInterrupted:
            pass
        return values

    def external_system(self, config: Mapping[str, str]) -> ExternalSystem:
        from connectors.postgres.external_system import PostgresSystem

        return PostgresSystem(config)

    def verification(self, config: Mapping[str, str]) -> VerifiableSource:
        from connectors.postgres.verification import PostgresVerification

        return PostgresVerification(config)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        """Checks new offsets. The server cannot go back before the confirmed position: an earlier offset starts at the slot."""
        prefix = parse_config(config).topic_prefix
        for partition, offset in offsets.items():
            if not check_given_offset(partition, offset, prefix):
                continue
            assert offset is not None
            wrong = [
                name for name in _POSITIONS if not isinstance(offset.get(name, 0) or 0, int) or isinstance(offset.get(name), bool)
            ]
            if wrong or not offset.get("lsn"):
                raise BadRequestError(f"{wrong[0] if wrong else 'lsn'} of the offset must be an integer (the 64 bits of an LSN)")
            parse_offset(offset)
        return True


def _check_primary(address: Address, interrupt: Interrupt) -> None:
    """Raises ConfigError if the primary of a standby cannot be reached, or is a standby itself."""
    try:
        primary = Connection.open(address, interrupt, timeout_s=_MAX_VALIDATION_S)
        try:
            if is_standby(primary):
                raise ConfigError(f"PostgreSQL at {address} is a standby too", key="database.primary.hostname")
        finally:
            primary.close()
    except ConnectError as e:
        raise ConfigError(e.message, key="database.primary.hostname") from e


def _validate_on_server(settings: PostgresConfig) -> None:
    interrupt = Interrupt()
    try:
        sql = Connection.open(settings.address, interrupt, timeout_s=_MAX_VALIDATION_S)
        try:
            filters = Filters(settings.capture)
            tables = publications.read_captured_tables(sql, settings, filters)
            if not tables and settings.capture.table_include:
                listed = ",".join(settings.capture.table_include)
                raise ConfigError.invalid("table.include.list", listed, describe_no_match(sql, filters.captures_table))
            if settings.snapshot.mode != "no_data":
                include, overrides = settings.snapshot.include, settings.snapshot.overrides
                check_access(
                    sql, [t for t in tables if str(t) not in overrides and (not include or name_matches(include, str(t)))]
                )
            if settings.snapshot.mode == "initial_only":
                return
            check_keys([t for t in tables if publications.configured_identity(settings.slot, t) is None], settings, filters)
            check_topics(tables, settings)
            slots.check_server(sql)
            if settings.primary is not None:
                _check_primary(settings.primary, interrupt)
            slots.read_slot(sql, settings.slot.name)
            if settings.slot.autocreate == "disabled":
                publications.require_publication(sql, settings.slot)
        finally:
            sql.close()
    finally:
        interrupt.close()
