"""Configuration of the schema registry, with Confluent's keys as far as they apply to converters.

All converters of this package share these keys. TLS keys have the prefix ``schema.registry.ssl.``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from connect.config.definition import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from connect.config.parsing import Password
from connect.config.types import ConfigType
from connect.config.validators import at_least
from connect.converters.config import converter_config_def
from connect.errors import ConfigError, DataError
from connect.paths import AllowedPath

URL = "schema.registry.url"
AUTO_REGISTER = "auto.register.schemas"
USE_LATEST = "use.latest.version"
LATEST_STRICT = "latest.compatibility.strict"
NORMALIZE = "normalize.schemas"
USE_ID = "use.schema.id"
ID_STRICT = "id.compatibility.strict"
KEY_STRATEGY = "key.subject.name.strategy"
VALUE_STRATEGY = "value.subject.name.strategy"
CREDENTIALS_SOURCE = "basic.auth.credentials.source"
USER_INFO = "basic.auth.user.info"
BEARER_SOURCE = "bearer.auth.credentials.source"
SSL = "schema.registry.ssl."
SASL_JAAS = "sasl.jaas.config"
_TOPIC_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.TopicNameStrategy"
_STRATEGY_PACKAGES = ("io.confluent.kafka.serializers.subject.", "io.confluent.kafka.serializers.subject.strategy.", "")


class SubjectNameStrategy(Enum):
    """Confluent's strategies for subject names."""

    TOPIC = "TopicNameStrategy"
    RECORD = "RecordNameStrategy"
    TOPIC_RECORD = "TopicRecordNameStrategy"

    def subject(self, topic: str, is_key: bool, record_name: str | None) -> str:
        """The subject of a schema. Raises DataError if the strategy needs a record name and the schema has none."""
        if self is SubjectNameStrategy.TOPIC:
            return f"{topic}-{'key' if is_key else 'value'}"
        if record_name is None:
            part = "key" if is_key else "value"
            raise DataError(
                f"{part}.subject.name.strategy is {self.value}, but the schema of the {part} in topic {topic} is no record with "
                f"a name; use TopicNameStrategy or give the schema a name"
            )
        return record_name if self is SubjectNameStrategy.RECORD else f"{topic}-{record_name}"


@dataclass(frozen=True, slots=True)
class RegistryTlsConfig:
    """Files and passwords for TLS, as configured."""

    truststore_location: str | None = None
    truststore_type: str = "JKS"
    truststore_password: Password | None = None
    truststore_certificates: Password | None = None
    keystore_location: str | None = None
    keystore_type: str = "JKS"
    keystore_password: Password | None = None
    keystore_key: Password | None = None
    keystore_certificate_chain: Password | None = None
    key_password: Password | None = None


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """How to connect to the registry and how a converter uses it."""

    urls: tuple[str, ...]
    """Without user and password."""
    user_info: Password | None
    bearer: Mapping[str, str] = field(repr=False)
    """Bearer token settings with the client's names; empty without a token. Contains secrets."""
    tls: RegistryTlsConfig
    proxy: str | None
    connect_timeout_s: float
    read_timeout_s: float
    max_retries: int
    retries_wait_ms: int
    retries_max_wait_ms: int
    cache_size: int
    latest_ttl_s: int
    auto_register: bool
    use_latest: bool
    latest_strict: bool
    normalize: bool
    use_id: int
    id_strict: bool
    strategy: SubjectNameStrategy


def registry_config_def() -> ConfigDef:
    """A new ConfigDef with the keys that all converters of this package share."""
    table = converter_config_def()
    for key in _KEYS:
        table.add(key)
    return table


def _key(name: str, type: ConfigType, default: Any, doc: str, importance: Importance = Importance.LOW, **more: Any) -> ConfigKey:
    return ConfigKey(name, type, default, importance=importance, doc=doc, **more)


