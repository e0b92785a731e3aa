"""Which keys are secret by their tables: those of type PASSWORD."""

from __future__ import annotations

import logging

from connect.config.definition import ConfigDef
from connect.config.types import ConfigType
from connect.connector import Connector
from worker.config import WorkerConfig, standalone_config_def

log = logging.getLogger(__name__)


def secret_keys_of(what: WorkerConfig | type[Connector]) -> set[str]:
    """The keys of a worker's or a connector's table whose values are secret."""
    if isinstance(what, WorkerConfig):
        return _passwords(standalone_config_def())
    try:
        return _passwords(what().config_def())
    except Exception as e:
        # Validation has run before and would have told; names alone decide then.
        log.debug("config_def() of %s failed: %s", what.__name__, e)
        return set()


def _passwords(table: ConfigDef) -> set[str]:
    return {name for name, key in table.keys.items() if key.type is ConfigType.PASSWORD}
