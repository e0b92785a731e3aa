"""The one place that talks to the schema registry, through confluent-kafka's client.

Everything fetched or registered is kept in memory, bounded; schemas never change under their id. Failures become errors of ours:
what may pass is retriable, what is refused says what the registry said, and no message holds a credential (promise 9).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry import SchemaReference as ClientReference
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.error import OAuthTokenError

from connect.errors import ConfigError, ConnectError, DataError, RetriableError, SchemaError
from connectors.registry.config import CREDENTIALS_SOURCE, URL, USER_INFO, RegistrySettings
from connectors.registry.tls import pem_files
from connectors.registry.wire_format import SchemaKey

_MAX_REFERENCES = 1000
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses, by the name it has there."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it. ``id`` is -1 where the answer did not tell it."""

    id: int
    text: str
    type: str
    """``AVRO``, ``JSON`` or ``PROTOBUF``."""
    references: tuple[Reference, ...] = ()
    version: int | None = None
    has_rules: bool = False


class _Bounded:
    """The newest results by their key. Dropped whole when full, which is simple and rare."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: dict[Hashable, tuple[Any, float]] = {}

    def get(self, key: Hashable, make: Callable[[], _T], ttl_s: int = -1) -> _T:
        found = self._kept.get(key)
        if found is not None and (ttl_s < 0 or time.monotonic() - found[1] < ttl_s):
            value: _T = found[0]
            return value
        value = make()
        if value is None:  # what is not there yet may come
            return value
        if len(self._kept) >= self._size:
            self._kept.clear()
        self._kept[key] = value, time.monotonic()
        return value


class SchemaRegistry:
    """A registry at one or several addresses. Used by one converter on one thread. Calls block until answered or timed out."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._where = " or ".join(settings.urls)
        conf: dict[str, Any] = {
            "url": ",".join(settings.urls),
            "timeout": httpx2.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s),
            "max.retries": settings.max_retries,
            "retries.wait.ms": settings.retries_wait_ms,
            "retries.max.wait.ms": settings.retries_max_wait_ms,
            "cache.capacity": settings.cache_size,
            **settings.bearer,
        }
        if settings.latest_ttl_s >= 0:
            conf["cache.latest.ttl.sec"] = settings.latest_ttl_s
        if settings.user_info is not None:
            conf["basic.auth.user.info"] = settings.user_info.value
        if settings.proxy is not None:
            conf["proxy"] = settings.proxy
        with pem_files(settings.tls) as files:
            try:
                self._client = SchemaRegistryClient({**conf, **files})
            except (OSError, ValueError, TypeError) as e:  # an SSLError is an OSError
                reason = type(e).__name__ if settings.bearer else str(e)
                raise ConfigError(f"No client for the schema registry at {self._where} can be made: {reason}", key=URL) from e
        self._kept = _Bounded(settings.cache_size)

    def schema(self, key: SchemaKey) -> RegisteredSchema:
        """The schema of that id or GUID. Raises DataError when there is none, RetriableError when the registry is away."""

        def fetch() -> RegisteredSchema:
            what = f"schema {key}"
            if isinstance(key, str):
                found = self._ask(what, lambda: self._client.get_schema_by_guid(key))
                return _of_client(-1, found)
            return _of_client(key, self._ask(what, lambda: self._client.get_schema(key)))

        return self._kept.get(("schema", key), fetch)

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """The id of the schema under that subject, registered now unless it was. Raises SchemaError with the registry's words
        when it does not fit the versions before it."""

        def send() -> int:
            found: int = self._ask(
                f"subject {subject}",
                lambda: self._client.register_schema(subject, _to_client(schema), self._settings.normalize),
                action="register a schema for",
            )
            return found

        return self._kept.get(("register", subject, schema), send)

    def lookup(self, subject: str, schema: RegisteredSchema) -> RegisteredSchema | None:
        """The same schema as it is registered under that subject, with id and version; None when it is not."""

        def ask() -> RegisteredSchema | None:
            try:
                found = self._client.lookup_schema(subject, _to_client(schema), self._settings.normalize)
            except SchemaRegistryError as e:
                if e.http_status_code == 404:
                    return None
                raise self._refusal(f"subject {subject}", "look up a schema in", e) from self._cause(e)
            except Exception as e:
                raise self._failure(f"subject {subject}", "look up a schema in", e) from self._cause(e)
            return RegisteredSchema(found.schema_id, schema.text, schema.type, schema.references, found.version)

        return self._kept.get(("lookup", subject, schema), ask)

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject. Raises DataError when there is none."""

        def ask() -> RegisteredSchema:
            self._client.clear_latest_caches()  # how long it counts is decided here
            found = self._ask(f"subject {subject}", lambda: self._client.get_latest_version(subject))
            return _of_client(found.schema_id, found.schema, found.version)

        return self._kept.get(("latest", subject), ask, self._settings.latest_ttl_s)

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """That version of a subject. Raises DataError when there is none."""

        def ask() -> RegisteredSchema:
            found = self._ask(f"version {version} of subject {subject}", lambda: self._client.get_version(subject, version))
            return _of_client(found.schema_id, found.schema, found.version)

        return self._kept.get(("version", subject, version), ask)

    def referenced(self, schema: RegisteredSchema) -> dict[str, RegisteredSchema]:
        """Every schema that this one uses, directly or not, by the name it is used under; those used come before their users.
        Raises DataError when there are too many."""
        found: dict[str, RegisteredSchema] = {}
        underway: set[str] = set()

        def add(references: tuple[Reference, ...]) -> None:
            for reference in references:
                if reference.name in found or reference.name in underway:
                    continue
                if len(underway) >= _MAX_REFERENCES:
                    raise SchemaError(f"Schema {schema.id} refers to more than {_MAX_REFERENCES} schemas")
                underway.add(reference.name)
                used = self.version(reference.subject, reference.version)
                add(used.references)
                found[reference.name] = used

        add(schema.references)
        return found

    def close(self) -> None:
        self._client.close()

    def _ask(self, what: str, call: Callable[[], Any], action: str = "read") -> Any:
        try:
            return call()
        except SchemaRegistryError as e:
            raise self._refusal(what, action, e) from self._cause(e)
        except Exception as e:
            raise self._failure(what, action, e) from self._cause(e)

    def _cause(self, error: Exception) -> Exception | None:
        """What a trace may show of the client's own error: nothing that might repeat a secret (promise 9)."""
        return error if self._settings.user_info is None and not self._settings.bearer else None

    def _refusal(self, what: str, action: str, error: SchemaRegistryError) -> ConnectError:
        """The error for an answer that is not a success."""
        status, said = error.http_status_code, self._without_secrets(str(error.error_message or "").strip())
        trouble = f"The schema registry at {self._where} refused to {action} {what} (HTTP {status}): {said or 'without a reason'}"
        if status in (401, 403):
            return ConfigError(f"{trouble}. Check {USER_INFO}, {CREDENTIALS_SOURCE} and the bearer.auth keys", key=USER_INFO)
        if status == 404:
            hint = "; set auto.register.schemas=true or register it first" if what.startswith("subject") else ""
            return DataError(f"There is no {what} in the schema registry at {self._where} (HTTP 404): {said}{hint}")
        if status == 409:
            return SchemaError(
                f"The schema is incompatible with an earlier one of {what}: {said} (schema registry at {self._where})"
            )
        if status in (408, 429) or status >= 500:
            return RetriableError(f"The schema registry at {self._where} cannot {action} {what} now (HTTP {status}): {said}")
        return SchemaError(trouble)

    def _failure(self, what: str, action: str, error: Exception) -> ConnectError:
        """The error for a request without an answer."""
        said = self._without_secrets(str(error)) or type(error).__name__
        if isinstance(error, httpx2.TransportError):
            return RetriableError(
                f"The schema registry at {self._where} does not answer, wanted to {action} {what}: {said}. Check {URL} and "
                "that it runs and can be reached from here"
            )
        if isinstance(error, OAuthTokenError):
            return RetriableError(f"No token for the schema registry at {self._where} could be had: {type(error).__name__}")
        return DataError(f"The schema registry at {self._where} gave no sense when asked to {action} {what}: {said}")

    def _without_secrets(self, text: str) -> str:
        """The text without credentials of ours, should a proxy or library repeat them."""
        secrets = [v for k, v in self._settings.bearer.items() if k.endswith((".token", ".secret"))]
        if self._settings.user_info is not None:
            secrets += [self._settings.user_info.value, self._settings.user_info.value.partition(":")[2]]
        for secret in secrets:
            if secret:
                text = text.replace(secret, "[hidden]")
        return text if len(text) <= 2000 else text[:2000] + "..."


def _of_client(schema_id: int, schema: Any, version: int | None = None) -> RegisteredSchema:
    references = tuple(Reference(r.name, r.subject, r.version) for r in schema.references or ())
    rules = schema.rule_set
    has_rules = rules is not None and bool(
        getattr(rules, "domain_rules", None) or getattr(rules, "migration_rules", None) or getattr(rules, "encoding_rules", None)
    )
    return RegisteredSchema(schema_id, schema.schema_str or "", schema.schema_type or "AVRO", references, version, has_rules)


def _to_client(schema: RegisteredSchema) -> Any:
    references = [ClientReference(name=r.name, subject=r.subject, version=r.version) for r in schema.references]
    return ClientSchema(schema_str=schema.text, schema_type=schema.type, references=references)


def refuse_rules(schema: RegisteredSchema) -> None:
    """Raises SchemaError for a schema with a rule set: data written under one may be encrypted or transformed."""
    if schema.has_rules:
        raise SchemaError(
            f"Schema {schema.id} has a rule set (data contract rules such as encryption or migration), which these converters do "
            "not carry out; use a schema without rules"
        )
