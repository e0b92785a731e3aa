"""``plugin.allow`` and ``plugin.deny``: what they leave out cannot be named by any of its names, and is never imported."""

from __future__ import annotations

import sys

import pytest

from connect.errors import PluginNotFoundError
from connect.plugin_rules import PluginRules
from connect.plugins import Kind, Plugins
from worker.config.worker_config import WorkerConfig
from worker.validation.plugin_index import DiscoveredPluginIndex, PluginType

NEEDED = {
    "bootstrap.servers": "x:1",
    "key.converter": "String",
    "value.converter": "JsonConverter",
    "offset.storage.file.filename": "o",
}


def plugins(**keys: str) -> Plugins:
    props = {f"plugin.{name}": value for name, value in keys.items()}
    return Plugins.discover().restricted(WorkerConfig.standalone({**NEEDED, **props}).plugin_rules)


def test_without_rules_nothing_changes() -> None:
    assert plugins() is Plugins.discover()


@pytest.mark.parametrize(
    "name",
    [
        "FileStreamSource",
        "FileStreamSourceConnector",
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "connectors.file:FileStreamSource",
        "connectors.file.FileStreamSource",
        "connectors.file.source:FileStreamSource",
    ],
)
def test_denied_plugin_is_refused_under_each_name(name: str) -> None:
    restricted = plugins(deny="org.apache.kafka.connect.file.*")
    with pytest.raises(PluginNotFoundError, match=r"is not allowed on this worker: see plugin\.allow|Failed to find"):
        restricted.resolve(Kind.CONNECTOR, name)
    assert restricted.resolve(Kind.CONNECTOR, "Datagen").path.startswith("connectors.datagen")
    listed = DiscoveredPluginIndex(restricted).listed(PluginType.SOURCE)
    assert not [one for one in listed if "FileStream" in one.name]


def test_only_what_is_allowed_and_the_workers_converters_can_be_named() -> None:
    restricted = plugins(allow="Datagen,*Cast*")
    assert restricted.resolve(Kind.CONNECTOR, "Datagen")
    assert restricted.resolve(Kind.TRANSFORMATION, "org.apache.kafka.connect.transforms.Cast$Value")
    assert restricted.resolve(Kind.CONVERTER, "JsonConverter")
    refused = (
        (Kind.CONNECTOR, "FileStreamSink"),
        (Kind.TRANSFORMATION, "HoistField$Key"),
        (Kind.CONVERTER, "ByteArrayConverter"),
    )
    for kind, name in refused:
        with pytest.raises(PluginNotFoundError):
            restricted.resolve(kind, name)


def test_module_of_a_refused_path_is_not_imported() -> None:
    sys.modules.pop("antigravity", None)
    with pytest.raises(PluginNotFoundError, match="not allowed"):
        plugins(allow="Datagen").resolve(Kind.CONNECTOR, "antigravity:Connector")
    assert "antigravity" not in sys.modules


def test_path_that_is_not_registered_needs_a_pattern_of_its_own() -> None:
    assert PluginRules().allows_path("my.module:Source")
    assert not PluginRules(deny=("x",)).allows_path("my.module:Source")
    assert PluginRules(("*", "my.*"), ("x",)).allows_path("my.module:Source")
    assert not PluginRules(("my.*",), ("*:Source",)).allows_path("my.module:Source")
