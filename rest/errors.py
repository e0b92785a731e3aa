"""The one place where errors become statuses."""

from __future__ import annotations

import logging

from starlette.responses import Response

from connect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConnectError,
    ForbiddenError,
    IllegalStateError,
    NotFoundError,
    NotReadyError,
)
from rest.responses import error_answer

log = logging.getLogger(__name__)


class UnreadableBodyError(ConnectError):
    """The body is not the JSON that was expected. 500, as Apache answers (recordings create-bad-json, config-put-null-body)."""


class BodyTooLargeError(ConnectError):
    """A body beyond the limit: 413."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"The request body is longer than {max_bytes} bytes. The limit is the worker's key rest.max.request.size.bytes"
        )


class BodyTooSlowError(ConnectError):
    """A client that does not send what it announced: 408."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"The request body is incomplete, and nothing of it has come for {timeout_s:g} s")


STATUSES: tuple[tuple[type[ConnectError], int], ...] = (
    (NotFoundError, 404),
    (AlreadyExistsError, 409),
    (IllegalStateError, 409),
    (BadRequestError, 400),
    (ForbiddenError, 403),
    (NotReadyError, 503),
    (BodyTooLargeError, 413),
    (BodyTooSlowError, 408),
)
"""First match wins; every other error is 500, as in Apache's ConnectExceptionMapper."""


def status_of(error: BaseException) -> int:
    """The HTTP status of an error that a handler raised."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def answer_failure(error: Exception) -> Response:
    """The error body for whatever a handler raised."""
    status = status_of(error)
    if isinstance(error, ConnectError):
        return error_answer(status, error.message)
    log.exception("Uncaught exception in REST call", exc_info=error)
    return error_answer(status, str(error) or type(error).__name__)
