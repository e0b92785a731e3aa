"""``task.isolation`` and what goes with it: a process of a connector's own. Keys that Apache's workers do not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect.config.definition import ConfigKey, Importance, Width
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.config.validators import Range, one_of
from connect.errors import ConfigError
from worker.config.plugin_path import checked_environment

ISOLATION: Final = "task.isolation"
MEMORY_LIMIT: Final = "task.memory.limit.mb"
ENVIRONMENT: Final = "task.environment"
_SHARED, _DEDICATED = "shared", "dedicated"

ISOLATION_KEYS = (
    ConfigKey(
        ISOLATION,
        ConfigType.STRING,
        _SHARED,
        importance=Importance.LOW,
        doc=(
            "Whether the connector and its tasks share processes with others, or with dedicated have one of their own: a crash, "
            "a library that blocks all of Python, or a leak of memory is theirs alone then."
        ),
        group="Isolation",
        order=1,
        width=Width.SHORT,
        display_name="Isolation of Tasks",
        validator=one_of(_SHARED, _DEDICATED),
    ),
    ConfigKey(
        MEMORY_LIMIT,
        ConfigType.INT,
        None,
        importance=Importance.LOW,
        doc=(
            "With task.isolation=dedicated: the resident memory in MiB that the process of the connector, with all that it "
            "starts, may have. It is ended when it has more, and the connector is FAILED."
        ),
        group="Isolation",
        order=2,
        width=Width.SHORT,
        display_name="Memory Limit of Tasks",
        validator=Range(64, nullable=True),
    ),
    ConfigKey(
        ENVIRONMENT,
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        doc=(
            "With task.isolation=dedicated: the virtual environment in which the process of the connector runs, one of those "
            "that plugin.path of the worker lists. Its packages go before the worker's."
        ),
        group="Isolation",
        order=3,
        width=Width.LONG,
        display_name="Environment of Tasks",
    ),
)


@dataclass(frozen=True, slots=True)
class Isolation:
    """A connector's wishes."""

    dedicated: bool
    memory_limit_bytes: int | None
    environment: Path | None


def isolation_of(config: Mapping[str, str | None], environments: Sequence[Path]) -> Isolation:
    """``environments`` are those of the worker's ``plugin.path``. Raises ConfigError for what is wrong."""
    values = {}
    for key in ISOLATION_KEYS:
        value = parse_value(key.name, config.get(key.name) or key.default, key.type)
        if value is not None and key.validator is not None:
            key.validator(key.name, value)
        values[key.name] = value
    dedicated = values[ISOLATION] == _DEDICATED
    for name in (MEMORY_LIMIT, ENVIRONMENT):
        if values[name] is not None and not dedicated:
            raise ConfigError.invalid(name, values[name], f"only a connector with {ISOLATION}={_DEDICATED} can have it")
    limit, environment = values[MEMORY_LIMIT], values[ENVIRONMENT]
    return Isolation(
        dedicated,
        None if limit is None else limit * 1024 * 1024,
        None if environment is None else checked_environment(environment, environments),
    )
