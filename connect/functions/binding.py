"""Binds a user's function: determines what it takes, parses its settings, and creates the instance of a class.

The name of the first parameter determines the argument: ``record``, ``value``, or ``key`` for single records, ``records``,
``values``, or ``keys`` for whole batches. Other parameters are settings. A class is instantiated once per task, with the
settings, and its instance is called; it may have a ``close`` method.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_type_hints

from connect.config.definition import NO_DEFAULT, ConfigDef
from connect.errors import ConfigError, ConnectError
from connect.functions.config import Setting, build_setting
from connect.functions.user_code import FAILURES, UserCode, load_callable
from connect.strict import STRICT
from connect.suggestions import nearest

FUNCTION = "function"
TAKES = "function.takes"
SINGLE = ("record", "value", "key")
BATCH = ("records", "values", "keys")
SCHEMA = "function.schema"
_RESERVED = ("type", "predicate", "negate", "plugin.version", FUNCTION, TAKES, SCHEMA, STRICT)
_Parameters = Sequence[inspect.Parameter]


@dataclass(frozen=True, slots=True)
class BoundFunction:
    """A user's function with its settings. ``takes`` is an entry of :data:`SINGLE` or :data:`BATCH`."""

    code: UserCode
    call: Callable[[Any], Any]
    takes: str
    instance: Any | None
    """The instance for this task; None for a plain function."""

    def close(self) -> None:
        """Calls the instance's ``close``, if it has one."""
        close = getattr(self.instance, "close", None)
        if close is not None:
            try:
                close()
            except FAILURES as e:
                raise self.code.failure(e, ConnectError) from e


def bind_function(path: str, takes: str | None, settings: Mapping[str, Any], allowed: Sequence[str]) -> BoundFunction:
    """Loads and binds a function. ``settings`` are the other keys of the stage, as text. Raises ConfigError."""
    target, code = load_callable(FUNCTION, path)
    is_class = isinstance(target, type)
    data, others = _split_parameters(path, target, is_class)
    argument_kind = takes or (data.name if data is not None and data.name in allowed else None)
    if argument_kind is None:
        named = "has no parameter" if data is None else f"names its first parameter {data.name}"
        raise ConfigError.invalid(
            FUNCTION, path, f"it {named}, which does not define its argument: call it {_join_or(allowed)}, or set {TAKES}"
        )
    if argument_kind not in allowed:
        raise ConfigError.invalid(TAKES, argument_kind, f"expected {_join_or(allowed)}")
    function: Any = target
    call = function.__call__ if is_class else function
    if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call):
        raise ConfigError.invalid(FUNCTION, path, "it is async, which is not supported; expected a plain function")
    if _never_returns_value(call):
        reason = "it has no return with a value, so it would return None for every record: add a return"
        raise ConfigError.invalid(FUNCTION, path, reason)
    arguments = _parse_arguments(path, target, others, settings)
    if not is_class:
        return BoundFunction(code, _apply_arguments(target, arguments), argument_kind, None)
    try:
        instance = function(**arguments)
    except ConnectError:
        raise
    except FAILURES as e:
        raise code.failure(e, ConfigError) from e
    return BoundFunction(code, instance, argument_kind, instance)


def _apply_arguments(function: Callable[..., Any], arguments: dict[str, Any]) -> Callable[[Any], Any]:
    return (lambda data: function(data, **arguments)) if arguments else function


def _never_returns_value(function: Any) -> bool:
    """Whether a function has no ``return`` with a value. Its author forgot it: every record would be dropped."""
    code = getattr(function, "__code__", None)
    if code is None or inspect.isgeneratorfunction(function):
        return False
    steps = list(dis.get_instructions(code))
    given = [before for before, step in pairwise(steps) if step.opname == "RETURN_VALUE"]
    given += [step for step in steps if step.opname == "RETURN_CONST"]  # Python 3.12 and later
    # A function that only raises has no return at all.
    return bool(given) and all(step.opname in ("LOAD_CONST", "RETURN_CONST") and step.argval is None for step in given)


def _split_parameters(path: str, target: Any, is_class: bool) -> tuple[inspect.Parameter | None, _Parameters]:
    """Splits parameters into the one for the data and those for settings. Functions in C may have no signature: no parameters."""
    if is_class and "__call__" not in dir(target):
        raise ConfigError.invalid(FUNCTION, path, "it is a class without __call__, which is needed to process data")
    try:
        parameters = list(inspect.signature(target).parameters.values())
        called = list(inspect.signature(target.__call__).parameters.values())[1:] if is_class else parameters
    except ValueError:
        return None, ()
    positional = [p for p in called if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    if not positional:
        raise ConfigError.invalid(FUNCTION, path, "it takes no argument, but must take one for the data")
    if is_class:
        needed = [p.name for p in called[1:] if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if needed:
            raise ConfigError.invalid(FUNCTION, path, f"its __call__ needs {', '.join(needed)}; settings go to __init__")
    return positional[0], parameters if is_class else [p for p in parameters if p is not positional[0]]


def _parse_arguments(path: str, target: Any, parameters: _Parameters, settings: Mapping[str, Any]) -> dict[str, Any]:
    config_def, known = ConfigDef(), dict[str, Setting]()
    hints = _read_hints(target, isinstance(target, type))
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            setting = _build_parameter_setting(path, parameter, hints.get(parameter.name, parameter.empty))
            known[setting.key.name] = setting
            config_def.add(setting.key)
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigError.invalid(
                FUNCTION, path, f"its parameter {parameter.name} is positional-only and cannot be a setting"
            )
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    unknown = [key for key in settings if key not in known]
    if unknown and not takes_any:
        near = nearest(unknown[0], known)
        listed = f"its settings are {', '.join(known)}" if known else "it has no settings"
        hint = f". Did you mean {near}?" if near else ""
        raise ConfigError(f"{path} has no setting {unknown[0]}: {listed}{hint}", key=unknown[0])
    parsed = config_def.parse(settings)
    given = {one.argument: one.value(parsed[key]) for key, one in known.items()}
    return {**given, **{key: settings[key] for key in unknown}}


def _build_parameter_setting(path: str, parameter: inspect.Parameter, hint: Any) -> Setting:
    default = NO_DEFAULT if parameter.default is parameter.empty else parameter.default
    if hint is parameter.empty:
        hint = str if default is NO_DEFAULT or default is None else type(default)
    setting = build_setting(path, parameter.name, hint, default)
    if setting.key.name in _RESERVED:
        raise ConfigError.invalid(
            FUNCTION, path, f"its parameter {parameter.name} has the name of a key that every stage has; rename it"
        )
    return setting


def _read_hints(target: Any, is_class: bool) -> dict[str, Any]:
    try:
        return get_type_hints(target.__init__ if is_class else target, include_extras=True)
    except (NameError, TypeError, AttributeError):
        # Hints that only a type checker can read, or none at all: types follow from defaults, or are text.
        return {}


def _join_or(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
