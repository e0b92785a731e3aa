"""Checks of answers that should come from a Connect worker: another program may be listening at the address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from connect.errors import ConnectError

T = TypeVar("T")


def as_object(answer: Any, source: str, has: Sequence[str] = ()) -> dict[str, Any]:
    """Returns an answer that is a JSON object with these members. ``source`` names the request in the error."""
    if not isinstance(answer, dict):
        raise _wrong(source, "did not answer with a JSON object")
    if missing := [name for name in has if name not in answer]:
        raise _wrong(source, f"answered without the member {missing[0]}")
    return answer


def as_list(answer: Any, source: str, of: type[T]) -> list[T]:
    """Returns an answer that is a JSON array of this type."""
    if not isinstance(answer, list) or not all(isinstance(one, of) for one in answer):
        raise _wrong(source, f"did not answer with a JSON array of {'strings' if of is str else 'objects'}")
    return answer


def as_config(answer: dict[str, Any], source: str) -> dict[str, str | None]:
    """Returns a configuration."""
    if not all(value is None or isinstance(value, str) for value in answer.values()):
        raise _wrong(source, "did not answer with a configuration: a value is not a string")
    return answer


def as_levels(answer: dict[str, Any], source: str) -> dict[str, Any]:
    """Returns the levels of loggers."""
    if not all(isinstance(one, dict) and "level" in one for one in answer.values()):
        raise _wrong(source, "did not answer with levels of loggers")
    return answer


def _wrong(source: str, problem: str) -> ConnectError:
    return ConnectError(f"{source} {problem}; is it a Connect worker?")
