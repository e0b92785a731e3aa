"""``snapshot.mode=configuration_based``: five keys say what a start does, as one of the other modes does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connect.config.definition import ConfigDef, ConfigType, ConfigValue, Importance
from connect.errors import ConfigError

CONFIGURED: Final = "configuration_based"
_PREFIX: Final = "snapshot.mode.configuration.based."
_DATA, _SCHEMA, _STREAM = f"{_PREFIX}snapshot.data", f"{_PREFIX}snapshot.schema", f"{_PREFIX}start.stream"
_ON_SCHEMA_ERROR, _ON_DATA_ERROR = f"{_PREFIX}snapshot.on.schema.error", f"{_PREFIX}snapshot.on.data.error"


def define_configured_mode(keys: ConfigDef) -> None:
    """Adds the keys of ``snapshot.mode=configuration_based``."""
    docs = {
        _DATA: "The rows are read at each start.",
        _SCHEMA: "The structure of tables is read at each start. Reading rows includes it.",
        _STREAM: "Changes are streamed.",
        _ON_SCHEMA_ERROR: "The structure is read again if it is lost. Needs snapshot.data, which reads it in any case.",
        _ON_DATA_ERROR: "Rows are read again if the position is lost. Needs snapshot.data, which reads them in any case.",
    }
    for name, doc in docs.items():
        text = f"With snapshot.mode={CONFIGURED}: {doc[0].lower()}{doc[1:]}"
        keys.define(name, ConfigType.BOOLEAN, False, group="Snapshot", importance=Importance.LOW, doc=text)


def find_mode_errors(config: Mapping[str, str]) -> list[ConfigValue]:
    """The errors of :func:`snapshot_mode` for a configuration in texts. Keys of another type are reported as such elsewhere."""
    if (config.get("snapshot.mode") or "").lower() != CONFIGURED:
        return []
    keys = ConfigDef()
    define_configured_mode(keys)
    try:
        values = keys.parse({name: value for name, value in config.items() if name.startswith(_PREFIX)})
    except ConfigError:
        return []
    try:
        snapshot_mode({**values, "snapshot.mode": CONFIGURED})
    except ConfigError as e:
        key = e.key or "snapshot.mode"
        return [ConfigValue(key, config.get(key), errors=[e.message])]
    return []


def snapshot_mode(values: Mapping[str, Any]) -> str:
    """Returns ``snapshot.mode`` in lower case, or the mode that the keys of configuration_based describe. Raises ConfigError for
    combinations that none does."""
    mode = str(values["snapshot.mode"]).lower()
    if mode != CONFIGURED:
        return mode
    if values[_DATA]:
        return "always" if values[_STREAM] else "initial_only"
    if not values[_STREAM]:
        raise ConfigError(
            f"with snapshot.mode={CONFIGURED}, set {_STREAM} or {_DATA} to true: there is nothing to do", key=_STREAM
        )
    for key in (_ON_SCHEMA_ERROR, _ON_DATA_ERROR):
        if values[key]:
            raise ConfigError(
                f"{key} needs {_DATA}=true here; for a snapshot only if something is lost, use snapshot.mode=when_needed", key=key
            )
    return "no_data"
