"""Connectors that put their secrets wherever a plugin can: logs, warnings, errors, progress, metrics, traces, and threads."""

from __future__ import annotations

import base64
import ctypes
import json
import logging
import threading
import urllib.parse
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from connect import ConfigDef, ConfigType, SinkConnector, SinkRecord, SinkTask, SourceConnector, SourceRecord, SourceTask
from connect.config.definition import ConfigValue
from connect.errors import ConfigError, ConnectError, RetriableError
from connect.external_system import ConnectionStep, DataCollection, error_finding, warning_finding
from connect.metrics import Metric

SOURCE = f"{__name__}:LeakySource"
SINK = f"{__name__}:LeakySink"
log = logging.getLogger(__name__)


def forms(secret: str) -> str:
    """How libraries write a secret: as it is, in a URL, in JSON, in a header, and as Python shows it."""
    basic = base64.b64encode(f"someone:{secret}".encode()).decode()
    in_url, in_query = urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)
    return (
        f"{secret} postgresql://u:{in_url}@h/d ?x={in_query} {json.dumps(secret)} "
        f"{secret!r} {base64.b64encode(secret.encode()).decode()} {{'Authorization': 'Basic {basic}'}}"
    )


def secrets_of(config: Mapping[str, str]) -> str:
    return "; ".join(f"{name} is {forms(value)}" for name, value in config.items() if name.startswith("leak."))


def definition() -> ConfigDef:
    """Keys of type PASSWORD whose names do not indicate it."""
    table = ConfigDef().define("does", ConfigType.STRING, "", doc="Where to fail.")
    for number in range(8):
        table.define(f"leak.{number}", ConfigType.PASSWORD, "", doc="A secret.")
    return table


class LeakySystem:
    """Says its secrets in each step of a connection test, and in each table."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config, self._what = config, secrets_of(config)

    def test_connection(self) -> Iterator[ConnectionStep]:
        log.info("testing with %s", self._what)
        yield ConnectionStep("Connection", f"connected with {self._what}")
        advice = f"Set leak.0, not {self._what}"
        yield ConnectionStep("Tables", findings=(error_finding("refused", f"refused: {self._what}", "leak.0", advice),))
        self._fail()

    def data_collections(self) -> Sequence[DataCollection]:
        self._fail()
        finding = warning_finding("no-key", f"no key: {self._what}", "leak.1", f"use {self._what}")
        return [
            DataCollection("plain", "plain", details={"comment": self._what}, findings=(finding,)),
            DataCollection(self._config["leak.2"], self._config["leak.2"]),
        ]

    def _fail(self) -> None:
        if self._config["does"] == "fail":
            raise ValueError(f"no login: {self._what}")
        if self._config["does"] == "retry":
            raise ConnectError(f"the server refuses {self._what}") from OSError(self._what)

    def cancel(self) -> None:
        """Does nothing: no call takes long."""

    def close(self) -> None:
        log.info("closing what was opened with %s", self._what)


class LeakySource(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        log.info("starting with %s: %s", config, secrets_of(config))
        log.warning("an argument that is an error", exc_info=ConnectError(secrets_of(config)))
        warnings.warn(f"old: {secrets_of(config)}", UserWarning, stacklevel=1)
        if config["does"] == "fail start":
            raise ConnectError(f"cannot connect: {secrets_of(config)}") from OSError(secrets_of(config))

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        found = super().validate(config)
        if config.get("does") == "refuse":
            for one in found:
                if one.name == "leak.0":
                    one.errors.append(f"refused by the server: {secrets_of(config)}")
        if config.get("does") == "fail validate":
            raise ConfigError(f"cannot validate: {secrets_of(config)}")
        return found

    def config_def(self) -> ConfigDef:
        return definition()

    def external_system(self, config: Mapping[str, str]) -> LeakySystem:
        if config["does"] == "fail start":
            raise ConfigError(f"cannot open: {secrets_of(config)}", key="leak.0")
        return LeakySystem(config)

    def task_class(self) -> type[SourceTask]:
        return LeakySourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        # Under keys of its own, as some connectors do.
        return [{**self.config, **{f"passed.{name}": value for name, value in self.config.items() if name.startswith("leak.")}}]

    def stop(self) -> None:
        """Nothing to release."""


class LeakySourceTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = config
        self.stopped = threading.Event()
        self.polls = 0

    def poll(self) -> Sequence[SourceRecord] | None:
        self.polls += 1
        what = secrets_of(self.config)
        match self.config["does"]:
            case "retry":
                raise RetriableError(f"the server refuses {what}")
            case "fail":
                thread = threading.Thread(target=self._fail_alone, name=what[:60])
                thread.start()
                thread.join()
                raise ValueError(f"no login: {what}")
            case "crash":
                held = what
                ctypes.string_at(0)
                del held
        self.stopped.wait(0.05)
        return None

    def _fail_alone(self) -> None:
        raise ValueError(f"in a thread: {secrets_of(self.config)}")

    def progress(self) -> Mapping[str, Any]:
        return {"url": secrets_of(self.config), "nested": [{"password": self.config["leak.0"]}], self.config["leak.1"]: 1}

    def metrics(self) -> Sequence[Metric]:
        return [Metric("leaky_value", 1.0, f"Help with {self.config['leak.0']}", labels={"url": forms(self.config["leak.1"])})]

    def stop(self) -> None:
        self.stopped.set()


class LeakySink(SinkConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)

    def config_def(self) -> ConfigDef:
        return definition()

    def task_class(self) -> type[SinkTask]:
        return LeakySinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)]

    def stop(self) -> None:
        """Nothing to release."""


class LeakySinkTask(SinkTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = config

    def put(self, records: Sequence[SinkRecord]) -> None:
        for record in records:
            assert self.context.errant_record_reporter is not None
            self.context.errant_record_reporter.report(record, ConnectError(f"insert failed: {secrets_of(self.config)}"))

    def stop(self) -> None:
        """Nothing to release."""
