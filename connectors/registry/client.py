"""Client of the schema registry, on top of confluent-kafka's client.

Results are cached in memory, with a limit; a schema never changes under its ID. Failures become our errors: temporary failures
are retriable, rejections include the registry's message, and no message contains a credential (promise 9).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry import SchemaReference as ClientReference
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.error import OAuthTokenError

from connect.addresses import address_rules
from connect.config.parsing import Password
from connect.errors import ConfigError, ConnectError, DataError, RetriableError, SchemaError
from connect.tls import Store, read_identity, read_trusted_certificates
from connectors.registry.allowed_addresses import check_addresses
from connectors.registry.config import CREDENTIALS_SOURCE, SSL, URL, USER_INFO, RegistryConfig, RegistryTlsConfig
from connectors.registry.wire_format import SchemaKey

_MAX_REFERENCES = 1000
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to another schema, with the name used for it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema in the registry. ``id`` is -1 if the response did not contain it."""

    id: int
    text: str
    type: str
    """``AVRO``, ``JSON``, or ``PROTOBUF``."""
    references: tuple[Reference, ...] = ()
    version: int | None = None
    has_rules: bool = False


class BoundedCache:
    """Caches results by key. Cleared when full, which is simple and rare."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._cache: dict[Hashable, tuple[Any, float]] = {}

    def get(self, key: Hashable, make: Callable[[], _T], ttl_s: int = -1) -> _T:
        found = self._cache.get(key)
        if found is not None and (ttl_s < 0 or time.monotonic() - found[1] < ttl_s):
            value: _T = found[0]
            return value
        value = make()
        if value is None:  # it may be registered later
            return value
        if len(self._cache) >= self._size:
            self._cache.clear()
        self._cache[key] = value, time.monotonic()
        return value


class SchemaRegistry:
    """A registry at one or several addresses. Not thread-safe. Calls block until a response or a timeout."""

    def __init__(self, settings: RegistryConfig) -> None:
        self._settings = settings
        self._address_text = " or ".join(settings.urls)
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
        with _pem_files(settings.tls) as files:
            try:
                self._client = SchemaRegistryClient({**conf, **files})
            except (OSError, ValueError, TypeError) as e:  # an SSLError is an OSError
                reason = type(e).__name__ if settings.bearer else str(e)
                raise ConfigError(
                    f"cannot create a client for the schema registry at {self._address_text}: {reason}", key=URL
                ) from e
        check_addresses(self._client._rest_client.session)
        issuer = urlsplit(settings.bearer.get("bearer.auth.issuer.endpoint.url") or "").hostname
        if issuer:
            address_rules().require(issuer)
        self._cache = BoundedCache(settings.cache_size)

    def schema(self, key: SchemaKey) -> RegisteredSchema:
        """Fetches a schema by ID or GUID. Raises DataError if there is none, RetriableError if the registry is unavailable."""

        def fetch() -> RegisteredSchema:
            what = f"schema {key}"
            if isinstance(key, str):
                found = self._call(what, lambda: self._client.get_schema_by_guid(key))
                return _from_client(-1, found)
            return _from_client(key, self._call(what, lambda: self._client.get_schema(key)))

        return self._cache.get(("schema", key), fetch)

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """Registers a schema under a subject, unless it is registered already; returns its ID. Raises SchemaError with the
        registry's message when it is incompatible with earlier versions."""

        def send() -> int:
            found: int = self._call(
                f"subject {subject}",
                lambda: self._client.register_schema(subject, _to_client(schema), self._settings.normalize),
                action="register a schema for",
            )
            return found

        return self._cache.get(("register", subject, schema), send)

    def lookup(self, subject: str, schema: RegisteredSchema) -> RegisteredSchema | None:
        """Looks up a schema under a subject; returns it with ID and version, or None if it is not registered."""

        def ask() -> RegisteredSchema | None:
            try:
                found = self._client.lookup_schema(subject, _to_client(schema), self._settings.normalize)
            except SchemaRegistryError as e:
                if e.http_status_code == 404:
                    return None
                raise self._response_error(f"subject {subject}", "look up a schema in", e) from self._cause(e)
            except Exception as e:
                raise self._request_error(f"subject {subject}", "look up a schema in", e) from self._cause(e)
            return RegisteredSchema(found.schema_id, schema.text, schema.type, schema.references, found.version)

        return self._cache.get(("lookup", subject, schema), ask)

    def latest(self, subject: str) -> RegisteredSchema:
        """Fetches the latest version of a subject. Raises DataError if there is none."""

        def ask() -> RegisteredSchema:
            self._client.clear_latest_caches()  # this class decides how long it is cached
            found = self._call(f"subject {subject}", lambda: self._client.get_latest_version(subject))
            return _from_client(found.schema_id, found.schema, found.version)

        return self._cache.get(("latest", subject), ask, self._settings.latest_ttl_s)

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Fetches a version of a subject. Raises DataError if it does not exist."""

        def ask() -> RegisteredSchema:
            found = self._call(f"version {version} of subject {subject}", lambda: self._client.get_version(subject, version))
            return _from_client(found.schema_id, found.schema, found.version)

        return self._cache.get(("version", subject, version), ask)

    def fetch_references(self, schema: RegisteredSchema) -> dict[str, RegisteredSchema]:
        """Fetches all schemas that this one references, directly or indirectly, by name; references precede their users.
        Raises DataError if there are too many."""
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

    def _call(self, what: str, call: Callable[[], Any], action: str = "read") -> Any:
        try:
            return call()
        except SchemaRegistryError as e:
            raise self._response_error(what, action, e) from self._cause(e)
        except Exception as e:
            raise self._request_error(what, action, e) from self._cause(e)

    def _cause(self, error: Exception) -> Exception | None:
        """The cause to show in a traceback: None if the client's error may contain a secret (promise 9)."""
        return error if self._settings.user_info is None and not self._settings.bearer else None

    def _response_error(self, what: str, action: str, error: SchemaRegistryError) -> ConnectError:
        """The error for an error response."""
        status, said = error.http_status_code, self._without_secrets(str(error.error_message or "").strip())
        reason = said or "no reason given"
        trouble = f"The schema registry at {self._address_text} refused to {action} {what} (HTTP {status}): {reason}"
        if status in (401, 403):
            return ConfigError(f"{trouble}. Check {USER_INFO}, {CREDENTIALS_SOURCE} and the bearer.auth keys", key=USER_INFO)
        if status == 404:
            hint = "; set auto.register.schemas=true or register it first" if what.startswith("subject") else ""
            return DataError(f"There is no {what} in the schema registry at {self._address_text} (HTTP 404): {said}{hint}")
        if status == 409:
            return SchemaError(
                f"The schema is incompatible with an earlier one of {what}: {said} (schema registry at {self._address_text})"
            )
        if status in (408, 429) or status >= 500:
            return RetriableError(
                f"The schema registry at {self._address_text} cannot {action} {what} now (HTTP {status}): {said}"
            )
        return SchemaError(trouble)

    def _request_error(self, what: str, action: str, error: Exception) -> ConnectError:
        """The error for a request without a response."""
        if isinstance(error, ConfigError):
            return ConfigError(error.message, key=URL)
        said = self._without_secrets(str(error)) or type(error).__name__
        if isinstance(error, httpx2.TransportError):
            return RetriableError(
                f"The schema registry at {self._address_text} does not answer (request: {action} {what}): {said}. Check {URL} "
                "and that the registry is running and reachable"
            )
        if isinstance(error, OAuthTokenError):
            return RetriableError(f"cannot get a token for the schema registry at {self._address_text}: {type(error).__name__}")
        return DataError(
            f"The schema registry at {self._address_text} sent an invalid response (request: {action} {what}): {said}"
        )

    def _without_secrets(self, text: str) -> str:
        """Removes our credentials, which a proxy or library may have included."""
        secrets = [v for k, v in self._settings.bearer.items() if k.endswith((".token", ".secret"))]
        if self._settings.user_info is not None:
            secrets += [self._settings.user_info.value, self._settings.user_info.value.partition(":")[2]]
        for secret in secrets:
            if secret:
                text = text.replace(secret, "[hidden]")
        return text if len(text) <= 2000 else text[:2000] + "..."


