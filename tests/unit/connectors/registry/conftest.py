"""An in-memory registry that replaces the client, to test converters without a network."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

import connectors.registry.converter as shared
from connect.errors import DataError
from connectors.registry.client import RegisteredSchema, SchemaRegistry


class MemoryRegistry(SchemaRegistry):
    """Keeps schemas by id and subject, as a registry does, in lists that tests read and write."""

    def __init__(self) -> None:
        self._schemas: list[RegisteredSchema] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked = 0

    def add(self, schema: RegisteredSchema) -> int:
        """The id of the schema, which is its place, from 1."""
        for number, known in enumerate(self._schemas, 1):
            if (known.text, known.type, known.references) == (schema.text, schema.type, schema.references):
                return number
        self._schemas.append(schema)
        return len(self._schemas)

    def schema(self, key: int | str) -> RegisteredSchema:
        self.asked += 1
        number = uuid.UUID(key).int if isinstance(key, str) else key
        if not 1 <= number <= len(self._schemas):
            raise DataError(f"There is no schema {key}")
        found = self._schemas[number - 1]
        return RegisteredSchema(number, found.text, found.type, found.references, None, found.has_rules)

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        self.asked += 1
        number = self.add(schema)
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def lookup(self, subject: str, schema: RegisteredSchema) -> RegisteredSchema | None:
        self.asked += 1
        number, versions = self.add(schema), self.subjects.get(subject, [])
        return self.version(subject, versions.index(number) + 1) if number in versions else None

    def latest(self, subject: str) -> RegisteredSchema:
        versions = self.subjects.get(subject, [])
        if not versions:
            raise DataError(f"There is no subject {subject}")
        return self.version(subject, len(versions))

    def version(self, subject: str, version: int) -> RegisteredSchema:
        self.asked += 1
        number = self.subjects[subject][version - 1]
        found = self.schema(number)
        return RegisteredSchema(number, found.text, found.type, found.references, version, found.has_rules)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> MemoryRegistry:
    """The registry that every converter of the test talks to."""
    found = MemoryRegistry()
    monkeypatch.setattr(shared, "SchemaRegistry", lambda settings: found)
    return found


@pytest.fixture
def configured(registry: MemoryRegistry) -> Callable[..., Any]:
    """Makes a configured converter: ``configured(AvroConverter, is_key=False, **{"key": "value"})``."""

    def make(kind: type[Any], is_key: bool = False, **configs: str) -> Any:
        converter = kind()
        converter.configure({"schema.registry.url": "http://localhost:8081", **configs}, is_key)
        return converter

    return make
