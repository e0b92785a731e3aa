"""The PostgreSQL source connector: validates on the server, and runs a single task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from connect.config.definition import ConfigDef, ConfigValue
from connect.errors import BadRequestError, ConfigError, ConnectError
from connectors.cdc.config.signal_keys import CONSUMER_PREFIX
from connectors.cdc.connector import MAX_VALIDATION_S, ChangeSource
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.schema.filters import Filters, name_matches
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

_POSITIONS = ("lsn", "lsn_proc", "lsn_commit", TX_LSN, TX_EVENTS, TIMELINE, COMMIT_LSN)


class PostgresSource(ChangeSource):
    """Captures changes of a PostgreSQL database in Debezium's format.

    The counterpart of ``io.debezium.connector.postgresql.PostgresConnector``.
    """

    open_prefixes = (CONSUMER_PREFIX, "column.mask.", "column.truncate.", "snapshot.select.statement.overrides.")

    def parse(self, config: Mapping[str, str]) -> PostgresConfig:
        return parse_config(config)

    def task_class(self) -> type[PostgresSourceTask]:
        return PostgresSourceTask

    def config_def(self) -> ConfigDef:
        return config_def()

    def check_keys(self, config: Mapping[str, str]) -> Iterable[ConfigValue]:
        return check_dynamic_keys(config)

    def check_on_server(self, config: Mapping[str, str]) -> None:
        """Checks wal_level, privileges, slot, publication, and tables."""
        _validate_on_server(parse_config(config))

    def external_system(self, config: Mapping[str, str]) -> ExternalSystem:
        from connectors.postgres.external_system import PostgresSystem

        return PostgresSystem(config)

    def verification(self, config: Mapping[str, str]) -> VerifiableSource:
        from connectors.postgres.verification import PostgresVerification

        return PostgresVerification(config)

    def check_offset(self, offset: Mapping[str, Any]) -> None:
        """The server cannot go back before the confirmed position: an earlier offset starts at the slot."""
        wrong = [
            name for name in _POSITIONS if not isinstance(offset.get(name, 0) or 0, int) or isinstance(offset.get(name), bool)
        ]
        if wrong or not offset.get("lsn"):
            raise BadRequestError(f"{wrong[0] if wrong else 'lsn'} of the offset must be an integer (the 64 bits of an LSN)")
        parse_offset(offset)


def _check_primary(address: Address, interrupt: Interrupt) -> None:
    """Raises ConfigError if the primary of a standby cannot be reached, or is a standby itself."""
    try:
        primary = Connection.open(address, interrupt, timeout_s=MAX_VALIDATION_S)
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
        sql = Connection.open(settings.address, interrupt, timeout_s=MAX_VALIDATION_S)
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
