"""Failures as text, for statuses: the first line says what is wrong, under the class name that Apache's workers would show."""

from __future__ import annotations

import traceback

from connect import errors
from worker.secrets import SecretMask
from worker.stages import StageError, describe

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
    """``<Java class>: <message>`` and below it Python's own traceback, secrets hidden (promise 9)."""
    lines = "".join(traceback.format_exception(error)).rstrip()
    return mask.mask(f"{java_name(error)}: {describe(error)}\n{lines}")
