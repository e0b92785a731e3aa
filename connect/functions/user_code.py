"""Loads users' functions by name, and reports where they failed.

A function named in a configuration is trusted as much as a plugin class: whoever may write configurations can choose anything
that the worker can import. Functions of the standard library, such as ``os:system``, are rejected. That prevents accidents and
the simplest abuse, but it is not a sandbox.
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
"""Exceptions of user code that fail only its task, including sys.exit()."""
_PACKAGE_FOLDER = str(Path(__file__).parent)
_KEPT_CLASSES: tuple[type[ConnectError], ...] = (RetriableError, DataError, ConfigError)
_EXPECTED = "expected package.module:name"
_CODE_TYPES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)


@dataclass(frozen=True, slots=True)
class UserCode:
    """A user's function or class: its name as ``package.module:name``, and its file, if it has one."""

    name: str
    file: str | None

    @classmethod
    def of(cls, target: Any) -> UserCode:
        """Describes a function or class."""
        plain = inspect.unwrap(target)
        name = getattr(plain, "__qualname__", type(plain).__qualname__)  # callable instances have none
        return cls(f"{plain.__module__}:{name}", _file_of(plain))

    def failure(self, error: BaseException, default: type[ConnectError]) -> ConnectError:
        """Converts an exception of this code to an error with message and line. Connect errors keep their class, which decides
        how they are handled; others become a ``default``."""
        error_class = next((error_class for error_class in _KEPT_CLASSES if isinstance(error, error_class)), default)
        return error_class(f"{_describe(error)} (in function {self.name}{self._find_line(error)})")

    def _find_line(self, error: BaseException) -> str:
        """The line that failed: the innermost line of the user's file, else the first line outside this package."""
        trace, found, first = error.__traceback__, None, None
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if file == self.file:
                found = (file, trace.tb_lineno)
            elif first is None and not file.startswith(_PACKAGE_FOLDER):
                first = (file, trace.tb_lineno)
            trace = trace.tb_next
        place = found or first
        return "" if place is None else f", {place[0]}, line {place[1]}"


def _describe(error: BaseException) -> str:
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
    """Validates the name of something importable, ``package.module:name``, outside the standard library."""

    def __call__(self, name: str, value: Any) -> None:
        load(name, value)

    def __str__(self) -> str:
        return "package.module:name, outside the standard library"


@dataclass(frozen=True, slots=True)
class ImportableCallable:
    """Validates the name of an importable callable, ``package.module:name``, outside the standard library."""

    def __call__(self, name: str, value: Any) -> None:
        load_callable(name, value)

    def __str__(self) -> str:
        return "package.module:name of a function or class, outside the standard library"


def load_callable(key: str, path: str | None) -> tuple[Callable[..., Any], UserCode]:
    """Loads a function or class by name. Raises ConfigError."""
    found = load(key, path)
    if not callable(found):
        raise ConfigError.invalid(key, path, f"it is a value of type {type(found).__name__}, expected a function or a class")
    return found, UserCode(
        str(path).strip(), _file_of(_unwrap_partial(found)) if isinstance(_unwrap_partial(found), _CODE_TYPES) else None
    )


def load(key: str, path: str | None) -> Any:
    """Imports ``package.module:name``. Raises ConfigError with what is missing, the nearest name, and the search path."""
    module_name, colon, attribute = (path or "").strip().partition(":")
    parts = attribute.split(".")
    if not colon or not all(part.isidentifier() for part in (*module_name.split("."), *parts)):
        raise ConfigError.invalid(key, path, _EXPECTED)
    _reject_standard_library(key, path, module_name)
    found: Any = _import_module(key, path, module_name)
    for part in parts:
        if part.startswith("__"):
            raise ConfigError.invalid(key, path, f"{part} is a special name of Python; expected a function of yours")
        if not hasattr(found, part):
            known = [name for name, value in getattr(found, "__dict__", {}).items() if callable(value)]
            file = getattr(found, "__file__", None)
            reason = f"{module_name}{f' ({file})' if file else ''} has no {part}{_suggest(part, known)}"
            raise ConfigError.invalid(key, path, reason)
        found = getattr(found, part)
        if isinstance(found, types.ModuleType):
            raise ConfigError.invalid(key, path, f"{part} is a module, {_EXPECTED}")
    plain = _unwrap_partial(found)
    if isinstance(plain, _CODE_TYPES):
        _reject_standard_library(key, path, getattr(plain, "__module__", None) or "builtins")
    return found


def _unwrap_partial(found: Any) -> Any:
    """Returns the function inside ``functools.partial``."""
    while isinstance(found, functools.partial):
        found = found.func
    return found


def _reject_standard_library(key: str, path: str | None, module: str) -> None:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        reason = f"{top} is a module of Python's standard library, which configurations may not call; name a function of your own"
        raise ConfigError.invalid(key, path, reason)


def _import_module(key: str, path: str | None, name: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        missing = e.name or name
        if missing != name and not name.startswith(f"{missing}."):
            raise ConfigError.invalid(key, path, f"{name} cannot be imported: {_describe(e)}{_import_line(e)}") from e
        raise ConfigError.invalid(key, path, _missing_module_message(missing)) from e
    except FAILURES as e:
        # Importing a module runs its code, which may fail in any way.
        raise ConfigError.invalid(key, path, f"{name} cannot be imported: {_describe(e)}{_import_line(e)}") from e


def _missing_module_message(module: str) -> str:
    parent, _, last = module.rpartition(".")
    folders = list(getattr(sys.modules.get(parent), "__path__", ())) if parent else _search_path()
    near = _suggest(last, [found.name for found in pkgutil.iter_modules(folders)], parent)
    return (
        f"there is no module {module}{near} Looked in {', '.join(folders)}. "
        "Put its folder on the worker's PYTHONPATH or plugin.path, or install its package"
    )


def _search_path() -> list[str]:
    """Python's search path without the standard library, in order."""
    standard = Path(sysconfig.get_path("stdlib"))
    own = {standard, standard / "lib-dynload"}
    folders = dict.fromkeys(Path(entry or ".").absolute() for entry in sys.path)
    return [str(folder) for folder in folders if folder not in own and folder.suffix != ".zip"]


def _suggest(name: str, known: Iterable[str], parent: str = "") -> str:
    near = nearest(name, (one for one in known if not one.startswith("_")))
    return f". Did you mean {f'{parent}.' if parent else ''}{near}?" if near else "."


def _import_line(error: BaseException) -> str:
    """The innermost line of a failed import outside the import system."""
    if isinstance(error, SyntaxError) and error.filename:
        return ""  # the message has file and line
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(("<frozen", _PACKAGE_FOLDER)) and "importlib" not in file:
            place = f" ({file}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
