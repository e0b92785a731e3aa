"""Plugins by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from connect.connector import SinkConnector, SourceConnector
from connect.converters.json.converter import JsonConverter
from connect.errors import ConfigError, PluginNotFoundError
from connect.plugins import Kind, PluginDesc, Plugins
from tests.support.waiting import WAIT_S


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return Plugins.discover()


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSourceConnector",
        "FileStreamSource",
        "connectors.file:FileStreamSource",
        "connectors.file.FileStreamSource",
    ],
)
def test_every_form_of_a_name_resolves_to_the_same_connector(plugins: Plugins, name: str) -> None:
    desc = plugins.resolve(Kind.CONNECTOR, name)
    assert (desc.path, desc.type) == ("connectors.file:FileStreamSource", "source")
    assert desc.class_name == "org.apache.kafka.connect.file.FileStreamSourceConnector"
    assert issubclass(plugins.load(desc), SourceConnector)


@pytest.mark.parametrize("name", ["MockSink", "MockSource", "SchemaSource", "VerifiableSink", "VerifiableSource"])
@pytest.mark.parametrize("separator", [":", "."])
def test_a_former_path_of_a_connector_still_resolves(plugins: Plugins, name: str, separator: str) -> None:
    desc = plugins.resolve(Kind.CONNECTOR, f"connectors.tools{separator}{name}")
    assert desc.path == f"connectors.verifiable:{name}"
    assert plugins.load(desc).__name__ == name


@pytest.mark.parametrize("kind", [Kind.CONVERTER, Kind.HEADER_CONVERTER])
@pytest.mark.parametrize("name", ["connect.converters.json:JsonConverter", "connect.converters.json.JsonConverter"])
def test_a_former_path_of_a_converter_still_resolves(plugins: Plugins, kind: Kind, name: str) -> None:
    assert plugins.load(plugins.resolve(kind, name)) is JsonConverter


@pytest.mark.parametrize("name", ["org.apache.kafka.connect.json.JsonConverter", "JsonConverter", "Json"])
def test_converters_have_the_same_forms(plugins: Plugins, name: str) -> None:
    assert type(plugins.new_converter(name)) is JsonConverter


def test_vendor_names_resolve_to_our_classes(plugins: Plugins) -> None:
    paths = {
        "io.debezium.connector.postgresql.PostgresConnector": "connectors.postgres:PostgresSource",
        "io.confluent.kafka.connect.datagen.DatagenConnector": "connectors.datagen:DatagenSource",
        "SparkSink": "connectors.spark:SparkSink",
    }
    assert {name: plugins.resolve(Kind.CONNECTOR, name).path for name in paths} == paths


def test_unknown_class_error_lists_the_nearest_and_all_known(plugins: Plugins) -> None:
    with pytest.raises(PluginNotFoundError) as caught:
        plugins.resolve(Kind.CONNECTOR, "org.apache.kafka.connect.file.FileStreamSorceConnector")
    message = caught.value.message
    assert message.startswith("Failed to find any class that implements Connector and which name matches")
    assert "org.apache.kafka.connect.file.FileStreamSinkConnector" in message
    assert message.endswith("Did you mean org.apache.kafka.connect.file.FileStreamSourceConnector?")


def test_a_python_path_needs_no_registration(plugins: Plugins) -> None:
    desc = plugins.resolve(Kind.CONNECTOR, "connect.testing:MemorySink")
    assert desc.type == "sink"
    assert issubclass(plugins.load(desc), SinkConnector)


def test_path_to_another_kind_is_rejected(plugins: Plugins) -> None:
    with pytest.raises(ConfigError, match="is no connector"):
        plugins.resolve(Kind.CONNECTOR, "connect.converters.json.converter:JsonConverter")
    with pytest.raises(PluginNotFoundError, match="cannot be loaded"):
        plugins.resolve(Kind.CONNECTOR, "no.such.module:Connector")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("class Broken:\n  def\n", r"SyntaxError: .*broken_plugin\.py, line 2"),
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
    ],
)
def test_import_errors_are_reported(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    (tmp_path / "broken_plugin.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginNotFoundError, match=f"broken_plugin:Broken cannot be loaded from broken_plugin:Broken: {reason}"):
        plugins.resolve(Kind.CONNECTOR, "broken_plugin:Broken")


def test_ambiguous_short_name_resolves_to_nothing() -> None:
    one = PluginDesc(Kind.CONNECTOR, "a:One", ("org.a.TwinConnector",), (), "sink", "1", "a")
    two = PluginDesc(Kind.CONNECTOR, "b:Two", ("org.b.TwinConnector",), ("Second",), "sink", "1", "b")
    plugins = Plugins([one, two])
    with pytest.raises(PluginNotFoundError):
        plugins.resolve(Kind.CONNECTOR, "Twin")
    assert plugins.resolve(Kind.CONNECTOR, "org.a.TwinConnector") is one
    assert plugins.resolve(Kind.CONNECTOR, "Second") is two


def test_nested_java_classes_have_their_last_name_as_alias() -> None:
    desc = PluginDesc(Kind.TRANSFORMATION, "t:Router", ("org.x.Router$Value",), (), "transformation", "1", "")
    assert Plugins([desc]).resolve(Kind.TRANSFORMATION, "Value") is desc


def test_listing_imports_no_client_framework_or_database() -> None:
    code = """
import sys
from connect.plugins import Plugins
names = [desc.class_name for desc in Plugins.discover().all()]
assert len(names) > 8, names
heavy = {"pyspark", "psycopg", "psycopg2", "confluent_kafka", "sqlalchemy", "fastapi", "pyarrow", "delta"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=WAIT_S)
