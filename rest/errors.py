"""REST errors, and the one place that maps errors to HTTP statuses."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

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
from rest.responses import error_response

log = logging.getLogger(__name__)


class UnreadableBodyError(ConnectError):
    """The body is not the expected JSON: 500, as in Apache's worker (recordings create-bad-json, config-put-null-body)."""


class BodyTooLargeError(ConnectError):
    """The body exceeds the size limit: 413."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"The request body exceeds {max_bytes} bytes. To raise the limit, set rest.max.request.size.bytes of the worker"
        )


class BodyTooSlowError(ConnectError):
    """The client stopped sending the body, or sends it too slowly: 408."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The request body is incomplete: {reason}")


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
"""First match wins. Other errors are 500, as in Apache's ConnectExceptionMapper."""


def error_status(error: BaseException) -> int:
    """Returns the HTTP status of an error that a handler raised."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


@contextmanager
def blaming_request(*kinds: type[ConnectError]) -> Iterator[None]:
    """Turns errors of these kinds into status 400, for resources that are not Apache's, where the request causes them."""
    try:
        yield
    except kinds as e:
        raise BadRequestError(e.message) from e


def error_to_response(error: Exception) -> Response:
    """Returns the error response for an exception that a handler raised; logs unexpected ones."""
    status = error_status(error)
    if isinstance(error, ConnectError):
        return error_response(status, error.message)
    log.exception("Uncaught exception in REST call", exc_info=error)
    return error_response(status, str(error) or type(error).__name__)
