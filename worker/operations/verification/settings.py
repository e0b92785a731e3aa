"""The schedules that configurations ask for: keys, typed, with the values of config providers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect.config.definition import ConfigDef
from connect.errors import ConfigError, ConnectError
from worker.config.extension_keys import (
    VERIFY_IGNORED_COLUMNS,
    VERIFY_INTERVAL,
    VERIFY_KEYS,
    VERIFY_SOURCE,
    VERIFY_TABLES,
    VERIFY_TIMEOUT,
)
from worker.config.secrets import SecretMask

log = logging.getLogger(__name__)

Config = Mapping[str, str | None]

RESOLVE_AGAIN_MS = 60_000
"""After so long, references to config providers are resolved again."""
_KEYS = ConfigDef(VERIFY_KEYS)


@dataclass(frozen=True, slots=True)
class VerifySettings:
    """The keys of one connector, typed."""

    interval_ms: int
    timeout_ms: int
    source: str
    tables: str
    ignored_columns: str

    @classmethod
    def of(cls, config: Config) -> VerifySettings:
        """Parses the keys, without references to config providers. Raises ConfigError."""
        given = {key.name: value for key in VERIFY_KEYS if (value := config.get(key.name)) is not None}
        values = _KEYS.parse(given)
        names = (VERIFY_INTERVAL, VERIFY_TIMEOUT, VERIFY_SOURCE, VERIFY_TABLES, VERIFY_IGNORED_COLUMNS)
        return cls(*(values[name] for name in names))


def has_schedule(config: Config) -> bool:
    """Whether a connector may have a schedule. Cheap, since it is asked for every connector again and again."""
    return (config.get(VERIFY_INTERVAL) or "0").strip() != "0"


def _has_references(config: Config) -> bool:
    return has_schedule(config) and any("${" in (config.get(key.name) or "") for key in VERIFY_KEYS)


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a configuration."""

    config: Config
    settings: VerifySettings | None
    """None if it has no schedule, or an invalid one."""
    error: str | None
    again_ms: float

    def is_current(self, config: Config, now_ms: int) -> bool:
        return now_ms < self.again_ms and self.config == config


class ScheduleSettings:
    """The schedules of connectors. References are resolved by :meth:`read` only, so that no request waits for a provider."""

    def __init__(self, resolve: Callable[[Config], Config], mask: SecretMask) -> None:
        """``resolve`` returns keys of a configuration with the values of config providers, or raises ConfigError."""
        self._resolve = resolve
        self._mask = mask
        self._known: dict[str, _Read] = {}
        """Replaced, not changed, since other threads read it."""

    def read(self, running: Mapping[str, Config], others: Mapping[str, Config], now_ms: int) -> dict[str, VerifySettings]:
        """Returns the schedules of the connectors that run here. Of others, it reads those with references, for :meth:`shown`.

        An invalid schedule is logged once, if its connector runs here.
        """
        wanted = {name: config for name, config in others.items() if _has_references(config)}
        wanted.update((name, config) for name, config in running.items() if has_schedule(config))
        known = {}
        for name, config in wanted.items():
            before = self._known.get(name)
            if before is not None and before.is_current(config, now_ms):
                known[name] = before
                continue
            known[name] = read = self._read(config, before, now_ms)
            if name in running and read.error is not None and (before is None or before.error != read.error):
                log.warning("Connector %s is not verified: %s", name, self._mask.mask(read.error))
        self._known = known
        return {name: settings for name in running if name in known and (settings := known[name].settings) is not None}

    def _read(self, config: Config, before: _Read | None, now_ms: int) -> _Read:
        has_references = _has_references(config)
        again_ms = now_ms + RESOLVE_AGAIN_MS if has_references else float("inf")
        try:
            # Only these keys: this worker needs no secrets of connectors that run elsewhere.
            own = {key.name: config[key.name] for key in VERIFY_KEYS if key.name in config}
            settings = VerifySettings.of(self._resolve(own) if has_references else own)
        except ConnectError as e:
            # The last values stay, since a provider may be unavailable for a while.
            last = before.settings if before is not None and before.config == config else None
            return _Read(config, last, e.message, again_ms)
        return _Read(config, settings if settings.interval_ms else None, None, again_ms)

    def shown(self, name: str, config: Config) -> VerifySettings | None:
        """Returns the schedule of a connector, wherever it runs; None if it has none, an invalid one, or one with references that
        was not read yet. Safe from any thread."""
        if not has_schedule(config):
            return None
        if _has_references(config):
            known = self._known.get(name)
            return known.settings if known is not None and known.config == config else None
        try:
            settings = VerifySettings.of(config)
        except ConfigError:
            return None
        return settings if settings.interval_ms else None
