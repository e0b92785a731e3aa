"""The tree of errors.

    ConnectError                     an operation failed; the task that raised it fails
    ├── RetriableError               the same call may succeed later; the worker repeats it
    ├── DataError                    a value cannot be converted without loss, or is invalid
    │   └── SchemaError              a schema is invalid, or two schemas are incompatible
    ├── ConfigError                  a configuration is invalid: key, value, what was expected (exit code 2)
    │   └── PluginNotFoundError      no plugin has that name; lists the known ones
    ├── NotFoundError                a connector, task, or topic does not exist (REST 404)
    ├── AlreadyExistsError           a name is taken (REST 409)
    ├── BadRequestError              a REST request is invalid (REST 400)
    ├── IllegalStateError            a call is not allowed in the current state (REST 409)
    ├── ForbiddenError               a request is disabled or wrongly signed (REST 403)
    ├── NotReadyError                the worker cannot answer yet (REST 503)
    ├── NotLeaderError               another worker must answer; names it (REST forwards to it)
    ├── FencedError                  another writer has taken over
    ├── UnsupportedError             the connector does not support an operation
    └── UnreachableError             a broker, database, or worker does not answer (exit code 3)

The class of an error, never its text, decides whether to retry.
"""

from __future__ import annotations

from collections.abc import Iterator


class ConnectError(Exception):
    """Base class of all errors. The message names the object, the value (unless secret), and what was expected."""

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""


class RetriableError(ConnectError):
    """The operation failed for a reason that may be temporary. The worker repeats the call with the same input."""


class DataError(ConnectError):
    """A value or record cannot be converted or used. ``errors.tolerance`` decides what happens next."""

    field: str | None = None
    """The path of the field in question, for reports of the error: Apache's messages do not name it."""

    def in_field(self, name: str) -> None:
        """Records that the error concerns this field or a value inside it."""
        self.field = name if self.field is None else f"{name}.{self.field}"


class ErrantRecordError(DataError):
    """A source could not convert what it has read. With ``skip``, the record is skipped whatever ``errors.tolerance`` says."""

    def __init__(self, message: str, *, skip: bool = False) -> None:
        super().__init__(message)
        self.skip = skip


class SchemaError(DataError):
    """A schema is malformed, or does not match a value or another schema."""


class ConfigError(ConnectError):
    """A configuration is invalid. ``key`` is set when one key is wrong.

    The message has Kafka's form: ``Invalid value V for configuration K: <reason>``.
    """

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key

    @classmethod
    def invalid(cls, key: str, value: object, reason: str | None = None) -> ConfigError:
        """Returns the error for one invalid value, in Kafka's words."""
        shown = "null" if value is None else value
        text = f"Invalid value {shown} for configuration {key}"
        return cls(f"{text}: {reason}" if reason else text, key=key)


class PluginNotFoundError(ConfigError):
    """No plugin has that class name or alias. The message lists the nearest and all known names."""


class MissingExtraError(PluginNotFoundError):
    """A plugin or command needs packages of an extra of the distribution that is not installed. The message has the command that
    installs it."""


class NotFoundError(ConnectError):
    """The named connector, task, plugin, or topic does not exist."""


class AlreadyExistsError(ConnectError):
    """The name is taken."""


class BadRequestError(ConnectError):
    """The request is well-formed but cannot be carried out as it stands."""


class IllegalStateError(ConnectError):
    """The call is not allowed in the current state, such as a second ``start``."""


class ForbiddenError(ConnectError):
    """The request is not allowed: the feature is disabled, or the signature is wrong."""


class NotReadyError(ConnectError):
    """The worker has not yet read the state that it needs to answer."""


class NotLeaderError(ConnectError):
    """Another worker of the cluster must handle the request: the leader, or the one that runs the connector."""

    def __init__(self, message: str, forward_url: str | None) -> None:
        """``forward_url`` is None while no such worker is known."""
        super().__init__(message)
        self.forward_url = forward_url


class FencedError(ConnectError):
    """A transactional writer may no longer write: another writer has taken over, or one of its transactions failed. The write may
    be repeated after the writer has reinitialized its transactions."""


class UnsupportedError(ConnectError):
    """The connector does not support the operation."""


class UnreachableError(ConnectError):
    """A required system does not answer. The message names the address and what to check."""


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the error, its cause, the cause of that, and so on. ``raise error from error`` makes an error its own cause: each
    comes once."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__