_KEYS = (
    _key(URL, ConfigType.LIST, NO_DEFAULT, "Addresses of the schema registry, `http://host:port`. If one does not respond, the "
         "next one is used.", Importance.HIGH),
    _key("schema.registry.url.randomize", ConfigType.BOOLEAN, False, "Whether to start with a random address instead of the "
         "first."),
    _key("max.schemas.per.subject", ConfigType.INT, 1000, "Maximum number of schemas that a converter caches.",
         validator=at_least(1)),
    _key(AUTO_REGISTER, ConfigType.BOOLEAN, True, "Whether to register schemas of written data. Otherwise they must be "
         "registered already.", Importance.MEDIUM),
    _key(USE_LATEST, ConfigType.BOOLEAN, False, "With `auto.register.schemas=false`: use the subject's latest schema to write.",
         Importance.MEDIUM),
    _key(LATEST_STRICT, ConfigType.BOOLEAN, True, "Whether the latest schema must be compatible with the schema of the data. "
         "Otherwise fields that it lacks are dropped."),
    _key(NORMALIZE, ConfigType.BOOLEAN, False, "Whether the registry normalizes schemas before it compares them.",
         Importance.MEDIUM),
    _key(USE_ID, ConfigType.INT, -1, "With `auto.register.schemas=false`: use the schema with this ID to write."),
    _key(ID_STRICT, ConfigType.BOOLEAN, True, "Whether the schema of `use.schema.id` must be compatible with the schema of "
         "the data."),
    _key(KEY_STRATEGY, ConfigType.CLASS, _TOPIC_NAME_STRATEGY, "Strategy for subject names of keys: TopicNameStrategy, "
         "RecordNameStrategy, or TopicRecordNameStrategy.", Importance.MEDIUM),
    _key(VALUE_STRATEGY, ConfigType.CLASS, _TOPIC_NAME_STRATEGY, "Strategy for subject names of values: TopicNameStrategy, "
         "RecordNameStrategy, or TopicRecordNameStrategy.", Importance.MEDIUM),
    _key("latest.cache.ttl.sec", ConfigType.INT, -1, "How long the latest schema of a subject is cached; -1: for the "
         "lifetime of the converter."),
    _key("http.connect.timeout.ms", ConfigType.INT, 60000, "Connect timeout.", validator=at_least(1)),
    _key("http.read.timeout.ms", ConfigType.INT, 60000, "Read timeout.", validator=at_least(1)),
    _key("max.retries", ConfigType.INT, 3, "Number of retries if the registry does not respond or is busy.",
         validator=at_least(0)),
    _key("retries.wait.ms", ConfigType.INT, 1000, "Maximum wait before the first retry.", validator=at_least(0)),
    _key("retries.max.wait.ms", ConfigType.INT, 20000, "Maximum wait before any retry.", validator=at_least(0)),
    _key("proxy.host", ConfigType.STRING, "", "Host of an HTTP proxy."),
    _key("proxy.port", ConfigType.INT, -1, "Port of the HTTP proxy."),
    _key(CREDENTIALS_SOURCE, ConfigType.STRING, "URL", "Source of user and password: `URL` (in the address), `USER_INFO` (in "
         "`basic.auth.user.info`), or `SASL_INHERIT` (in `sasl.jaas.config`).", Importance.MEDIUM),
    _key(USER_INFO, ConfigType.PASSWORD, "", "User and password, `user:password`.", Importance.MEDIUM,
         aliases=("schema.registry.basic.auth.user.info",)),
    _key(SASL_JAAS, ConfigType.PASSWORD, None, "Used only with `basic.auth.credentials.source=SASL_INHERIT`: a login module with "
         "username and password."),
    _key(BEARER_SOURCE, ConfigType.STRING, "STATIC_TOKEN", "Source of the bearer token: `STATIC_TOKEN` (if "
         "`bearer.auth.token` is set) or `OAUTHBEARER` (fetched from `bearer.auth.issuer.endpoint.url`).", Importance.MEDIUM),
    _key("bearer.auth.token", ConfigType.PASSWORD, "", "The bearer token.", Importance.MEDIUM),
    _key("bearer.auth.issuer.endpoint.url", ConfigType.STRING, None, "URL of the token issuer."),
    _key("bearer.auth.client.id", ConfigType.STRING, None, "Client ID for the issuer."),
    _key("bearer.auth.client.secret", ConfigType.PASSWORD, None, "Client secret for the issuer."),
    _key("bearer.auth.scope", ConfigType.STRING, None, "Scope to request."),
    _key("bearer.auth.logical.cluster", ConfigType.STRING, None, "Registry cluster, sent as `target-sr-cluster`."),
    _key("bearer.auth.identity.pool.id", ConfigType.STRING, None, "Identity pool, sent as `Confluent-Identity-Pool-Id`."),
    _key(SSL + "truststore.location", ConfigType.STRING, None, "File with trusted certificates: PEM, PKCS12, "
         "or JKS.", validator=AllowedPath()),
    _key(SSL + "truststore.type", ConfigType.STRING, "JKS", "PEM, PKCS12, or JKS. Ignored: the file's content decides."),
    _key(SSL + "truststore.password", ConfigType.PASSWORD, None, "Password of a PKCS12 or JKS file."),
    _key(SSL + "truststore.certificates", ConfigType.PASSWORD, None, "Trusted certificates, as PEM text."),
    _key(SSL + "keystore.location", ConfigType.STRING, None, "File with the client's key and certificates: PEM, "
         "PKCS12, or JKS.", validator=AllowedPath()),
    _key(SSL + "keystore.type", ConfigType.STRING, "JKS", "PEM, PKCS12, or JKS. Ignored: the file's content decides."),
    _key(SSL + "keystore.password", ConfigType.PASSWORD, None, "Password of a PKCS12 or JKS file."),
    _key(SSL + "keystore.key", ConfigType.PASSWORD, None, "The client's key, as PEM text."),
    _key(SSL + "keystore.certificate.chain", ConfigType.PASSWORD, None, "The client's certificates, as PEM text."),
    _key(SSL + "key.password", ConfigType.PASSWORD, None, "Password of the client's key."),
    _key(SSL + "endpoint.identification.algorithm", ConfigType.STRING, "https", "Only `https`: host names are always "
         "verified."),
)  # fmt: skip


