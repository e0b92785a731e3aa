"""Python: uses a plain function as a transformation.

    transforms=clean
    transforms.clean.type=Python
    transforms.clean.function=shop.transforms:clean

    def clean(value): ...          # in shop/transforms.py

:mod:`connect.functions.binding` defines its arguments, :mod:`connect.functions.schemas` the schemas of its results.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import NonEmpty, one_of
from connect.data.logical import FarInstant
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.functions.binding import BATCH, FUNCTION, SCHEMA, SINGLE, TAKES, BoundFunction, bind_function
from connect.functions.schemas import SchemaInference, conform, copy_value, plain_copy, plain_reader
from connect.functions.user_code import FAILURES, ImportableCallable, load
from connect.record import ConnectRecord, SchemaAndValue
from connect.strict import STRICT
from connect.transforms.api import Transformation
from connect.transforms.record_copies import copy_records
from connect.transforms.structs import require_struct_of

_SCHEMA_MODES = ("infer", "keep", "none")
_CONFIG_DEF = (
    ConfigDef()
    .define(
        FUNCTION, ConfigType.STRING, validator=ImportableCallable(), importance=Importance.HIGH,
        doc="Function to call, as package.module:name, from anything that the worker can import (PYTHONPATH, plugin.path, "
        "installed packages; not Python's standard library). Its other parameters are settings: transforms.<name>.max.length "
        "sets max_length. A class is instantiated once per task, with the settings, and its instance is called.",
    )
    .define(
        TAKES, ConfigType.STRING, None, validator=one_of(None, *SINGLE, *BATCH),
        doc="Argument of the function: a single record, value, or key, or a list of all records, values, or keys of a batch, for "
        "which it returns a list of the same length. By default, the name of its first parameter.",
    )
    .define(
        SCHEMA, ConfigType.STRING, "infer", validator=NonEmpty(),
        doc="Schema of a returned key or value if the original had one: infer (fields that fit keep their schema, new fields get "
        "the schema of their value), keep (it must fit the original schema), none, or package.module:NAME of a schema that "
        "every result must fit, also if the original had none.",
    )
)  # fmt: skip
_PLAIN_CLASSES = (dict, list, str, bool, int, float, bytes, bytearray, memoryview, decimal.Decimal, dt.date, dt.time, FarInstant)
_MAX_PLANS = 64
"""Plans cached per transformation, bounded in case every record has a new schema."""

Batch = Callable[[Sequence[Any]], Sequence[Any]]


class _SchemaPlan(NamedTuple):
    """How values of one incoming schema are read and converted back."""

    schema: Schema
    """Held so that its id, the key of the plan, stays valid."""
    read: Callable[[Any], Any]
    inference: SchemaInference


class PythonTransformation(Transformation):
    """Calls a user's function. If it returns None, the record is dropped. Functions of keys or values are not called for null."""

    open_prefixes = ("",)  # other keys are settings of the function

    def __init__(self) -> None:
        self._function: BoundFunction | None = None

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        parsed = _CONFIG_DEF.parse(configs)
        own = {key: value for key, value in configs.items() if key not in _CONFIG_DEF.keys and key != STRICT}
        self._declared_schema = _load_declared_schema(parsed[SCHEMA])
        self._schema_mode: str = parsed[SCHEMA]
        self._plans: dict[int, _SchemaPlan] = {}
        function = self._function = bind_function(parsed[FUNCTION], parsed[TAKES], own, (*SINGLE, *BATCH))
        self._call = _build_batch_call(function)
        attribute = function.takes.removesuffix("s")
        self._of_records = attribute == "record"
        self._attribute = attribute
        self._read = attrgetter(attribute if attribute != "record" else "value")
        self._read_schema = attrgetter(f"{attribute}_schema" if attribute != "record" else "value_schema")

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return self.apply_batch((record,))[0]

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        try:
            return self._apply_to_records(records) if self._of_records else self._apply_to_attribute(records)
        except RecursionError as e:
            raise DataError("A value that was passed to the function, or returned by it, is nested too deeply") from e

    def _apply_to_records(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        results = list(self._call(_copy_deeply(records)))
        for result, given in zip(results, records, strict=True):
            if result is not None and result.__class__ is not given.__class__:
                raise self._wrong_result_error(result, f"{given.__class__.__name__} or None")
        return results

    def _apply_to_attribute(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        results: list[ConnectRecord | None] = list(records)
        data = list(map(self._read, records))
        schemas = list(map(self._read_schema, records))
        # Nulls pass, as in other transformations of keys and values.
        indexes = [i for i, datum in enumerate(data) if datum is not None]
        answers = self._call(self._plain_data(data, schemas, indexes))
        attribute, schema_attribute = self._attribute, f"{self._attribute}_schema"
        copies, is_undeclared = copy_records(records), self._declared_schema is None
        for i, answer in zip(indexes, answers, strict=True):
            if answer is None:
                results[i] = None
                continue
            results[i] = new = copies[i]
            schema = schemas[i]
            if schema is None and is_undeclared and answer.__class__ is dict:
                setattr(new, attribute, answer)  # fast path for the most common case
                continue
            schema, value = self._with_schema(schema, data[i], answer)
            setattr(new, schema_attribute, schema)
            setattr(new, attribute, value)
        return results

    def _plain_data(self, data: Sequence[Any], schemas: Sequence[Schema | None], indexes: Sequence[int]) -> list[Any]:
        """Copies the data for the function, which may change them; the worker may pass the same records again."""
        plain: list[Any] = []
        last: Any = self
        read: Callable[[Any], Any] = plain_copy
        for i in indexes:
            datum, schema = data[i], schemas[i]
            if schema is not last:
                read, last = (plain_copy, None) if schema is None else (self._plan(schema).read, schema)
            if schema is not None and schema.fields is not None and (datum.__class__ is not Struct or datum.schema is not schema):
                datum = require_struct_of(schema, datum, "calling a function")
            plain.append(read(datum))
        return plain

    def _with_schema(self, schema: Schema | None, original: Any, answer: Any) -> tuple[Schema | None, Any]:
        if answer.__class__ is SchemaAndValue:
            return answer.schema, answer.value
        if self._declared_schema is not None:
            return self._declared_schema, conform(self._declared_schema, answer, "")
        if answer.__class__ is Struct:
            return answer.schema, answer
        if answer.__class__ is not dict and not isinstance(answer, _PLAIN_CLASSES):
            raise self._wrong_result_error(answer, "a value that has a Connect type, or None")
        if schema is None or self._schema_mode == "none":
            return None, answer
        if self._schema_mode == "keep":
            return schema, conform(schema, answer, "")
        return self._plan(schema).inference.convert(original, answer)

    def _plan(self, schema: Schema) -> _SchemaPlan:
        known = self._plans.get(id(schema))
        if known is None:
            if len(self._plans) >= _MAX_PLANS:
                del self._plans[next(iter(self._plans))]
            known = self._plans[id(schema)] = _SchemaPlan(schema, plain_reader(schema), SchemaInference(schema))
        return known

    def _wrong_result_error(self, answer: Any, expected: str) -> DataError:
        assert self._function is not None
        hint = ""
        if isinstance(answer, list | tuple) and self._function.takes in SINGLE:
            hint = ": a transformation returns one record or None"
        elif self._of_records:
            hint = f"; for a function of values, set {TAKES}=value"
        found = f"returned a value of type {type(answer).__name__}"
        return DataError(f"function {self._function.code.name} {found}, expected {expected}{hint}")

    def close(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function.close()


def _copy_deeply(records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
    """Copies records with their keys and values, so that the function may change them."""
    copies: list[ConnectRecord] = copy_records(records)
    for copy in copies:
        copy.key = copy_value(copy.key)
        copy.value = copy_value(copy.value)
    return copies


def _build_batch_call(function: BoundFunction) -> Batch:
    """Builds the call for a list of data. Exceptions of the function become errors that name its line."""
    call, code = function.call, function.code

    def call_each(data: Sequence[Any]) -> Sequence[Any]:
        try:
            return [call(datum) for datum in data]
        except FAILURES as e:
            raise code.failure(e, DataError) from e

    def call_batch(data: Sequence[Any]) -> Sequence[Any]:
        if not data:
            return ()
        try:
            answers = call(data)
            if isinstance(answers, Iterator):
                answers = list(answers)
        except FAILURES as e:
            raise code.failure(e, DataError) from e
        if not isinstance(answers, list | tuple):
            expected = f"a list with one result for each of the {function.takes}"
            raise DataError(f"function {code.name} returned a value of type {type(answers).__name__}, expected {expected}")
        if len(answers) != len(data):
            raise DataError(
                f"function {code.name} returned {len(answers)} results for {len(data)} {function.takes}: "
                "it must return one for each, in order, and None for a dropped record"
            )
        return answers

    return call_batch if function.takes in BATCH else call_each


def _load_declared_schema(mode: str) -> Schema | None:
    if mode in _SCHEMA_MODES:
        return None
    if ":" not in mode:
        raise ConfigError.invalid(SCHEMA, mode, f"expected {', '.join(_SCHEMA_MODES)} or package.module:NAME of a schema")
    schema = load(SCHEMA, mode)
    if not isinstance(schema, Schema):
        raise ConfigError.invalid(SCHEMA, mode, f"it is a value of type {type(schema).__name__}, expected a connect.Schema")
    return schema