def _from_client(schema_id: int, schema: Any, version: int | None = None) -> RegisteredSchema:
    references = tuple(Reference(r.name, r.subject, r.version) for r in schema.references or ())
    rules = schema.rule_set
    has_rules = rules is not None and bool(
        getattr(rules, "domain_rules", None) or getattr(rules, "migration_rules", None) or getattr(rules, "encoding_rules", None)
    )
    return RegisteredSchema(schema_id, schema.schema_str or "", schema.schema_type or "AVRO", references, version, has_rules)


def _to_client(schema: RegisteredSchema) -> Any:
    references = [ClientReference(name=r.name, subject=r.subject, version=r.version) for r in schema.references]
    return ClientSchema(schema_str=schema.text, schema_type=schema.type, references=references)


def reject_rule_set(schema: RegisteredSchema) -> None:
    """Raises SchemaError for a schema with a rule set: its data may be encrypted or transformed."""
    if schema.has_rules:
        raise SchemaError(
            f"Schema {schema.id} has a rule set (data contract rules such as encryption or migration), which these converters do "
            "not support; use a schema without rules"
        )


@contextmanager
def _pem_files(tls: RegistryTlsConfig) -> Iterator[dict[str, str]]:
    """Writes TLS stores to PEM files; returns the client's settings. The files exist only within the block.

    The client reads them when it is created. Raises ConfigError for a store that cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-registry-") as folder:  # readable only by its owner
        yield _write_trust_store(tls, Path(folder) / "trust.pem") | _write_identity(tls, Path(folder) / "identity.pem")


def _write_trust_store(tls: RegistryTlsConfig, target: Path) -> dict[str, str]:
    store = Store(
        f"{SSL}truststore",
        tls.truststore_location,
        _secret_text(tls.truststore_password),
        certificates=_secret_text(tls.truststore_certificates),
    )
    if not store.is_given:
        return {}
    target.write_text(read_trusted_certificates(store), encoding="utf-8")
    return {"ssl.ca.location": str(target)}


def _write_identity(tls: RegistryTlsConfig, target: Path) -> dict[str, str]:
    store = Store(
        f"{SSL}keystore",
        tls.keystore_location,
        _secret_text(tls.keystore_password),
        _secret_text(tls.key_password),
        _secret_text(tls.keystore_certificate_chain),
        _secret_text(tls.keystore_key),
    )
    if not store.is_given:
        return {}
    identity = read_identity(store)
    target.write_text(identity.pem, encoding="utf-8")
    password = {} if identity.password is None else {"ssl.key.password": identity.password}
    return {"ssl.certificate.location": str(target), **password}


def _secret_text(secret: Password | None) -> str | None:
    return None if secret is None else secret.value
