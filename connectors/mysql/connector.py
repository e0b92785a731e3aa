"""The MySQL and MariaDB source connectors: they validate on the server, and run a single task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import ExactlyOnceSupport, SourceConnector
from connect.errors import BadRequestError, ConfigError, ConnectError
from connect.external_system import EntryForm
from connect.version import sluice_version
from connectors.cdc.errors import WaitInterrupted
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.schema.filters import Filters
from connectors.cdc.validation import check_given_offset, with_findings
from connectors.mysql.config import parse_config
from connectors.mysql.config_keys import config_def
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import parse_offset
from connectors.mysql.system_checks import check_on_server
from connectors.mysql.task import MariaDbSourceTask, MySqlSourceTask
from connectors.mysql.unsupported_keys import OPEN_PREFIXES, check_dynamic_keys

if TYPE_CHECKING:
    from connect.external_system import ExternalSystem

_MAX_VALIDATION_S = 10.0


class MySqlSource(SourceConnector):
    """Captures changes of the databases of a MySQL server in Debezium's format.

    The counterpart of ``io.debezium.connector.mysql.MySqlConnector``.
    """

    is_mariadb: ClassVar[bool] = False

    version = sluice_version()
    most_tasks = 1
    # As for PostgreSQL: with a backlog, large requests save CPU.
    producer_defaults = MappingProxyType({"batch.size": "1000000", "linger.ms": "20"})
    open_prefixes = OPEN_PREFIXES

    collection_keys = MappingProxyType(
        dict.fromkeys(("table.include.list", "table.exclude.list", "snapshot.include.collection.list"), EntryForm.REGEX)
    )

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def start(self, config: Mapping[str, str]) -> None:
        parse_config(config, is_mariadb=self.is_mariadb)
        self._config = dict(config)

    def task_class(self) -> type[MySqlSourceTask]:
        return MySqlSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config)]

    def stop(self) -> None:
        """Does nothing: the task owns all connections."""

    def config_def(self) -> ConfigDef:
        return config_def(is_mariadb=self.is_mariadb)

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return with_findings(super().check_config(config), check_dynamic_keys(config))

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks the keys, then the server: connects and checks its kind, binary log, privileges, and tables."""
        values = self.check_config(config)
        known = {value.name: value for value in values}
        if any(value.errors for value in values):
            return values
        try:
            self._validate_on_server(config)
        except ConfigError as e:
            known[e.key if e.key in known else "database.hostname"].errors.append(e.message)
        except ConnectError as e:
            known["database.hostname"].errors.append(e.message)
        except WaitInterrupted:
            pass
        return values

    def _validate_on_server(self, config: Mapping[str, str]) -> None:
        settings = parse_config(config, is_mariadb=self.is_mariadb)
        interrupt = Interrupt()
        try:
            sql = MySqlConnection.open(
                settings.address, interrupt, timeout_s=_MAX_VALIDATION_S, query_timeout_s=_MAX_VALIDATION_S
            )
            try:
                check_on_server(sql, settings, Filters(settings.capture))
            finally:
                sql.close()
        finally:
            interrupt.close()

    def external_system(self, config: Mapping[str, str]) -> ExternalSystem:
        from connectors.mysql.external_system import MySqlSystem

        return MySqlSystem(config, is_mariadb=self.is_mariadb)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        """Checks new offsets: they need a file and a position, and GTIDs that can be read. The server decides at the start
        whether it still has the log after them."""
        prefix = parse_config(config, is_mariadb=self.is_mariadb).topic_prefix
        for partition, offset in offsets.items():
            if not check_given_offset(partition, offset, prefix):
                continue
            assert offset is not None
            position = offset.get("pos")
            if not isinstance(position, int) or isinstance(position, bool) or position < 4:
                raise BadRequestError("pos of the offset must be an integer of 4 or more: the position in the file")
            try:
                parse_offset(offset)
            except ConnectError as e:
                raise BadRequestError(e.message) from e
        return True


class MariaDbSource(MySqlSource):
    """Captures changes of the databases of a MariaDB server in Debezium's format.

    The counterpart of ``io.debezium.connector.mariadb.MariaDbConnector``.
    """

    is_mariadb = True

    def task_class(self) -> type[MySqlSourceTask]:
        return MariaDbSourceTask
