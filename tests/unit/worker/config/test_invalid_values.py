"""Values of the wrong type, for every key of every connector: errors, whatever validators the keys have."""

from __future__ import annotations

import pytest

from connect.config.definition import ConfigDef
from connect.config.types import ConfigType
from connect.plugins import PluginDesc, Plugins
from worker.config.extension_keys import CONNECTOR_EXTENSION_KEYS, DISTRIBUTED_EXTENSION_KEYS, WORKER_EXTENSION_KEYS

PLUGINS = Plugins.discover()
NUMBERS = {ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.DOUBLE, ConfigType.BOOLEAN}


def assert_errors_name_the_type(keys: ConfigDef) -> None:
    wrong = [name for name, key in keys.keys.items() if key.type in NUMBERS]
    found = {value.name: value.errors for value in keys.validate(dict.fromkeys(wrong, "often"))}
    for name in wrong:
        assert any(f"Invalid value often for configuration {name}: " in error for error in found[name]), (name, found[name])


@pytest.mark.parametrize("plugin", PLUGINS.connectors(), ids=lambda plugin: plugin.class_name)
def test_keys_of_connectors(plugin: PluginDesc) -> None:
    assert_errors_name_the_type(PLUGINS.load(plugin)().config_def())


def test_keys_that_apache_does_not_have() -> None:
    assert_errors_name_the_type(ConfigDef(CONNECTOR_EXTENSION_KEYS))
    assert_errors_name_the_type(ConfigDef((*WORKER_EXTENSION_KEYS, *DISTRIBUTED_EXTENSION_KEYS)))
