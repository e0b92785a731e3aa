"""Transformations and predicates: one record in, one record or none out. Source: KIP-66, KIP-585."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef
from connect.record import ConnectRecord


class Transformation(ABC):
    """Changes records. Configured once, then called on one task's thread only."""

    @abstractmethod
    def configure(self, configs: Mapping[str, Any]) -> None:
        """Takes the settings below ``transforms.<alias>.``. Raises ConfigError."""

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef: ...

    @abstractmethod
    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The changed record (it may be the same object), or None to drop it. Raises DataError."""

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        """The same for many, result by result. Raises on the first bad one; the worker then goes one by one, so a
        transformation that changes records in place must be able to see them again."""
        apply = self.apply
        return [apply(record) for record in records]

    def close(self) -> None:
        """Releases what ``configure`` opened. May be called twice."""


class Predicate(ABC):
    """Decides for which records a transformation runs."""

    @abstractmethod
    def configure(self, configs: Mapping[str, Any]) -> None: ...

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef: ...

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool: ...

    def test_batch(self, records: Sequence[ConnectRecord]) -> list[bool]:
        """The same for many, answer by answer."""
        test = self.test
        return [test(record) for record in records]

    def close(self) -> None:
        """Releases what ``configure`` opened. May be called twice."""