def parse_registry_config(values: Mapping[str, Any], is_key: bool) -> RegistryConfig:
    """Builds the typed configuration. Raises ConfigError for inconsistent values."""
    urls, in_url = _addresses(values[URL])
    if values["schema.registry.url.randomize"]:
        start = random.randrange(len(urls))
        urls = urls[start:] + urls[:start]
    bearer = _bearer(values)
    user_info = _user_info(values, in_url)
    if bearer and user_info is not None:
        raise ConfigError.invalid(BEARER_SOURCE, values[BEARER_SOURCE], "set a bearer token or a password, not both")
    algorithm = values[SSL + "endpoint.identification.algorithm"]
    if (algorithm or "").lower() != "https":
        raise ConfigError.invalid(
            SSL + "endpoint.identification.algorithm", algorithm, "host name verification cannot be disabled"
        )
    ttl = values["latest.cache.ttl.sec"]
    strategy_key = KEY_STRATEGY if is_key else VALUE_STRATEGY
    return RegistryConfig(
        urls=urls,
        user_info=user_info,
        bearer=bearer,
        tls=RegistryTlsConfig(**{name: values[SSL + name.replace("_", ".")] for name in RegistryTlsConfig.__slots__}),
        proxy=_proxy(values),
        connect_timeout_s=values["http.connect.timeout.ms"] / 1000,
        read_timeout_s=values["http.read.timeout.ms"] / 1000,
        max_retries=values["max.retries"],
        retries_wait_ms=values["retries.wait.ms"],
        retries_max_wait_ms=values["retries.max.wait.ms"],
        cache_size=values["max.schemas.per.subject"],
        latest_ttl_s=ttl,
        auto_register=values[AUTO_REGISTER],
        use_latest=values[USE_LATEST],
        latest_strict=values[LATEST_STRICT],
        normalize=values[NORMALIZE],
        use_id=values[USE_ID],
        id_strict=values[ID_STRICT],
        strategy=find_strategy(strategy_key, values[strategy_key]),
    )


