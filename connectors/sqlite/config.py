"""The typed configuration of the SQLite source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from connect.config.parsing import split_list
from connect.errors import ConfigError
from connectors.cdc.source_settings import SourceSettings, SourceSnapshotSettings, shared_settings, shared_snapshot_settings
from connectors.sqlite.config_keys import WORD, config_def
from connectors.sqlite.types import KINDS
from connectors.sqlite.types.config import SqliteTypeSettings
from connectors.sqlite.unsupported_keys import check_dynamic_keys


@dataclass(frozen=True, slots=True)
class SqliteSnapshotSettings(SourceSnapshotSettings):
    """Settings of the snapshot. ``transaction_s`` is None for no limit."""

    transaction_s: float | None


@dataclass(frozen=True, slots=True)
class SqliteConfig(SourceSettings):
    """The whole configuration."""

    file: str
    busy_timeout_s: float
    capture_name: str
    drops_on_stop: bool
    loss_mode: str
    types: SqliteTypeSettings
    snapshot: SqliteSnapshotSettings
    tables_max: int
    tables_limit_action: str
    lag_warn_rows: int


_ONE_CONNECTION = {
    "snapshot.max.threads": 1, "snapshot.max.threads.multiplier": 1, "legacy.snapshot.max.threads": True,
    "snapshot.resume.enabled": True,
}  # fmt: skip
"""What other sources let users choose: one connection reads a file, in the order of keys."""


def parse_config(config: Mapping[str, str]) -> SqliteConfig:
    """Parses the configuration. Raises ConfigError for the first key that is missing, invalid, or not supported."""
    v = config_def().parse(config)
    for finding in check_dynamic_keys(config):
        if finding.errors:
            raise ConfigError(finding.errors[0], key=finding.name)
    busy_ms, mode = v["database.busy.timeout.ms"], v["snapshot.mode"].lower()
    transaction_ms = v["snapshot.transaction.max.ms"]
    v = {**v, **_ONE_CONNECTION, "database.query.timeout.ms": busy_ms}  # a query waits for nothing but locks
    return SqliteConfig(
        **shared_settings(v, config, WORD, "temp"),
        file=v["database.file"],
        busy_timeout_s=busy_ms / 1000,
        capture_name=v["capture.name"] or "",
        drops_on_stop=v["capture.drop.on.stop"],
        loss_mode=v["capture.loss.mode"],
        types=SqliteTypeSettings(
            decimal_mode=v["decimal.handling.mode"],
            time_mode=v["time.precision.mode"],
            binary_mode=v["binary.handling.mode"],
            kinds=parse_column_types(v["column.types"]),
        ),
        snapshot=SqliteSnapshotSettings(
            **shared_snapshot_settings(v, config),
            mode="no_data" if mode == "never" else mode,
            transaction_s=None if transaction_ms is None else transaction_ms / 1000,
        ),
        tables_max=v["guardrail.collections.max"],
        tables_limit_action=v["guardrail.collections.limit.action"].lower(),
        lag_warn_rows=v["changes.lag.warn.rows"],
    )


def parse_column_types(text: str | None) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Parses ``column.types``. Raises ConfigError."""
    found: list[tuple[re.Pattern[str], str]] = []
    for part in split_list(text):
        column, colon, kind = part.rpartition(":")
        if not colon or kind.strip().lower() not in KINDS:
            expected = f"expected <schema.table.column regular expression>:<kind>, with one of the kinds {', '.join(KINDS)}"
            raise ConfigError.invalid("column.types", part, expected)
        try:
            found.append((re.compile(column.strip(), re.IGNORECASE), kind.strip().lower()))
        except re.error as e:
            raise ConfigError.invalid("column.types", part, f"not a regular expression: {e}") from e
    return tuple(found)
