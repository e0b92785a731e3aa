"""The properties of a spooler: a connector's configuration, settings of its spool, and some of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect.config.finding import Severity
from connect.connector import SinkConnector
from connect.errors import ConfigError
from connect.plugins import Plugins
from connect.spool.config import PREFIX, SpoolSettings, parse_settings
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.lint import codes
from worker.lint.connector import check_connector
from worker.lint.context import LISTS, LintContext

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
    known one. Spark passes options in lower case: keys get their own case back."""
    of_worker = {key: value for key, value in given.items() if key in _WORKER_KEYS or key.startswith(_WORKER_PREFIX)}
    rest = {key: value for key, value in given.items() if key not in of_worker and not key.startswith(PREFIX)}
    worker_properties = {**_DEFAULTS, **of_worker}
    connector = restore_case({"name": "spool", **rest}, plugins)
    _check(connector, plugins, worker_properties)
    worker = WorkerConfig.standalone(worker_properties, mask)
    return SpoolerConfig(connector, worker, parse_settings(given))


def restore_case(config: Mapping[str, str], plugins: Plugins) -> dict[str, str]:
    """Returns the configuration with keys in lower case replaced by the keys that the connector and its plugins have."""
    found = dict(config)
    for list_key in LISTS.values():
        for alias in (name.strip() for name in config.get(list_key, "").split(",")):
            prefix = f"{list_key}.{alias}."
            found = {_with_prefix(key, prefix): value for key, value in found.items()}
    known = {name.lower(): name for name in LintContext(found, plugins).tables}
    return {known.get(key, key): value for key, value in found.items()}


def _with_prefix(key: str, prefix: str) -> str:
    return prefix + key[len(prefix) :] if key.startswith(prefix.lower()) else key


def _check(connector: Mapping[str, str], plugins: Plugins, worker: Mapping[str, str]) -> None:
    if isinstance(LintContext(connector, plugins).connector, SinkConnector):
        raise ConfigError.invalid(
            "connector.class", connector["connector.class"], "it is a sink connector: only source connectors can be read"
        )
    findings = check_connector(connector, plugins, worker=worker)
    problems = [found.text for found in findings if found.severity is Severity.ERROR or found.code == codes.UNKNOWN_KEY.name]
    problems += [
        f"{key} needs Kafka, which there is not: use errors.log.enable" for key in connector if key.startswith(_DEAD_LETTERS)
    ]
    if problems:
        listed = "".join(f"\n- {problem}" for problem in problems)
        raise ConfigError(f"Connector {connector['name']} cannot run with these options:{listed}")
