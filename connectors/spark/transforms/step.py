"""A transformation of the chain that is being compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.data.schema import Schema
from connect.record import SinkRecord
from connect.strict import is_strict
from connect.transforms.api import Transformation
from connect.transforms.config import REPLACE_NULL
from connect.transforms.key_or_value import KeyOrValueTransformation, Plan
from connectors.spark.transforms.branches import Branch, Datum
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.stored_types import example_value

_RECORD = SinkRecord("", 0, None, None, None, None, 0)


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """The configured transformation, and its parsed settings. Schemas come from the transformation itself, so that only the
    values are compiled. ``is_sink``: records have an offset."""

    alias: str
    transformation: Transformation
    settings: Mapping[str, Any]
    values: Mapping[str, Any]
    is_sink: bool
    prefix: str

    def column(self, name: str) -> str:
        """A column of the table that the SQL reads."""
        return self.prefix + name

    @property
    def part(self) -> str:
        """The part of the record that it reads: key or value."""
        assert isinstance(self.transformation, KeyOrValueTransformation)
        return self.transformation.part

    @property
    def replace_null(self) -> bool:
        return bool(self.values[REPLACE_NULL])

    @property
    def strict(self) -> bool:
        return is_strict(self.settings)

    def plan(self, schema: Schema) -> Plan:
        """What the transformation itself does with data of a schema. Raises ConnectError if they are all errors."""
        assert isinstance(self.transformation, KeyOrValueTransformation)
        return self.transformation.plan_for(schema, example_value(schema))

    def schemas(self, branch: Branch) -> tuple[Schema, Schema]:
        """The schemas of the key or value before and after. Raises NotCompilable for data without a schema, and ConnectError."""
        schema = branch.datum(self.part).require_schema(self.part)
        changed = self.plan(schema).schema
        assert changed is not None
        return schema, changed


def after_null(step: CompiledStep, branch: Branch) -> Branch:
    """A record with a null key or value after the transformation. Raises NotCompilable if it is not null any more, and
    ConnectError if a null is an error."""
    transformation = step.transformation
    assert isinstance(transformation, KeyOrValueTransformation)
    if transformation.passes_null:
        return branch
    schema = branch.datum(step.part).null_schema
    plan = transformation.plan_for(schema, None)
    converted = plan.convert(None, _RECORD) if plan.purpose is None else transformation.convert_null(schema)
    if converted is not None:
        raise NotCompilable(f"a null {step.part} becomes a value without a schema")
    return branch.with_datum(step.part, Datum.null(plan.schema))
