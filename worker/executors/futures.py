"""Helpers for futures: complete them once, chain them, and wait for several."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def succeed(future: Future[T], result: T) -> None:
    """Sets the result, unless the future is done."""
    with suppress(InvalidStateError):
        future.set_result(result)


def fail(future: Future[Any], error: BaseException) -> None:
    """Sets the error, unless the future is done."""
    with suppress(InvalidStateError):
        future.set_exception(error)


def done() -> Future[None]:
    """A future that is done."""
    future: Future[None] = Future()
    future.set_result(None)
    return future


def failed(error: BaseException) -> Future[Any]:
    """A future that has failed."""
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def outcome(call: Callable[[], T]) -> Future[T]:
    """Calls at once, and returns a future with the result or error."""
    future: Future[T] = Future()
    try:
        future.set_result(call())
    except Exception as e:
        future.set_exception(e)
    return future


def in_thread(name: str, call: Callable[[], T]) -> Future[T]:
    """Calls something that may block on a new thread."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            succeed(future, call())
        except BaseException as e:
            fail(future, e)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def pass_on(inner: Future[Any], outer: Future[T], convert: Callable[[Any], T]) -> None:
    """Completes ``outer`` as ``inner`` is completed, with the result converted; an error of ``convert`` fails it."""

    def settle(_: Future[Any]) -> None:
        error = inner.exception()
        if error is not None:
            fail(outer, error)
            return
        try:
            succeed(outer, convert(inner.result()))
        except Exception as e:
            fail(outer, e)

    inner.add_done_callback(settle)


def converted(inner: Future[Any], convert: Callable[[Any], T]) -> Future[T]:
    """A future that is completed as ``inner`` is, with the result converted."""
    outer: Future[T] = Future()
    pass_on(inner, outer, convert)
    return outer


def all_done(futures: Sequence[Future[Any]]) -> Future[None]:
    """A future that is done when all of these are, whether they succeeded or failed."""
    every: Future[None] = Future()
    if not futures:
        every.set_result(None)
        return every
    left = len(futures)
    lock = threading.Lock()

    def count(_: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            every.set_result(None)

    for future in futures:
        future.add_done_callback(count)
    return every
