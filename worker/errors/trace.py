"""Errors as text for statuses. The first line has the class name that Apache's workers show, and the message."""

from __future__ import annotations

import traceback

from connect import errors
from worker.config.secrets import SecretMask
from worker.error_text import describe, encodable
from worker.errors.stages import StageError, TaskPutError, ToleranceExceededError

_MAX_CHARACTERS = 100_000
"""A status is a Kafka record and must fit into its topic: escaped as JSON, this many characters stay below 1 MB."""
_JAVA = "org.apache.kafka.connect.errors."
_JAVA_NAMES: tuple[tuple[type[BaseException], str], ...] = (
    (errors.RetriableError, _JAVA + "RetriableException"),
    (errors.DataError, _JAVA + "DataException"),
    (errors.ConfigError, "org.apache.kafka.common.config.ConfigException"),
    (errors.NotFoundError, _JAVA + "NotFoundException"),
    (errors.AlreadyExistsError, _JAVA + "AlreadyExistsException"),
    (errors.BadRequestError, "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"),
    (errors.IllegalStateError, _JAVA + "IllegalWorkerStateException"),
)


def java_name(error: BaseException) -> str:
    """Returns the class that Apache's worker shows for this error."""
    if isinstance(error, StageError) and error.__cause__ is not None:
        return java_name(error.__cause__)
    return next((name for kind, name in _JAVA_NAMES if isinstance(error, kind)), _JAVA + "ConnectException")


def trace_of(error: BaseException, mask: SecretMask) -> str:
    """Returns ``<Java class>: <message>``, a line ``Caused by:`` for a failed record, and Python's traceback.

    Apache's first line for a failed record is ``...ConnectException: Tolerance exceeded in error handler``; the reason follows
    further down. Here the first line starts with the same words, for scripts, and continues with the reason, for people.
    """
    lines = "".join(traceback.format_exception(error)).rstrip()
    first = f"{java_name(error)}: {describe(error)}\n"
    cause = error.__cause__
    if isinstance(error, ToleranceExceededError | TaskPutError) and cause is not None:
        first += f"Caused by: {java_name(cause)}: {describe(cause)}\n"
    # Promise 9: secrets are masked.
    return _shorten(mask.mask(encodable(first + lines)))


def _shorten(text: str) -> str:
    omitted = len(text) - _MAX_CHARACTERS
    if omitted <= 0:
        return text
    half = _MAX_CHARACTERS // 2
    return f"{text[:half]}\n... {omitted} characters are omitted; see the log ...\n{text[-half:]}"
