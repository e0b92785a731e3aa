"""Filter: drops every record that its predicate selects. Source: KIP-585."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef
from connect.record import ConnectRecord
from connect.transforms.api import Transformation

_CONFIG_DEF = ConfigDef()


class Filter(Transformation):
    """Drops all records."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        return None

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return None

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        return [None] * len(records)
