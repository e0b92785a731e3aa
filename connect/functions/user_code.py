"""Code that a configuration or a decorator names: finding it, and saying where it failed.

A function named in a configuration is trusted as a plugin class is: whoever may write configurations chooses it from all that the
worker can import. What belongs to the standard library is refused, for ``os:system`` is no transformation. That keeps accidents
and the plainest abuse out; it is no sandbox.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect.errors import ConfigError, ConnectError, DataError, RetriableError
from connect.suggestions import nearest

FAILURES = (Exception, SystemExit)
"""What code of a user may raise and must not end more than its task: a call of sys.exit() is a failure of that code."""
_HERE = str(Path(__file__).parent)
_KINDS: tuple[type[ConnectError], ...] = (RetriableError, DataError, ConfigError)
_FORM = "expected package.module:name"
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)


@dataclass(frozen=True, slots=True)
class UserCode:
    """A function or class of a user: its name as ``package.module:name``, and its file, None when it has none."""

    name: str
    file: str | None

    @classmethod
    def of(cls, target: Any) -> UserCode:
        """The code behind a function or class at hand."""
        plain = inspect.unwrap(target)
        name = getattr(plain, "__qualname__", type(plain).__qualname__)  # an instance that can be called has none
        return cls(f"{plain.__module__}:{name}", _file_of(plain))

    def failure(self, error: BaseException, default: type[ConnectError]) -> ConnectError:
        """The error to raise in place of one that this code raised: it says what, and in which line. One of ours keeps its kind,
        for what follows depends on it; any other becomes a ``default``."""
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), default)
        return kind(f"{_described(error)} (in function {self.name}{self._line(error)})")

    def _line(self, error: BaseException) -> str:
        """Where in the user's code it was: the innermost line of its file, else the first line that is not of this package."""
        trace, found, first = error.__traceback__, None, None
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if file == self.file:
                found = (file, trace.tb_lineno)
            elif first is None and not file.startswith(_HERE):
                first = (file, trace.tb_lineno)
            trace = trace.tb_next
        place = found or first
        return "" if place is None else f", {place[0]}, line {place[1]}"


def _described(error: BaseException) -> str:
    if isinstance(error, ConnectError) and error.message:
        return error.message
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _file_of(target: Any) -> str | None:
    code = getattr(target, "__code__", None)
    if code is not None:
        return str(code.co_filename)
    return getattr(sys.modules.get(target.__module__), "__file__", None)


@dataclass(frozen=True, slots=True)
class Importable:
    """Validator: the name of something that can be imported, ``package.module:name``, and is no part of the standard library."""

    def __call__(self, name: str, value: Any) -> None:
        load(name, value)

    def __str__(self) -> str:
        return "package.module:name, not of the standard library"


@dataclass(frozen=True, slots=True)
class ImportableCallable:
    """Validator: as :class:`Importable`, and it can be called."""

    def __call__(self, name: str, value: Any) -> None:
        load_callable(name, value)

    def __str__(self) -> str:
        return "package.module:name of a function or class, not of the standard library"


def load_callable(key: str, path: str | None) -> tuple[Callable[..., Any], UserCode]:
    """The function or class of that name. Raises ConfigError."""
    found = load(key, path)
    if not callable(found):
        raise ConfigError.invalid(key, path, f"it is a value of type {type(found).__name__}, expected a function or a class")
    return found, UserCode(str(path).strip(), _file_of(_plain(found)) if isinstance(_plain(found), _CODE) else None)


def load(key: str, path: str | None) -> Any:
    """What ``package.module:name`` stands for; imports the module. Raises ConfigError that says what is missing, the nearest
    name, and where was looked."""
    module_name, colon, attribute = (path or "").strip().partition(":")
    parts = attribute.split(".")
    if not colon or not all(part.isidentifier() for part in (*module_name.split("."), *parts)):
        raise ConfigError.invalid(key, path, _FORM)
    _refuse_standard(key, path, module_name)
    found: Any = _module(key, path, module_name)
    for part in parts:
        if part.startswith("__"):
            raise ConfigError.invalid(key, path, f"{part} is a name of Python's own, expected a function of yours")
        if not hasattr(found, part):
            known = [name for name, value in getattr(found, "__dict__", {}).items() if callable(value)]
            file = getattr(found, "__file__", None)
            reason = f"{module_name}{f' ({file})' if file else ''} has no {part}{_nearest(part, known)}"
            raise ConfigError.invalid(key, path, reason)
        found = getattr(found, part)
        if isinstance(found, types.ModuleType):
            raise ConfigError.invalid(key, path, f"{part} is a module, {_FORM}")
    plain = _plain(found)
    if isinstance(plain, _CODE):
        _refuse_standard(key, path, getattr(plain, "__module__", None) or "builtins")
    return found


def _plain(found: Any) -> Any:
    """The function inside of ``functools.partial``."""
    while isinstance(found, functools.partial):
        found = found.func
    return found


def _refuse_standard(key: str, path: str | None, module: str) -> None:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        reason = f"{top} is a module of Python's standard library, which configurations may not call; name a function of your own"
        raise ConfigError.invalid(key, path, reason)


def _module(key: str, path: str | None, name: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        missing = e.name or name
        if missing != name and not name.startswith(f"{missing}."):
            raise ConfigError.invalid(key, path, f"{name} cannot be imported: {_described(e)}{_import_line(e)}") from e
        raise ConfigError.invalid(key, path, _not_found(missing)) from e
    except FAILURES as e:
        # A module runs at its import, and may fail in any way.
        raise ConfigError.invalid(key, path, f"{name} cannot be imported: {_described(e)}{_import_line(e)}") from e


def _not_found(module: str) -> str:
    parent, _, last = module.rpartition(".")
    places = list(getattr(sys.modules.get(parent), "__path__", ())) if parent else _places()
    near = _nearest(last, [found.name for found in pkgutil.iter_modules(places)], parent)
    return (
        f"there is no module {module}{near} Looked in {', '.join(places)}. "
        "Put its folder on the worker's PYTHONPATH or plugin.path, or install its package"
    )


def _places() -> list[str]:
    """Where Python looks for what is not its own, in order."""
    standard = Path(sysconfig.get_path("stdlib"))
    own = {standard, standard / "lib-dynload"}
    places = dict.fromkeys(Path(entry or ".").absolute() for entry in sys.path)
    return [str(place) for place in places if place not in own and place.suffix != ".zip"]


def _nearest(name: str, known: Iterable[str], parent: str = "") -> str:
    near = nearest(name, (one for one in known if not one.startswith("_")))
    return f". Did you mean {f'{parent}.' if parent else ''}{near}?" if near else "."


def _import_line(error: BaseException) -> str:
    """The innermost line of a failed import that is not of the import system."""
    if isinstance(error, SyntaxError) and error.filename:
        return ""  # its text names file and line
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(("<frozen", _HERE)) and "importlib" not in file:
            place = f" ({file}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
