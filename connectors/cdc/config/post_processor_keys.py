"""The keys of post-processors: ``post.processors`` names them, and the only one is Debezium's ReselectColumnsPostProcessor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import NO_DEFAULT, ConfigDef, ConfigType, ConfigValue, Importance
from connect.config.parsing import split_list
from connect.config.validators import one_of
from connect.errors import ConfigError
from connectors.cdc.config.validators import RegexList

_LIST = "post.processors"
_RESELECT = "io.debezium.processors.reselect.ReselectColumnsPostProcessor"


@dataclass(frozen=True, slots=True)
class ReselectSettings:
    """Which values are read from the table again. Columns are ``<table>:<column>``; no ``include`` means all.

    ``uses_event_key``: rows are found by the record key, not by the primary key. ``fails``: the task fails if a row is not found.
    """

    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]
    unavailable: bool
    nulls: bool
    uses_event_key: bool
    fails: bool

    def selects(self, column: str) -> bool:
        """Whether a column is read again."""
        if self.include and not any(pattern.fullmatch(column) for pattern in self.include):
            return False
        return not any(pattern.fullmatch(column) for pattern in self.exclude)


def define_post_processor_keys(keys: ConfigDef) -> None:
    keys.define(
        _LIST,
        ConfigType.STRING,
        None,
        group="Events",
        importance=Importance.LOW,
        doc=f"The name of a post-processor. post.processors.<name>.type must be {_RESELECT}, which reads values that the stream "
        "lacks from the table; its keys reselect.* follow the same prefix (or <name>., as in older releases of Debezium).",
    )


def _reselect_keys(prefix: str) -> ConfigDef:
    """The keys of a ReselectColumnsPostProcessor."""
    keys = ConfigDef()

    def define(name: str, kind: ConfigType, default: Any, doc: str, validator: Any = None) -> None:
        keys.define(prefix + name, kind, default, importance=Importance.LOW, validator=validator, doc=doc)

    define("type", ConfigType.STRING, NO_DEFAULT, "The class.", one_of(_RESELECT))
    define("reselect.columns.include.list", ConfigType.STRING, None, "Columns to read again.", RegexList())
    define("reselect.columns.exclude.list", ConfigType.STRING, None, "Columns not to read again.", RegexList())
    define("reselect.unavailable.values", ConfigType.BOOLEAN, True, "Whether unavailable values are read.")
    define("reselect.null.values", ConfigType.BOOLEAN, True, "Whether nulls are read.")
    define("reselect.use.event.key", ConfigType.BOOLEAN, False, "Whether rows are found by the record key.")
    define("reselect.error.handling.mode", ConfigType.STRING, "warn", "What happens if there is no row.", one_of("warn", "fail"))
    define("reselect.cache.enabled", ConfigType.BOOLEAN, False, "Without effect: nothing is cached.")
    define("reselect.cache.type", ConfigType.STRING, None, "Without effect.")
    return keys


def _prefix(config: Mapping[str, str], name: str) -> str:
    """What the keys of a post-processor begin with."""
    new = f"{_LIST}.{name}."
    return new if any(key.startswith(new) for key in config) else f"{name}."


def check_post_processors(config: Mapping[str, str]) -> list[ConfigValue]:
    """The keys of post-processors that are set, with their errors."""
    names = split_list(config.get(_LIST))
    if len(names) > 1:
        return [_error(_LIST, config, "there is only one kind of post-processor, so name one")]
    found: list[ConfigValue] = []
    for name in names:
        prefix = _prefix(config, name)
        keys = _reselect_keys(prefix)
        found += [value for value in keys.validate(config) if value.name in config]
        if f"{prefix}type" not in config:
            found.append(_error(_LIST, config, f"set {_LIST}.{name}.type={_RESELECT}"))
        unknown = [key for key in config if key.startswith(prefix) and key not in keys.keys]
        found += [_error(key, config, f"{_RESELECT.rpartition('.')[2]} has no such key") for key in unknown]
    return found


def _error(key: str, config: Mapping[str, str], reason: str) -> ConfigValue:
    return ConfigValue(key, config[key], errors=[str(ConfigError.invalid(key, config[key], reason))])


def parse_post_processors(config: Mapping[str, str]) -> ReselectSettings | None:
    """Parses the settings of the post-processor; None if there is none. Raises ConfigError."""
    for name in split_list(config.get(_LIST)):
        prefix = _prefix(config, name)
        values = {key.removeprefix(prefix): value for key, value in _reselect_keys(prefix).parse(config).items()}
        return ReselectSettings(
            _patterns(values["reselect.columns.include.list"]),
            _patterns(values["reselect.columns.exclude.list"]),
            values["reselect.unavailable.values"],
            values["reselect.null.values"],
            values["reselect.use.event.key"],
            values["reselect.error.handling.mode"] == "fail",
        )
    return None


def _patterns(text: str | None) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(part, re.IGNORECASE) for part in split_list(text))
