"""Converters of sink tasks that must not receive values which a converter changed silently."""

from __future__ import annotations

import pytest

from connect.errors import DataError
from connect.plugins import Plugins
from connectors.spark.task import SparkSinkTask
from tests.unit.worker.executors.conftest import MemoryServices
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executors.task_factory import TaskFactory

JSON = "org.apache.kafka.connect.json.JsonConverter"
MESSAGE = b'{"schema":{"type":"int8"},"payload":300}'


def test_converters_refuse_what_they_would_change_unless_the_connector_says_otherwise() -> None:
    worker = {"bootstrap.servers": "unused:1", "key.converter": JSON, "value.converter": JSON}
    config = WorkerConfig.standalone({**worker, "offset.storage.file.filename": "unused"})
    factory = TaskFactory(config, Plugins.discover(), MemoryServices(), SecretMask())
    assert SparkSinkTask.needs_exact_values
    with pytest.raises(DataError, match="300 is not between"):
        factory.converters({}, exact=True).value.to_connect_data("t", MESSAGE)
    for converters in (factory.converters({}), factory.converters({"conversion.strict": "false"}, exact=True)):
        assert converters.value.to_connect_data("t", MESSAGE).value == 44
