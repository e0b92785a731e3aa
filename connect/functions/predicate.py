"""Python: uses a plain function as a predicate.

predicates=large
predicates.large.type=Python
predicates.large.function=shop.rules:is_large
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.errors import DataError
from connect.functions.binding import FUNCTION, SINGLE, TAKES, BoundFunction, bind_function
from connect.functions.schemas import plain_copy
from connect.functions.user_code import FAILURES, ImportableCallable
from connect.record import ConnectRecord
from connect.strict import STRICT
from connect.transforms.api import Predicate

_CONFIG_DEF = (
    ConfigDef()
    .define(
        FUNCTION, ConfigType.STRING, validator=ImportableCallable(), importance=Importance.HIGH,
        doc="Function to call, as package.module:name, from anything that the worker can import (PYTHONPATH, plugin.path, "
        "installed packages; not Python's standard library). It returns True or False. Its other parameters are settings.",
    )
    .define(
        TAKES, ConfigType.STRING, None, validator=one_of(None, *SINGLE),
        doc="Argument of the function: a record, its value, or its key, which may be null. By default, the name of its first "
        "parameter.",
    )
)  # fmt: skip


class PythonPredicate(Predicate):
    """Calls a user's function, which must not change its argument."""

    open_prefixes = ("",)  # other keys are settings of the function

    def __init__(self) -> None:
        self._function: BoundFunction | None = None

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        parsed = _CONFIG_DEF.parse(configs)
        own = {key: value for key, value in configs.items() if key not in _CONFIG_DEF.keys and key != STRICT}
        function = self._function = bind_function(parsed[FUNCTION], parsed[TAKES], own, SINGLE)
        self._call, self._code, self._takes = function.call, function.code, function.takes

    def test(self, record: ConnectRecord) -> bool:
        datum = record if self._takes == "record" else plain_copy(record.value if self._takes == "value" else record.key)
        try:
            answer = self._call(datum)
        except FAILURES as e:
            raise self._code.failure(e, DataError) from e
        if answer is not True and answer is not False:
            raise DataError(
                f"predicate {self._code.name} returned a value of type {type(answer).__name__}, expected True or False"
            )
        return answer

    def close(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function.close()
