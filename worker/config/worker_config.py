"""The worker's configuration: its ConfigDefs and typed values.

Keys, defaults and messages are those of Apache Kafka Connect 4.3 (``WorkerConfig``, ``StandaloneConfig``, ``RestServerConfig``).
Keys below ``producer.``, ``consumer.``, and ``admin.`` are defaults for the clients of connectors, which warn about unknown ones.
Of the other keys, clients get those of connection and security (:func:`worker.kafka.settings.client_settings_of`). Unknown keys
are ignored with a warning (:mod:`worker.config.startup_warnings`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from connect.addresses import ALLOW_DEFAULT, ALLOW_KEY, DENY_DEFAULT, DENY_KEY, AddressRules
from connect.config.definition import ConfigDef, ConfigKey, Importance
from connect.config.types import ConfigType
from connect.config.validators import DistinctList, Range, at_least, one_of
from connect.errors import ConfigError
from connect.paths import ALLOWED_PATHS_KEY, PathRules
from connect.plugin_rules import PluginRules
from worker.config.distributed_config import DISTRIBUTED_KEYS, DistributedSettings
from worker.config.extension_keys import CONNECTORS_DIR, HISTORY_SIZE, WORKER_EXTENSION_KEYS
from worker.config.providers import ConfigProviders
from worker.config.rest_security_config import REST_SECURITY_KEYS, RestSecurityConfig
from worker.config.secrets import SecretMask
from worker.config.tracing_keys import TRACING_ENABLED, TRACING_KEYS
from worker.config.ui_keys import UI_ENABLED, UI_KEYS, UI_READ_ONLY

DEFAULT_PORT = 8083
_MIN_DEFAULT_EXECUTORS = 3
CLIENT_PREFIXES = ("producer.", "consumer.", "admin.")

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_LONG, _INT, _STRING, _LIST = ConfigType.LONG, ConfigType.INT, ConfigType.STRING, ConfigType.LIST
_CLASS, _BOOLEAN, _PASSWORD = ConfigType.CLASS, ConfigType.BOOLEAN, ConfigType.PASSWORD

_SIMPLE_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


def _key(name: str, type: ConfigType, default: Any, importance: Importance, doc: str, **more: Any) -> ConfigKey:
    return ConfigKey(name, type, default, importance=importance, doc=doc, **more)


_COMMON = (
    _key(
        "bootstrap.servers", _LIST, ["localhost:9092"], _HIGH,
        "host:port pairs of brokers, separated by commas. Clients discover the whole cluster from any of them.",
    ),
    _key(
        "client.dns.lookup", _STRING, "use_all_dns_ips", _MEDIUM, "How broker host names are resolved.",
        validator=one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    ConfigKey("key.converter", _CLASS, importance=_HIGH, doc="Converter between Connect's data and record keys in Kafka."),
    ConfigKey("value.converter", _CLASS, importance=_HIGH, doc="Converter between Connect's data and record values in Kafka."),
    _key("header.converter", _CLASS, _SIMPLE_HEADERS, _LOW, "Converter between header values and their bytes in Kafka."),
    _key(
        "task.shutdown.graceful.timeout.ms", _LONG, 5000, _LOW,
        "How long all tasks together may take to stop. Tasks that take longer are abandoned.",
    ),
    _key("offset.flush.interval.ms", _LONG, 60000, _LOW, "How often offsets are committed."),
    _key(
        "offset.flush.timeout.ms", _LONG, 5000, _LOW,
        "How long an offset flush may wait for outstanding records before it is postponed to the next interval.",
    ),
    _key(
        "plugin.path", _LIST, None, _LOW,
        "Directories with additional plugins. Each is appended to Python's path, so that classes can be named as "
        "package.module:Class and packages installed into it are found.",
    ),
    _key(
        "plugin.allow", _LIST, "*", _LOW,
        "Plugins that connector configurations may name: patterns (*, ?) for Java names, Python paths, or aliases, separated by "
        "commas. Functions of your own need the plugins that call them, such as connect.functions.*.",
    ),
    _key(
        "plugin.deny", _LIST, "", _LOW,
        "Plugins that connector configurations may not name, although plugin.allow contains them.",
    ),
    _key(
        ALLOW_KEY, _LIST, ALLOW_DEFAULT, _LOW,
        "Hosts that connectors may connect to: addresses (10.0.0.7), networks (10.0.0.0/8), or patterns for host names "
        "(*.example.com), separated by commas.",
    ),
    _key(
        DENY_KEY, _LIST, DENY_DEFAULT, _LOW,
        "Hosts that connectors may not connect to, although connection.allow.addresses contains them. The default contains "
        "link-local addresses and the metadata services of clouds.",
    ),
    _key(
        ALLOWED_PATHS_KEY, _LIST, "", _LOW,
        "Absolute paths of files and directories that connectors may read and write, including everything below them, separated "
        "by commas. If empty, connectors may use whatever the worker may.",
    ),
    _key(
        "plugin.discovery", _STRING, "hybrid_warn", _LOW,
        "Accepted for compatibility with Apache. Plugins are always discovered by entry point.",
        validator=one_of("only_scan", "hybrid_warn", "hybrid_fail", "service_load", ignore_case=True),
    ),
    _key(
        "metrics.sample.window.ms", _LONG, 30000, _LOW, "Length of one sample of the rates, averages, and maxima in metrics.",
        validator=at_least(0),
    ),
    _key("metrics.num.samples", _INT, 2, _LOW, "How many samples a rate, average, or maximum covers.", validator=at_least(1)),
    _key(
        "metrics.recording.level", _STRING, "INFO", _LOW, "Highest recording level of metrics. Not used yet.",
        validator=one_of("INFO", "DEBUG"),
    ),
    _key(
        "metric.reporters", _LIST, "org.apache.kafka.common.metrics.JmxReporter", _LOW,
        "Classes that report metrics. Not used yet.",
    ),
    _key(
        "config.providers", _LIST, "", _LOW,
        "Names of config providers. Each is defined by config.providers.<name>.class and config.providers.<name>.param.*, and "
        "resolves references of the form ${name:path:key}.",
    ),
    _key(
        "connector.client.config.override.policy", _STRING, "All", _MEDIUM,
        "Which client settings a connector may override: All, Principal, None, Allowlist, or Apache's class names for these.",
    ),
    _key(
        "connector.client.config.override.allowlist", _LIST, "", _MEDIUM,
        "The client settings that a connector may override with the policy Allowlist, without their prefix. Empty for none.",
        validator=DistinctList(may_be_empty=True),
    ),
    _key("topic.creation.enable", _BOOLEAN, True, _LOW, "Whether source connectors may create topics with topic.creation.*."),
    _key("topic.tracking.enable", _BOOLEAN, True, _LOW, "Whether the topics that a connector uses are tracked, for REST."),
    _key("topic.tracking.allow.reset", _BOOLEAN, True, _LOW, "Whether tracked topics may be reset with REST."),
)  # fmt: skip

_REST = (
    _key(
        "listeners", _LIST, "http://:8083", _LOW,
        "Addresses of the REST server as http://host:port or https://host:port, separated by commas. HTTPS is configured with "
        "listeners.https.ssl.* or, without those, ssl.*.",
    ),
    _key("rest.advertised.host.name", _STRING, None, _LOW, "Host name at which other workers reach this worker."),
    _key("rest.advertised.port", _INT, None, _LOW, "Port at which other workers reach this worker."),
    _key(
        "rest.advertised.listener", _STRING, None, _LOW,
        "Listener that other workers use, http or https. Default: http if there is an http listener.",
        validator=one_of(None, "http", "https", "HTTP", "HTTPS"),
    ),
    _key(
        "access.control.allow.origin", _STRING, "", _LOW,
        "Origins whose web pages may call REST, as regular expressions separated by commas, or *. Empty: only REST's own origin.",
    ),
    _key(
        "access.control.allow.methods", _STRING, "", _LOW,
        "HTTP methods that these pages may use, separated by commas. Empty: GET, POST, and HEAD.",
    ),
    _key(
        "admin.listeners", _LIST, None, _LOW,
        "Listeners for /admin. Unset means those of listeners; empty means none. HTTPS is configured with "
        "admin.listeners.https.ssl.* or, without those, ssl.*.",
    ),
    _key(
        "rest.extension.classes", _LIST, "", _LOW,
        "REST extensions: Apache's BasicAuthSecurityRestExtension, or Python classes as module:Class.",
    ),
    _key(
        "rest.basic.auth.jaas.config.file", _STRING, None, _LOW,
        "JAAS file of the basic authentication extension. Default: the file that KAFKA_OPTS sets with "
        "-Djava.security.auth.login.config=FILE.",
    ),
    _key(
        "response.http.headers.config", _STRING, "", _LOW,
        "Rules for headers of REST responses: [set|add|setDate|addDate] name:value, separated by commas. Enclose a rule that "
        "contains a comma in double quotes.",
    ),
    _key(
        "rest.max.request.size.bytes", _INT, 10 * 1024 * 1024, _LOW, "Maximum size of a REST request body.",
        validator=at_least(1),
    ),
    _key(
        "ssl.client.auth", _STRING, "none", _LOW, "Whether HTTPS listeners request client certificates.",
        validator=one_of("none", "requested", "required"),
    ),
)  # fmt: skip

# For HTTPS listeners; also passed to the Kafka clients.
_SSL = tuple(
    _key(name, type, None, _LOW, "TLS, as in Kafka clients.")
    for name, type in (
        ("security.protocol", _STRING),
        ("sasl.mechanism", _STRING),
        ("sasl.jaas.config", _PASSWORD),
        ("sasl.oauthbearer.token.endpoint.url", _STRING),
        ("sasl.oauthbearer.client.credentials.client.id", _STRING),
        ("sasl.oauthbearer.client.credentials.client.secret", _PASSWORD),
        ("sasl.oauthbearer.scope", _STRING),
        ("ssl.protocol", _STRING),
        ("ssl.provider", _STRING),
        ("ssl.cipher.suites", _LIST),
        ("ssl.enabled.protocols", _LIST),
        ("ssl.keystore.type", _STRING),
        ("ssl.keystore.location", _STRING),
        ("ssl.keystore.password", _PASSWORD),
        ("ssl.keystore.key", _PASSWORD),
        ("ssl.keystore.certificate.chain", _PASSWORD),
        ("ssl.key.password", _PASSWORD),
        ("ssl.truststore.type", _STRING),
        ("ssl.truststore.location", _STRING),
        ("ssl.truststore.password", _PASSWORD),
        ("ssl.truststore.certificates", _PASSWORD),
        ("ssl.keymanager.algorithm", _STRING),
        ("ssl.trustmanager.algorithm", _STRING),
        ("ssl.endpoint.identification.algorithm", _STRING),
        ("ssl.secure.random.implementation", _STRING),
        ("ssl.engine.factory.class", _CLASS),
    )
)

_STANDALONE = (
    ConfigKey(
        "offset.storage.file.filename", _STRING, importance=_HIGH,
        doc="File that stores source offsets. Only one worker at a time may use it.",
    ),
    _key(
        "task.executors", _INT, None, _LOW,
        "Number of executor processes that connectors and tasks share. Default: one per core, at least three. 0 runs them as "
        "threads of the worker process.",
        validator=Range(0, nullable=True),
    ),
    _key(
        "task.executor.hang.timeout.ms", _LONG, 30000, _LOW,
        "How long an executor process may be unresponsive before it is replaced, for example because connector code holds the "
        "GIL.",
        validator=at_least(1000),
    ),
)  # fmt: skip


def standalone_config_def() -> ConfigDef:
    """Returns the keys of a standalone worker."""
    return ConfigDef(
        (*_COMMON, *_REST, *REST_SECURITY_KEYS, *_SSL, *_STANDALONE, *WORKER_EXTENSION_KEYS, *UI_KEYS, *TRACING_KEYS)
    )


def distributed_config_def() -> ConfigDef:
    """Returns the keys of a distributed worker."""
    own = [key for key in _STANDALONE if not key.name.startswith("offset.storage.")]
    return ConfigDef(
        (*_COMMON, *_REST, *REST_SECURITY_KEYS, *_SSL, *own, *WORKER_EXTENSION_KEYS, *UI_KEYS, *TRACING_KEYS, *DISTRIBUTED_KEYS)
    )


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Typed values of a worker's configuration.

    ``originals`` is the given text with references to config providers resolved. It may contain secrets: never print it.
    """

    originals: Mapping[str, str] = field(repr=False)
    providers: ConfigProviders = field(repr=False, compare=False)
    """The worker's owner closes them."""
    bootstrap_servers: tuple[str, ...]
    key_converter: str
    value_converter: str
    header_converter: str
    task_shutdown_graceful_timeout_ms: int
    offset_flush_interval_ms: int
    offset_flush_timeout_ms: int
    plugin_path: tuple[str, ...]
    plugin_rules: PluginRules
    address_rules: AddressRules
    path_rules: PathRules
    override_policy: str
    override_allowlist: frozenset[str]
    topic_creation_enable: bool
    topic_tracking_enable: bool
    topic_tracking_allow_reset: bool
    listeners: tuple[str, ...]
    admin_listeners: tuple[str, ...] | None
    rest_advertised_host_name: str | None
    rest_advertised_port: int | None
    rest_advertised_listener: str | None
    access_control_allow_origin: str
    access_control_allow_methods: str
    rest_extension_classes: tuple[str, ...]
    rest_basic_auth_jaas_config_file: str | None
    response_http_headers_config: str
    rest_max_request_size_bytes: int
    rest_security: RestSecurityConfig
    offset_storage_file_filename: str
    """Empty for a distributed worker."""
    task_executors: int
    """0 means threads."""
    task_executor_hang_timeout_ms: int
    metrics_sample_window_ms: int
    metrics_num_samples: int
    connectors_dir: str | None
    config_history_size: int
    ui_enabled: bool
    ui_read_only: bool
    tracing_enabled: bool
    distributed: DistributedSettings | None = None
    """None for a standalone worker."""

    @classmethod
    def standalone(cls, given: Mapping[str, str], mask: SecretMask | None = None) -> WorkerConfig:
        """Parses a standalone worker's properties. Raises ConfigError with Kafka's messages.

        Creates the config providers that they define and resolves references in these properties too. The mask, by default a new
        one, learns the values; it is ``providers.mask``.
        """
        return cls._parsed(given, mask, standalone_config_def(), distributed=False)

    @classmethod
    def for_cluster(cls, given: Mapping[str, str], mask: SecretMask | None = None) -> WorkerConfig:
        """Parses a distributed worker's properties, like :meth:`standalone`."""
        return cls._parsed(given, mask, distributed_config_def(), distributed=True)

    @classmethod
    def _parsed(cls, given: Mapping[str, str], mask: SecretMask | None, table: ConfigDef, *, distributed: bool) -> WorkerConfig:
        providers = ConfigProviders.from_worker(given, mask or SecretMask())
        resolved = providers.resolve(given, "Worker").values
        props = {key: value for key, value in resolved.items() if value is not None}
        parsed = table.parse(props)
        for key in ("listeners", "admin.listeners"):
            for listener in parsed[key] or ():
                split_listener(listener, key)
        return cls(
            originals=props,
            providers=providers,
            bootstrap_servers=tuple(parsed["bootstrap.servers"]),
            key_converter=parsed["key.converter"],
            value_converter=parsed["value.converter"],
            header_converter=parsed["header.converter"],
            task_shutdown_graceful_timeout_ms=parsed["task.shutdown.graceful.timeout.ms"],
            offset_flush_interval_ms=parsed["offset.flush.interval.ms"],
            offset_flush_timeout_ms=parsed["offset.flush.timeout.ms"],
            plugin_path=tuple(parsed["plugin.path"] or ()),
            plugin_rules=_plugin_rules(parsed),
            address_rules=AddressRules.of(parsed[ALLOW_KEY], parsed[DENY_KEY]),
            path_rules=PathRules.of(parsed[ALLOWED_PATHS_KEY]),
            override_policy=parsed["connector.client.config.override.policy"],
            override_allowlist=frozenset(parsed["connector.client.config.override.allowlist"]),
            topic_creation_enable=parsed["topic.creation.enable"],
            topic_tracking_enable=parsed["topic.tracking.enable"],
            topic_tracking_allow_reset=parsed["topic.tracking.allow.reset"],
            listeners=tuple(parsed["listeners"]),
            admin_listeners=None if parsed["admin.listeners"] is None else tuple(parsed["admin.listeners"]),
            rest_advertised_host_name=parsed["rest.advertised.host.name"] or None,
            rest_advertised_port=parsed["rest.advertised.port"],
            rest_advertised_listener=(parsed["rest.advertised.listener"] or "").lower() or None,
            access_control_allow_origin=parsed["access.control.allow.origin"],
            access_control_allow_methods=parsed["access.control.allow.methods"],
            rest_extension_classes=tuple(parsed["rest.extension.classes"]),
            rest_basic_auth_jaas_config_file=parsed["rest.basic.auth.jaas.config.file"] or None,
            response_http_headers_config=parsed["response.http.headers.config"],
            rest_max_request_size_bytes=parsed["rest.max.request.size.bytes"],
            rest_security=RestSecurityConfig.of(parsed),
            offset_storage_file_filename="" if distributed else parsed["offset.storage.file.filename"],
            task_executors=_default_executors() if parsed["task.executors"] is None else parsed["task.executors"],
            task_executor_hang_timeout_ms=parsed["task.executor.hang.timeout.ms"],
            metrics_sample_window_ms=parsed["metrics.sample.window.ms"],
            metrics_num_samples=parsed["metrics.num.samples"],
            connectors_dir=parsed[CONNECTORS_DIR] or None,
            config_history_size=parsed[HISTORY_SIZE],
            ui_enabled=parsed[UI_ENABLED],
            ui_read_only=parsed[UI_READ_ONLY],
            tracing_enabled=parsed[TRACING_ENABLED],
            distributed=DistributedSettings.of(parsed, props) if distributed else None,
        )

    @property
    def worker_id(self) -> str:
        """``<advertised host>:<advertised port>``, as shown in statuses."""
        _, host, port = split_listener(self.listeners[0]) if self.listeners else ("http", "", DEFAULT_PORT)
        if host in ("0.0.0.0", "::"):
            host = ""
        advertised = self.rest_advertised_host_name or host or socket.gethostname()
        return f"{advertised}:{self.rest_advertised_port or port}"

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Returns the settings below a prefix such as ``producer.`` or ``key.converter.``, without the prefix."""
        size = len(prefix)
        return {
            key[size:]: value
            for key, value in self.originals.items()
            # admin.listeners* configures REST, not admin clients.
            if key.startswith(prefix) and not key.startswith("admin.listeners")
        }


def _plugin_rules(parsed: Mapping[str, Any]) -> PluginRules:
    allow = tuple(parsed["plugin.allow"])
    if allow != ("*",):
        # The worker's own converters need not be repeated.
        allow += tuple(parsed[role] for role in ("key.converter", "value.converter", "header.converter"))
    return PluginRules(allow, tuple(parsed["plugin.deny"]))


def _default_executors() -> int:
    """Returns the number of cores that this process may use, or more if these are few: a process computes on one core in Python,
    and tasks that share it, such as a snapshot and the sink that reads it, would wait for each other."""
    return max(_MIN_DEFAULT_EXECUTORS, len(os.sched_getaffinity(0)))


def split_listener(listener: str, key: str = "listeners") -> tuple[str, str, int]:
    """Returns scheme, host ("" for all interfaces), and port of a listener in ``key``. Raises ConfigError."""
    parts = urlsplit(listener)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme.lower() not in ("http", "https") or port is None:
        raise ConfigError(
            f"Invalid value {listener} for configuration {key}: expected http://host:port or https://host:port, "
            f"as http://localhost:{DEFAULT_PORT}",
            key=key,
        )
    return parts.scheme.lower(), parts.hostname or "", port
