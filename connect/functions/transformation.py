"""Python: a plain function as a transformation.

    transforms=clean
    transforms.clean.type=Python
    transforms.clean.function=shop.transforms:clean

    def clean(value): ...          # in shop/transforms.py

What it takes is in :mod:`connect.functions.binding`, what schemas its results get in :mod:`connect.functions.schemas`.
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
        doc="The function to call, as package.module:name, from what the worker can import (PYTHONPATH, plugin.path, installed "
        "packages; not Python's standard library). Its other parameters are settings: transforms.<name>.max.length is its "
        "parameter max_length. A class is made once a task, with the settings, and its instance called.",
    )
    .define(
        TAKES, ConfigType.STRING, None, validator=one_of(None, *SINGLE, *BATCH),
        doc="What the function is given: a record, value or key at a time, or all records, values or keys of a batch as a list, "
        "for which it returns a list of the same length. By default the name of its first parameter says it.",
    )
    .define(
        SCHEMA, ConfigType.STRING, "infer", validator=NonEmpty(),
        doc="Which schema a result of a function of keys or values gets when its original had one: infer (what fits keeps its "
        "schema, new fields get that of their value), keep (it must fit the original's), none, or package.module:NAME of a "
        "schema that every result must fit, whether its original had one or not.",
    )
)  # fmt: skip
_PLAIN = (dict, list, str, bool, int, float, bytes, bytearray, memoryview, decimal.Decimal, dt.date, dt.time, FarInstant)
_MAX_PLANS = 64
"""Plans kept per transformation. Sources share a handful of schemas; a stream of ever new ones must not fill the memory."""

Batch = Callable[[Sequence[Any]], Sequence[Any]]


class _SchemaPlan(NamedTuple):
    """What is known of one incoming schema."""

    schema: Schema
    """Held, so that the id by which the plan is found stays its own."""
    read: Callable[[Any], Any]
    inference: SchemaInference


class PythonTransformation(Transformation):
    """Calls a user's function. None from it drops the record; null keys and values are not shown to functions of them."""

    open_prefixes = ("",)  # whatever the table does not have is the function's own

    def __init__(self) -> None:
        self._function: BoundFunction | None = None

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        parsed = _CONFIG_DEF.parse(configs)
        own = {key: value for key, value in configs.items() if key not in _CONFIG_DEF.keys and key != STRICT}
        self._declared_schema = _declared_schema(parsed[SCHEMA])
        self._schema_mode: str = parsed[SCHEMA]
        self._plans: dict[int, _SchemaPlan] = {}
        function = self._function = bind_function(parsed[FUNCTION], parsed[TAKES], own, (*SINGLE, *BATCH))
        self._call = _build_batch_call(function)
        side = function.takes.removesuffix("s")
        self._of_records = side == "record"
        self._side = side
        self._read = attrgetter(side if side != "record" else "value")
        self._read_schema = attrgetter(f"{side}_schema" if side != "record" else "value_schema")

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return self.apply_batch((record,))[0]

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        try:
            return self._apply_to_records(records) if self._of_records else self._apply_to_side(records)
        except RecursionError as e:
            raise DataError("A value is nested too deeply to be given to a function, or was returned so") from e

    def _apply_to_records(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        results = list(self._call(_copy_deeply(records)))
        for result, given in zip(results, records, strict=True):
            if result is not None and result.__class__ is not given.__class__:
                raise self._wrong(result, f"{given.__class__.__name__} or None")
        return results

    def _apply_to_side(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        results: list[ConnectRecord | None] = list(records)
        data = list(map(self._read, records))
        schemas = list(map(self._read_schema, records))
        # Nulls pass, as with every transformation of a key or a value.
        places = [i for i, datum in enumerate(data) if datum is not None]
        answers = self._call(self._shown(data, schemas, places))
        side, schema_side = self._side, f"{self._side}_schema"
        copies, is_free = copy_records(records), self._declared_schema is None
        for i, answer in zip(places, answers, strict=True):
            if answer is None:
                results[i] = None
                continue
            results[i] = new = copies[i]
            schema = schemas[i]
            if schema is None and is_free and answer.__class__ is dict:
                setattr(new, side, answer)  # what most functions of schemaless values do, without the questions below
                continue
            schema, value = self._with_schema(schema, data[i], answer)
            setattr(new, schema_side, schema)
            setattr(new, side, value)
        return results

    def _shown(self, data: Sequence[Any], schemas: Sequence[Schema | None], places: Sequence[int]) -> list[Any]:
        """What the function gets: its own to change, for the worker may have to show the same records again."""
        shown: list[Any] = []
        last: Any = self
        read: Callable[[Any], Any] = plain_copy
        for i in places:
            datum, schema = data[i], schemas[i]
            if schema is not last:
                read, last = (plain_copy, None) if schema is None else (self._plan(schema).read, schema)
            if schema is not None and schema.fields is not None and (datum.__class__ is not Struct or datum.schema is not schema):
                datum = require_struct_of(schema, datum, "calling a function")
            shown.append(read(datum))
        return shown

    def _with_schema(self, schema: Schema | None, original: Any, answer: Any) -> tuple[Schema | None, Any]:
        if answer.__class__ is SchemaAndValue:
            return answer.schema, answer.value
        if self._declared_schema is not None:
            return self._declared_schema, conform(self._declared_schema, answer, "")
        if answer.__class__ is Struct:
            return answer.schema, answer
        if answer.__class__ is not dict and not isinstance(answer, _PLAIN):
            raise self._wrong(answer, "a value that Connect has a type for, or None")
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

    def _wrong(self, answer: Any, expected: str) -> DataError:
        assert self._function is not None
        hint = ""
        if isinstance(answer, list | tuple) and self._function.takes in SINGLE:
            hint = ": a transformation makes one record, or none, of each"
        elif self._of_records:
            hint = f"; a function of values has {TAKES}=value"
        found = f"returned a value of type {type(answer).__name__}"
        return DataError(f"function {self._function.code.name} {found}, expected {expected}{hint}")

    def close(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function.close()


def _copy_deeply(records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
    """Copies that the function may change, down to the lists in their values."""
    copies: list[ConnectRecord] = copy_records(records)
    for copy in copies:
        copy.key = copy_value(copy.key)
        copy.value = copy_value(copy.value)
    return copies


def _build_batch_call(function: BoundFunction) -> Batch:
    """Calls the function for a list of data. Its exceptions become errors that name its line."""
    call, code = function.call, function.code

    def one_by_one(data: Sequence[Any]) -> Sequence[Any]:
        try:
            return [call(datum) for datum in data]
        except FAILURES as e:
            raise code.failure(e, DataError) from e

    def at_once(data: Sequence[Any]) -> Sequence[Any]:
        if not data:
            return ()
        try:
            answers = call(data)
            if isinstance(answers, Iterator):
                answers = list(answers)
        except FAILURES as e:
            raise code.failure(e, DataError) from e
        if not isinstance(answers, list | tuple):
            expected = f"a list of as many results as there are {function.takes}"
            raise DataError(f"function {code.name} returned a value of type {type(answers).__name__}, expected {expected}")
        if len(answers) != len(data):
            raise DataError(
                f"function {code.name} returned {len(answers)} results for {len(data)} {function.takes}: "
                "it returns one for each, in order, and None where one is dropped"
            )
        return answers

    return at_once if function.takes in BATCH else one_by_one


def _declared_schema(way: str) -> Schema | None:
    if way in _SCHEMA_MODES:
        return None
    if ":" not in way:
        raise ConfigError.invalid(SCHEMA, way, f"expected {', '.join(_SCHEMA_MODES)} or package.module:NAME of a schema")
    schema = load(SCHEMA, way)
    if not isinstance(schema, Schema):
        raise ConfigError.invalid(SCHEMA, way, f"it is a value of type {type(schema).__name__}, expected a connect.Schema")
    return schema
