"""The MySQL and MariaDB source connectors: they validate on the server, and run a single task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from connect.config.definition import ConfigDef, ConfigValue
from connect.errors import BadRequestError
from connectors.cdc.connector import MAX_VALIDATION_S, ChangeSource
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.schema.filters import Filters
from connectors.mysql.config import MySqlConfig, parse_config
from connectors.mysql.config_keys import config_def
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.history_keys import CLIENT_PREFIXES
from connectors.mysql.offsets import parse_offset
from connectors.mysql.system_checks import check_on_server
from connectors.mysql.task import MariaDbSourceTask, MySqlSourceTask
from connectors.mysql.unsupported_keys import OPEN_PREFIXES, check_dynamic_keys

if TYPE_CHECKING:
    from connect.external_system import ExternalSystem


class MySqlSource(ChangeSource):
    """Captures changes of the databases of a MySQL server in Debezium's format.

    The counterpart of ``io.debezium.connector.mysql.MySqlConnector``.
    """

    is_mariadb: ClassVar[bool] = False
    open_prefixes = OPEN_PREFIXES
    caseless_prefixes = (*ChangeSource.caseless_prefixes, *CLIENT_PREFIXES)

    def parse(self, config: Mapping[str, str]) -> MySqlConfig:
        return parse_config(config, is_mariadb=self.is_mariadb)

    def task_class(self) -> type[MySqlSourceTask]:
        return MySqlSourceTask

    def config_def(self) -> ConfigDef:
        return config_def(is_mariadb=self.is_mariadb)

    def check_keys(self, config: Mapping[str, str]) -> Iterable[ConfigValue]:
        return check_dynamic_keys(config)

    def check_on_server(self, config: Mapping[str, str]) -> None:
        """Checks the kind of server, its binary log, privileges, and tables."""
        settings = parse_config(config, is_mariadb=self.is_mariadb)
        interrupt = Interrupt()
        try:
            sql = MySqlConnection.open(settings.address, interrupt, timeout_s=MAX_VALIDATION_S, query_timeout_s=MAX_VALIDATION_S)
            try:
                check_on_server(sql, settings, Filters(settings.capture), is_new=True)
            finally:
                sql.close()
        finally:
            interrupt.close()

    def external_system(self, config: Mapping[str, str]) -> ExternalSystem:
        from connectors.mysql.external_system import MySqlSystem

        return MySqlSystem(config, is_mariadb=self.is_mariadb)

    def check_offset(self, offset: Mapping[str, Any]) -> None:
        """It needs a file and a position, and GTIDs that can be read. The server decides at the start whether it still has the
        log after them."""
        position = offset.get("pos")
        if not isinstance(position, int) or isinstance(position, bool) or position < 4:
            raise BadRequestError("pos of the offset must be an integer of 4 or more: the position in the file")
        parse_offset(offset)


class MariaDbSource(MySqlSource):
    """Captures changes of the databases of a MariaDB server in Debezium's format.

    The counterpart of ``io.debezium.connector.mariadb.MariaDbConnector``.
    """

    is_mariadb = True

    def task_class(self) -> type[MySqlSourceTask]:
        return MariaDbSourceTask
