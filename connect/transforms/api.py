"""Transformations and predicates: one record in, one record or none out. Source: KIP-66, KIP-585."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef
from connect.record import ConnectRecord


class Transformation(ABC):
    """Changes or drops records. Configured once, then called only on the thread of one task."""

    @abstractmethod
    def configure(self, configs: Mapping[str, Any]) -> None:
        """Reads the keys under ``transforms.<alias>.``. Raises ConfigError."""

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef: ...

    @abstractmethod
    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Returns the changed record (it may be the same object), or None to drop it. Raises DataError."""

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        """Applies it to each record and returns one result per record. Raises for the first bad record; the worker then retries
        record by record, so a transformation that changes records in place must accept them again."""
        apply = self.apply
        return [apply(record) for record in records]

    def close(self) -> None:
        """Releases what ``configure`` opened. May be called more than once."""


class Predicate(ABC):
    """Selects the records that a transformation applies to."""

    @abstractmethod
    def configure(self, configs: Mapping[str, Any]) -> None: ...

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef: ...

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool: ...

    def test_batch(self, records: Sequence[ConnectRecord]) -> list[bool]:
        """Tests each record and returns one result per record."""
        test = self.test
        return [test(record) for record in records]

    def close(self) -> None:
        """Releases what ``configure`` opened. May be called more than once."""
