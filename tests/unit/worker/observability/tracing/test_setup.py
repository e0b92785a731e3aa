"""Whether a process traces its tasks."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from connect import extras
from connect.errors import ConfigError, MissingExtraError
from tests.support.waiting import WAIT_S
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.observability.tracing.setup import check_tracing, find_exporter, start_tracing

CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
PROPS = {"key.converter": CONVERTER, "value.converter": CONVERTER, "offset.storage.file.filename": "offsets"}


def config(enabled: str = "true") -> WorkerConfig:
    return WorkerConfig.standalone({**PROPS, "tracing.enabled": enabled})


def test_traces_are_off_by_default() -> None:
    off = WorkerConfig.standalone(PROPS)
    check_tracing(off, {"OTEL_TRACES_EXPORTER": "nonsense"})
    assert start_tracing(off, SecretMask()) is None


def test_worker_without_traces_imports_no_part_of_opentelemetry() -> None:
    code = (
        "import sys, worker.executors.child, worker.executors.local\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=WAIT_S)


def test_worker_without_the_extra_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(extras, "_complete", set())
    monkeypatch.setattr(extras, "_is_installed", lambda module: not module.startswith("opentelemetry"))
    with pytest.raises(
        MissingExtraError, match=r"^tracing\.enabled=true needs opentelemetry.* pip install 'sluice-connect\[otel\]'"
    ):
        check_tracing(config(), {})
    # A connector's own environment may lack it although the worker's does not.
    with caplog.at_level(logging.WARNING):
        assert start_tracing(config(), SecretMask()) is None
    assert "Tasks of this executor are not traced" in caplog.text


def test_exporter_is_that_of_the_environment() -> None:
    assert find_exporter({}) == "otlp"
    assert find_exporter({"OTEL_TRACES_EXPORTER": " Console "}) == "console"
    with pytest.raises(
        ConfigError, match="Invalid value zipkin for environment variable OTEL_TRACES_EXPORTER: expected one of otlp"
    ):
        check_tracing(config(), {"OTEL_TRACES_EXPORTER": "zipkin"})


def test_protocol_that_needs_another_exporter_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value grpc for .* OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf"):
        check_tracing(config(), {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    for_traces = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}
    check_tracing(config(), for_traces)
    check_tracing(config(), {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_EXPORTER": "none"})


def test_traces_without_exporter_only_have_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    tracing = start_tracing(config(), SecretMask())
    assert tracing is not None
    tracing.close(1)
