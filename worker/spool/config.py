"""The properties of a spooler: a connector's configuration, settings of its spool, and some of a worker."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from connect.config.finding import Severity
from connect.connector import SinkConnector
from connect.errors import ConfigError
from connect.plugins import Plugins
from connect.spool.config import LOWER_CASE, PREFIX, SpoolSettings, parse_settings
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.lint import codes
from worker.lint.connector import check_connector
from worker.lint.context import LintContext

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_WORKER_KEYS = ("plugin.path", "offset.flush.interval.ms", "offset.flush.timeout.ms", "task.shutdown.graceful.timeout.ms")
_WORKER_PREFIX = "config.providers"
_DEFAULTS = {
    "key.converter": _JSON,
    "value.converter": _JSON,
    # Without it, JsonConverter writes the default of a column in place of null.
    "value.converter.replace.null.with.default": "false",
    "offset.storage.file.filename": "index.jsonl",
    "offset.flush.interval.ms": "5000",
    "task.executors": "0",
    "topic.creation.enable": "false",
}
_DEAD_LETTERS = "errors.deadletterqueue."
_CASELESS = ("producer.override.", "consumer.override.", "admin.override.", "topic.creation.")
"""Keys without capital letters."""


@dataclass(frozen=True, slots=True)
class SpoolerConfig:
    """Typed values. ``connector`` has references to config providers unresolved."""

    connector: Mapping[str, str] = field(repr=False)
    worker: WorkerConfig = field(repr=False)
    spool: SpoolSettings

    @property
    def name(self) -> str:
        return self.connector["name"]


def parse_spooler_config(given: Mapping[str, str], plugins: Plugins, mask: SecretMask) -> SpoolerConfig:
    """Parses and checks the properties. Raises ConfigError that lists every problem, such as an unknown key with the nearest
    known one. Spark passes names of options in lower case: keys get their own case back, or are refused."""
    of_worker = {key: value for key, value in given.items() if key in _WORKER_KEYS or key.startswith(_WORKER_PREFIX)}
    rest = {key: value for key, value in given.items() if key not in of_worker and not key.startswith(PREFIX)}
    worker_properties = {**_DEFAULTS, **_restore_listed(of_worker)}
    connector = restore_case({"name": "spool", **rest}, plugins)
    _check(connector, plugins, worker_properties, set(given.get(LOWER_CASE, "").split("\n")))
    worker = WorkerConfig.standalone(worker_properties, mask)
    return SpoolerConfig(connector, worker, parse_settings(given))


def restore_case(config: Mapping[str, str], plugins: Plugins) -> dict[str, str]:
    """Returns the configuration with keys in lower case replaced by the keys that the connector and its plugins have."""
    found = _restore_listed(config)
    known = {name.lower(): name for name in LintContext(found, plugins).tables}
    return {known.get(key, key): value for key, value in found.items()}


def _restore_listed(config: Mapping[str, str]) -> dict[str, str]:
    """Returns the configuration with the case of what other keys list: ``transforms=Hoist`` has that of
    ``transforms.Hoist.field``."""
    found = {}
    for key, value in config.items():
        listed = max(_listed(key, config), key=len, default="")
        found[listed + key[len(listed) :]] = value
    return found


def _listed(key: str, config: Mapping[str, str]) -> Iterator[str]:
    """Yields what a key begins with, or is, according to the list of another key."""
    for at in (at for at, letter in enumerate(key) if letter == "."):
        for entry in filter(None, map(str.strip, config.get(key[:at], "").split(","))):
            name = f"{key[:at]}.{entry}"
            if f"{key}.".lower().startswith(f"{name}.".lower()):
                yield name


def _lost_case(context: LintContext, lower_case: Collection[str]) -> list[str]:
    """Returns the keys of those in lower case that may have had capital letters, because no component defines them."""
    config = {key: value or "" for key, value in context.config.items()}
    caseless = (*_CASELESS, *type(context.connector).caseless_prefixes) if context.connector is not None else _CASELESS
    open_keys = [key for key in config if key in lower_case and key not in context.tables and not key.startswith(caseless)]
    return [key for key in open_keys if key not in _listed(key, config)]


def _check(connector: Mapping[str, str], plugins: Plugins, worker: Mapping[str, str], lower_case: Collection[str]) -> None:
    context = LintContext(connector, plugins)
    if isinstance(context.connector, SinkConnector):
        raise ConfigError.invalid(
            "connector.class", connector["connector.class"], "it is a sink connector: only source connectors can be read"
        )
    findings = check_connector(connector, plugins, worker=worker)
    problems = [found.text for found in findings if found.severity is Severity.ERROR or found.code == codes.UNKNOWN_KEY.name]
    problems += [
        f"{key} needs Kafka, which there is not: use errors.log.enable" for key in connector if key.startswith(_DEAD_LETTERS)
    ]
    unknown = {found.path for found in findings if found.code == codes.UNKNOWN_KEY.name}
    problems += [
        f"Spark passes names of options in lower case, and {key} may have had capital letters. Put this key into a file, and set "
        "connector.properties to the file"
        for key in _lost_case(context, lower_case)
        if key not in unknown
    ]
    if problems:
        listed = "".join(f"\n- {problem}" for problem in problems)
        raise ConfigError(f"Connector {connector['name']} cannot run with these options:{listed}")