def _addresses(given: list[str]) -> tuple[tuple[str, ...], str | None]:
    """The addresses without credentials, and the first credentials in them."""
    if not given:
        raise ConfigError.invalid(URL, "", "set at least one address, such as http://localhost:8081")
    plain: list[str] = []
    user_info: str | None = None
    for number, url in enumerate(given, 1):
        try:
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname)
            host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
            place = f"{host}:{parts.port}" if parts.port is not None else f"{host}"
        except ValueError:
            good = False
        if not good:
            # The address may contain a password, so it is not shown.
            raise ConfigError(
                f"Invalid value for configuration {URL}: address {number} of {len(given)} is not of the form http://host:port or "
                "https://host:port",
                key=URL,
            )
        if parts.username is not None and user_info is None:
            user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        plain.append(urlunsplit((parts.scheme, place, parts.path, "", "")))
    return tuple(plain), user_info


def _user_info(values: Mapping[str, Any], in_url: str | None) -> Password | None:
    source = values[CREDENTIALS_SOURCE]
    match source.upper():
        case "URL":
            return Password(in_url) if in_url else None
        case "USER_INFO":
            given: Password = values[USER_INFO]
            if ":" not in given.value:
                raise ConfigError(f"{CREDENTIALS_SOURCE} is USER_INFO, so {USER_INFO} must be user:password", key=USER_INFO)
            return given
        case "SASL_INHERIT":
            return Password(_parse_jaas(values[SASL_JAAS]))
    raise ConfigError.invalid(CREDENTIALS_SOURCE, source, "expected URL, USER_INFO or SASL_INHERIT")


def _parse_jaas(jaas: Password | None) -> str:
    text = jaas.value if jaas is not None else ""
    found = [re.search(rf'\b{name}\s*=\s*(?:"([^"]*)"|([^\s;"]+))', text) for name in ("username", "password")]
    if not all(found):
        raise ConfigError(
            f"{CREDENTIALS_SOURCE} is SASL_INHERIT, so {SASL_JAAS} among the converter's keys must name a login module with "
            "username and password",
            key=SASL_JAAS,
        )
    user, password = (next(g for g in one.groups() if g is not None) for one in found if one is not None)
    return f"{user}:{password}"


def _bearer(values: Mapping[str, Any]) -> dict[str, str]:
    source = values[BEARER_SOURCE]
    if source.upper() not in ("STATIC_TOKEN", "OAUTHBEARER"):
        raise ConfigError.invalid(BEARER_SOURCE, source, "expected STATIC_TOKEN or OAUTHBEARER")
    # The client requires a cluster; a self-hosted registry has none and ignores the header.
    shared = {"bearer.auth.logical.cluster": values["bearer.auth.logical.cluster"] or ""}
    if values["bearer.auth.identity.pool.id"]:
        shared["bearer.auth.identity.pool.id"] = values["bearer.auth.identity.pool.id"]
    if source.upper() == "STATIC_TOKEN":
        token: Password = values["bearer.auth.token"]
        return {BEARER_SOURCE: "STATIC_TOKEN", "bearer.auth.token": token.value, **shared} if token.value else {}
    wanted = ("bearer.auth.issuer.endpoint.url", "bearer.auth.client.id", "bearer.auth.client.secret", "bearer.auth.scope")
    given = {name: values[name] for name in wanted if values[name] is not None}
    missing = [name for name in wanted if name not in given]
    if missing:
        raise ConfigError(f"{BEARER_SOURCE} is OAUTHBEARER, so these must be given too: {', '.join(missing)}", key=missing[0])
    texts = {name: value.value if isinstance(value, Password) else value for name, value in given.items()}
    return {BEARER_SOURCE: "OAUTHBEARER", **texts, **shared}


def _proxy(values: Mapping[str, Any]) -> str | None:
    host, port = values["proxy.host"], values["proxy.port"]
    if not host:
        return None
    if not 1 <= port <= 65535:
        raise ConfigError.invalid("proxy.port", port, "expected 1 to 65535, since proxy.host is given")
    return f"http://{quote(host, safe='.:[]')}:{port}"


def find_strategy(key: str, name: str) -> SubjectNameStrategy:
    """Finds a strategy by class name, Confluent's full name or the short one. Raises ConfigError."""
    for strategy in SubjectNameStrategy:
        if name in {package + strategy.value for package in _STRATEGY_PACKAGES}:
            return strategy
    known = ", ".join(strategy.value for strategy in SubjectNameStrategy)
    raise ConfigError.invalid(key, name, f"Class {name} could not be found. Known are {known}")
