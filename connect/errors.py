"""Every error that the product raises on purpose.

    ConnectError                     something failed; the task that raised it fails
    ├── RetriableError               the same call may succeed later; the worker calls again
    ├── DataError                    a value cannot be converted without loss, or is not what was expected
    │   └── SchemaError              a schema itself is wrong, or two schemas do not fit
    ├── ConfigError                  a configuration is wrong: key, value, what was expected (exit code 2)
    │   └── PluginNotFoundError      no class of that name; says what there is
    ├── NotFoundError                a connector, task or topic that does not exist (REST 404)
    ├── AlreadyExistsError           a name that is taken (REST 409)
    ├── BadRequestError              a REST request that cannot be meant (REST 400)
    ├── IllegalStateError            the call does not fit the state the thing is in (REST 409)
    ├── ForbiddenError               a request that is switched off, or not signed rightly (REST 403)
    ├── NotReadyError                the worker cannot answer this yet (REST 503)
    ├── NotLeaderError               another worker has to answer; says which one (REST forwards to it)
    ├── FencedError                  another has taken over what this one was writing
    ├── UnsupportedError             the connector does not offer this operation
    └── UnreachableError             broker, database or worker does not answer (exit code 3)

Whether a failure may be retried is a matter of its class, never of its text.
"""

from __future__ import annotations


class ConnectError(Exception):
    """Base of all errors here. The message names the thing, the value (unless secret) and what was expected."""

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""


class RetriableError(ConnectError):
    """The operation failed for a reason that may pass. The worker calls again with the same input."""


class DataError(ConnectError):
    """A value or record that cannot be converted or used. ``errors.tolerance`` decides what follows."""

    field: str | None = None
    """The path of the field it is about, for whoever tells of the error: messages that are Apache's do not name it."""

    def in_field(self, name: str) -> None:
        """Notes that the error is about this field, or about something inside of it."""
        self.field = name if self.field is None else f"{name}.{self.field}"


class SchemaError(DataError):
    """A schema that is malformed, or does not fit the value or the other schema."""


class ConfigError(ConnectError):
    """A wrong configuration. With ``key`` (and ``value``, never for secrets) when one key is to blame.

    The text has Kafka's form: ``Invalid value V for configuration K: <reason>``.
    """

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key

    @classmethod
    def invalid(cls, key: str, value: object, reason: str | None = None) -> ConfigError:
        """The error for one bad value, in Kafka's words."""
        shown = "null" if value is None else value
        text = f"Invalid value {shown} for configuration {key}"
        return cls(f"{text}: {reason}" if reason else text, key=key)


class PluginNotFoundError(ConfigError):
    """No plugin answers to that class name or alias. The message lists the nearest and all known names."""


class NotFoundError(ConnectError):
    """The named connector, task, plugin or topic does not exist."""


class AlreadyExistsError(ConnectError):
    """The name is taken."""


class BadRequestError(ConnectError):
    """The request is well-formed but cannot be carried out as it stands."""


class IllegalStateError(ConnectError):
    """The call does not fit the present state, as a second ``start``."""


class ForbiddenError(ConnectError):
    """The request is not allowed: what it asks for is switched off, or its signature is wrong."""


class NotReadyError(ConnectError):
    """The worker has not read yet what it needs to answer."""


class NotLeaderError(ConnectError):
    """The request is for another worker of the cluster: the leader, or the one that runs the connector."""

    def __init__(self, message: str, forward_url: str | None) -> None:
        """``forward_url`` is None while no worker is known that could answer."""
        super().__init__(message)
        self.forward_url = forward_url


class FencedError(ConnectError):
    """A transactional writer may write no more: another took its place, or a transaction of it failed. What it was writing may be
    asked for again once the right to write was claimed anew."""


class UnsupportedError(ConnectError):
    """The connector does not support what was asked."""


class UnreachableError(ConnectError):
    """A system we need does not answer. The message says which address was tried and what to check."""
