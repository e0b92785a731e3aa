"""Failures as text, for statuses: the first line says what is wrong, under the class name that Apache's workers would show."""

from __future__ import annotations

import traceback

from connect import errors
from worker.config.secrets import SecretMask
from worker.error_text import describe, encodable
from worker.errors.stages import StageError, TaskPutError, ToleranceExceededError

_MOST_CHARACTERS = 100_000
"""A status is a record of Kafka; one larger than its topic takes would never be seen. Escaped as JSON it stays below 1 MB."""
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
    """The class that Apache's worker would show for this error."""
    if isinstance(error, StageError) and error.__cause__ is not None:
        return java_name(error.__cause__)
    return next((name for kind, name in _JAVA_NAMES if isinstance(error, kind)), _JAVA + "ConnectException")


def trace_of(error: BaseException, mask: SecretMask) -> str:
    """``<Java class>: <message>``, a line ``Caused by:`` for the failure of a record, and below it Python's own traceback;
    secrets hidden (promise 9).

    Apache's first line for a failed record is ``...ConnectException: Tolerance exceeded in error handler``, and what happened is
    found further down. Here the line begins with the same words, for scripts, and goes on with what happened, for people.
    """
    lines = "".join(traceback.format_exception(error)).rstrip()
    first = f"{java_name(error)}: {describe(error)}\n"
    cause = error.__cause__
    if isinstance(error, ToleranceExceededError | TaskPutError) and cause is not None:
        first += f"Caused by: {java_name(cause)}: {describe(cause)}\n"
    return _cut(mask.mask(encodable(first + lines)))


def _cut(text: str) -> str:
    left_out = len(text) - _MOST_CHARACTERS
    if left_out <= 0:
        return text
    half = _MOST_CHARACTERS // 2
    return f"{text[:half]}\n... {left_out} characters are left out here; the log has them ...\n{text[-half:]}"
