"""``task.isolation`` and related keys: a dedicated process for a connector. Apache's workers do not have them."""

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
from worker.config.plugin_path import validate_environment

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
            "shared runs the connector and its tasks in processes shared with other connectors. dedicated gives them their "
            "own, so that a crash, a library that holds the GIL, or a memory leak affects only this connector."
        ),
        group="Isolation",
        order=1,
        width=Width.SHORT,
        display_name="Task Isolation",
        validator=one_of(_SHARED, _DEDICATED),
    ),
    ConfigKey(
        MEMORY_LIMIT,
        ConfigType.INT,
        None,
        importance=Importance.LOW,
        doc=(
            "With task.isolation=dedicated: limit in MiB of the resident memory of the connector's process and its children. "
            "If it is exceeded, the process is killed and the connector is FAILED."
        ),
        group="Isolation",
        order=2,
        width=Width.SHORT,
        display_name="Task Memory Limit (MiB)",
        validator=Range(64, nullable=True),
    ),
    ConfigKey(
        ENVIRONMENT,
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        doc=(
            "With task.isolation=dedicated: the virtual environment that the connector's process runs in. It must be listed in "
            "the worker's plugin.path. Its packages take precedence over the worker's."
        ),
        group="Isolation",
        order=3,
        width=Width.LONG,
        display_name="Task Virtual Environment",
    ),
)


@dataclass(frozen=True, slots=True)
class Isolation:
    """A connector's isolation settings."""

    dedicated: bool
    memory_limit_bytes: int | None
    environment: Path | None


def parse_isolation(config: Mapping[str, str | None], environments: Sequence[Path]) -> Isolation:
    """Parses the isolation keys; ``environments`` are those of the worker's ``plugin.path``. Raises ConfigError."""
    values = {}
    for key in ISOLATION_KEYS:
        value = parse_value(key.name, config.get(key.name) or key.default, key.type)
        if value is not None and key.validator is not None:
            key.validator(key.name, value)
        values[key.name] = value
    dedicated = values[ISOLATION] == _DEDICATED
    for name in (MEMORY_LIMIT, ENVIRONMENT):
        if values[name] is not None and not dedicated:
            raise ConfigError.invalid(name, values[name], f"it requires {ISOLATION}={_DEDICATED}")
    limit, environment = values[MEMORY_LIMIT], values[ENVIRONMENT]
    return Isolation(
        dedicated,
        None if limit is None else limit * 1024 * 1024,
        None if environment is None else validate_environment(environment, environments),
    )
