"""The worker's own configuration: one table, and the typed form of it.

Keys, defaults and messages are those of Apache Kafka Connect 4.3 (``WorkerConfig``, ``StandaloneConfig``, ``RestServerConfig``).
Keys below ``producer.``, ``consumer.`` and ``admin.`` are defaults for the clients of connectors, which warn about what they do
not know. Of the other keys the clients get those of connection and security (:func:`worker.kafka.settings.client_settings_of`).
What neither the table nor the clients know is ignored, with a warning (:mod:`worker.config_notices`).
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from connect.config.definition import ConfigDef, ConfigKey, Importance
from connect.config.types import ConfigType
from connect.config.validators import at_least, one_of
from connect.errors import ConfigError
from worker.config_providers import ConfigProviders
from worker.secrets import SecretMask

DEFAULT_PORT = 8083
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
        "host:port pairs of brokers, separated by commas; the whole cluster is found from any of them.",
    ),
    _key(
        "client.dns.lookup", _STRING, "use_all_dns_ips", _MEDIUM, "How addresses of brokers are looked up.",
        validator=one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    ConfigKey("key.converter", _CLASS, importance=_HIGH, doc="Converter between Connect's data and record keys in Kafka."),
    ConfigKey("value.converter", _CLASS, importance=_HIGH, doc="Converter between Connect's data and record values in Kafka."),
    _key("header.converter", _CLASS, _SIMPLE_HEADERS, _LOW, "Converter between header values and their bytes in Kafka."),
    _key(
        "task.shutdown.graceful.timeout.ms", _LONG, 5000, _LOW,
        "How long tasks are given to shut down, all together; after that they are abandoned.",
    ),
    _key("offset.flush.interval.ms", _LONG, 60000, _LOW, "How often offsets are committed."),
    _key(
        "offset.flush.timeout.ms", _LONG, 5000, _LOW,
        "How long a commit of offsets may wait for outstanding records before it is given up until the next interval.",
    ),
    _key(
        "plugin.path", _LIST, None, _LOW,
        "Folders with more plugins. Each is put at the end of Python's path: names as package.module:Class are found in "
        "it, and so are packages that were installed into it.",
    ),
    _key(
        "plugin.discovery", _STRING, "hybrid_warn", _LOW, "Accepted for Apache's sake: plugins are found by entry point here.",
        validator=one_of("only_scan", "hybrid_warn", "hybrid_fail", "service_load", ignore_case=True),
    ),
    _key(
        "metrics.sample.window.ms", _LONG, 30000, _LOW, "The time a metrics sample covers. Not used yet.",
        validator=at_least(0),
    ),
    _key("metrics.num.samples", _INT, 2, _LOW, "How many samples are kept for metrics. Not used yet.", validator=at_least(1)),
    _key(
        "metrics.recording.level", _STRING, "INFO", _LOW, "The highest level of metrics that are recorded. Not used yet.",
        validator=one_of("INFO", "DEBUG"),
    ),
    _key(
        "metric.reporters", _LIST, "org.apache.kafka.common.metrics.JmxReporter", _LOW,
        "Classes that report metrics. Not used yet.",
    ),
    _key(
        "config.providers", _LIST, "", _LOW,
        "Names of config providers, each set up by config.providers.<name>.class and config.providers.<name>.param.*: values "
        "written ${name:path:key} are asked of them.",
    ),
    _key(
        "connector.client.config.override.policy", _STRING, "All", _MEDIUM,
        "Which client settings a connector may override: All, Principal, None, or Apache's class names for these.",
    ),
    _key("topic.creation.enable", _BOOLEAN, True, _LOW, "Whether topics may be created as topic.creation.* of connectors say."),
    _key("topic.tracking.enable", _BOOLEAN, True, _LOW, "Whether the topics a connector uses are tracked. Not used yet."),
    _key("topic.tracking.allow.reset", _BOOLEAN, True, _LOW, "Whether tracked topics may be reset over REST. Not used yet."),
)  # fmt: skip

_REST = (
    _key("listeners", _LIST, "http://:8083", _LOW, "Addresses on which REST answers, as http://host:port, separated by commas."),
    _key("rest.advertised.host.name", _STRING, None, _LOW, "Host name under which others reach this worker."),
    _key("rest.advertised.port", _INT, None, _LOW, "Port on which others reach this worker."),
    _key("rest.advertised.listener", _STRING, None, _LOW, "Which listener (http or https) others use. Not used yet."),
    _key(
        "access.control.allow.origin", _STRING, "", _LOW,
        "Value of Access-Control-Allow-Origin; empty: this origin only. Not used yet.",
    ),
    _key("access.control.allow.methods", _STRING, "", _LOW, "Methods allowed for cross-origin requests. Not used yet."),
    _key("admin.listeners", _LIST, None, _LOW, "Listeners for /admin; null means the same ones, empty means none. Not used yet."),
    _key("rest.extension.classes", _LIST, "", _LOW, "REST extensions, by class name. Not used yet."),
    _key("response.http.headers.config", _STRING, "", _LOW, "Rules for headers added to REST answers. Not used yet."),
    _key(
        "ssl.client.auth", _STRING, "none", _LOW, "Whether https listeners ask clients for a certificate. Not used yet.",
        validator=one_of("none", "requested", "required"),
    ),
)  # fmt: skip

# Handed on as they are to the Kafka clients. REST has no https yet: keys below listeners.https. are warned about.
_SSL = tuple(
    _key(name, type, None, _LOW, "TLS, as in Kafka clients.")
    for name, type in (
        ("security.protocol", _STRING),
        ("sasl.mechanism", _STRING),
        ("sasl.jaas.config", _PASSWORD),
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
        doc="The file in which source offsets are kept. One worker at a time may use it.",
    ),
    _key(
        "task.executors", _INT, 0, _LOW, "Processes for tasks; 0 runs them as threads of the worker. Not used yet.",
        validator=at_least(0),
    ),
)  # fmt: skip


def standalone_config_def() -> ConfigDef:
    """The keys of a standalone worker."""
    return ConfigDef((*_COMMON, *_REST, *_SSL, *_STANDALONE))


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """A worker's settings, typed. ``originals`` is the text as it was given, with secrets in place of references to config
    providers: never print it."""

    originals: Mapping[str, str] = field(repr=False)
    providers: ConfigProviders = field(repr=False, compare=False)
    """Whoever runs the worker closes them."""
    bootstrap_servers: tuple[str, ...]
    key_converter: str
    value_converter: str
    header_converter: str
    task_shutdown_graceful_timeout_ms: int
    offset_flush_interval_ms: int
    offset_flush_timeout_ms: int
    plugin_path: tuple[str, ...]
    override_policy: str
    topic_creation_enable: bool
    topic_tracking_enable: bool
    topic_tracking_allow_reset: bool
    listeners: tuple[str, ...]
    admin_listeners: tuple[str, ...] | None
    rest_advertised_host_name: str | None
    rest_advertised_port: int | None
    access_control_allow_origin: str
    access_control_allow_methods: str
    rest_extension_classes: tuple[str, ...]
    response_http_headers_config: str
    offset_storage_file_filename: str
    task_executors: int

    @classmethod
    def standalone(cls, given: Mapping[str, str], mask: SecretMask | None = None) -> WorkerConfig:
        """Parses a standalone worker's properties. Raises ConfigError in Kafka's words.

        The config providers that they name are made here, and answer for these properties too. The mask, a new one by default,
        learns what they answer; it is ``providers.mask``.
        """
        providers = ConfigProviders.of_worker(given, mask or SecretMask())
        resolved = providers.resolve(given, "Worker").values
        props = {key: value for key, value in resolved.items() if value is not None}
        parsed = standalone_config_def().parse(props)
        for listener in parsed["listeners"]:
            split_listener(listener)
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
            override_policy=parsed["connector.client.config.override.policy"],
            topic_creation_enable=parsed["topic.creation.enable"],
            topic_tracking_enable=parsed["topic.tracking.enable"],
            topic_tracking_allow_reset=parsed["topic.tracking.allow.reset"],
            listeners=tuple(parsed["listeners"]),
            admin_listeners=None if parsed["admin.listeners"] is None else tuple(parsed["admin.listeners"]),
            rest_advertised_host_name=parsed["rest.advertised.host.name"] or None,
            rest_advertised_port=parsed["rest.advertised.port"],
            access_control_allow_origin=parsed["access.control.allow.origin"],
            access_control_allow_methods=parsed["access.control.allow.methods"],
            rest_extension_classes=tuple(parsed["rest.extension.classes"]),
            response_http_headers_config=parsed["response.http.headers.config"],
            offset_storage_file_filename=parsed["offset.storage.file.filename"],
            task_executors=parsed["task.executors"],
        )

    @property
    def worker_id(self) -> str:
        """``<advertised host>:<advertised port>``, as statuses show it."""
        _, host, port = split_listener(self.listeners[0]) if self.listeners else ("http", "", DEFAULT_PORT)
        if host in ("0.0.0.0", "::"):
            host = ""
        advertised = self.rest_advertised_host_name or host or socket.gethostname()
        return f"{advertised}:{self.rest_advertised_port or port}"

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The settings below a prefix, without it, as ``producer.`` or ``key.converter.``."""
        size = len(prefix)
        return {key[size:]: value for key, value in self.originals.items() if key.startswith(prefix)}


def split_listener(listener: str) -> tuple[str, str, int]:
    """Scheme, host ("" for all interfaces) and port of a listener. Raises ConfigError."""
    parts = urlsplit(listener)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme.lower() not in ("http", "https") or port is None:
        raise ConfigError(
            f"Invalid value {listener} for configuration listeners: expected http://host:port or https://host:port, "
            f"as http://localhost:{DEFAULT_PORT}",
            key="listeners",
        )
    return parts.scheme.lower(), parts.hostname or "", port
