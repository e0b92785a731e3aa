"""docs/reference is what the tables say, and ``sluice docs`` shows the same."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from connect.plugins import Kind, PluginDesc, Plugins
from connect.version import DISTRIBUTION
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.reference import pages
from sluice.reference.json_schema import json_schema

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
HOW = "run: sluice docs --write docs/reference"


def _sluice(*words: str) -> int:
    return run(build(COMMANDS), words)


def test_reference_pages_are_current() -> None:
    expected = pages.pages(Plugins.discover())
    stored = {path.name: path.read_text("utf-8") for path in REFERENCE.glob("*.md")}
    assert sorted(stored) == sorted(expected), HOW
    different = [name for name, text in expected.items() if stored[name] != text]
    assert not different, f"{', '.join(different)}: {HOW}"


def test_every_key_has_a_page_and_documentation() -> None:
    for component in pages.components(Plugins.discover()):
        text = pages.page(component)
        for key in component.table.keys.values():
            assert key.internal or f"# `{key.name}`" in text, f"{component.name}: {key.name}"
            assert key.doc, f"{component.name}: {key.name} has no text that says what it is for"


def test_every_plugin_with_a_config_def_is_a_component() -> None:
    plugins = Plugins.discover()
    named = {name for component in pages.components(plugins) for name in component.names}
    own = [d for d in plugins.all() if d.distribution == DISTRIBUTION and d.kind is not Kind.CONFIG_PROVIDER]
    assert own
    for desc in own:
        assert {desc.path, *desc.java_names, *desc.aliases} <= named


@pytest.mark.parametrize(
    "name",
    [
        "spark-sink",
        "SparkSink",
        "connectors.spark:SparkSink",
        "FileStreamSource",
        "FileStreamSourceConnector",
        "org.apache.kafka.connect.json.JsonConverter",
        "JsonConverter",
        "worker",
        "distributed-worker",
    ],
)
def test_component_is_found_by_any_of_its_names(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _sluice("docs", name) == 0
    assert capsys.readouterr().out.startswith("# ")


def test_unregistered_connector_is_found_by_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert _sluice("docs", "connect.testing.memory:MemorySink") == 0
    assert "`connect.testing.memory:MemorySink`" in capsys.readouterr().out


def test_unknown_component_is_bad_usage_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert _sluice("docs", "SparkSinc") == 2
    assert "Did you mean SparkSink?" in capsys.readouterr().err


def test_list_and_page_can_be_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert _sluice("docs", "-o", "json") == 0
    assert "postgres-source" in {one["name"] for one in json.loads(capsys.readouterr().out)}
    assert _sluice("docs", "postgres-source", "-o", "json") == 0
    keys = {key["name"]: key for key in json.loads(capsys.readouterr().out)["keys"]}
    assert keys["topic.prefix"]["required"] is True
    assert keys["database.port"]["default"] == "5432"
    assert keys["database.password"]["default"] is None


@pytest.mark.parametrize(
    ("config", "valid"),
    [
        ({"topic": "t"}, True),
        ({"topic": "t", "batch.size": 5}, True),
        ({"topic": "t", "batch.size": " 5 "}, True),
        ({"topic": "t", "batch.size": "${env:SIZE}"}, True),
        ({"topic": "t", "transforms": "a"}, True),
        ({"topic": "t", "batch.size": "many"}, False),
        ({"topic": "t", "batch.size": 2.5}, False),
        ({"topic": 5}, False),
        ({}, False),
    ],
)
def test_json_schema_accepts_what_the_config_def_accepts(
    config: dict[str, object], valid: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _sluice("docs", "file-stream-source", "-o", "json-schema") == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert jsonschema.Draft202012Validator(schema).is_valid(config) is valid


def test_json_schema_has_ranges_and_choices() -> None:
    (sources,) = (one for one in pages.framework_components() if one.name == "source-connectors")
    schema = jsonschema.Draft202012Validator(json_schema(sources))
    config = {"name": "a", "connector.class": "FileStreamSource"}
    assert schema.is_valid({**config, "tasks.max": 1, "errors.tolerance": "all", "exactly.once.support": "Required"})
    assert not schema.is_valid({**config, "tasks.max": 0})
    assert not schema.is_valid({**config, "errors.tolerance": "some"})


def test_json_schema_of_every_component_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    for component in pages.components(Plugins.discover()):
        jsonschema.Draft202012Validator.check_schema(json_schema(component))


def test_page_for_a_terminal_has_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert _sluice("docs", "SparkSink") == 0
    shown = capsys.readouterr().out
    assert "soft sets __deleted" in shown
    assert pages.MARK not in shown


def test_write_removes_only_generated_pages_of_removed_components(tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text(f"# Gone\n\n{pages.MARK}\n")
    (tmp_path / "mine.md").write_text("# Mine\n")
    assert _sluice("docs", "--write", str(tmp_path)) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert "gone.md" not in names
    assert {"mine.md", "worker.md", "distributed-worker.md", "README.md"} <= names


def test_write_rejects_a_component(tmp_path: Path) -> None:
    assert _sluice("docs", "worker", "--write", str(tmp_path)) == 2


def test_classes_of_the_same_name_get_separate_pages() -> None:
    def desc(path: str) -> PluginDesc:
        return PluginDesc(Kind.CONNECTOR, path, (), (), "sink", "1", DISTRIBUTION)

    plugins = Plugins([desc("connect.testing:MemorySink"), desc("connect.testing.memory:MemorySink")])
    names = {component.name for component in pages.components(plugins)}
    framework = {component.name for component in pages.framework_components()}
    workers = {component.name for component in pages.worker_components()}
    assert names - framework - workers == {"connect-testing-memory-sink", "connect-testing-memory-memory-sink"}


def test_broken_third_party_plugin_does_not_hide_others(caplog: pytest.LogCaptureFixture) -> None:
    broken = PluginDesc(Kind.CONNECTOR, "no.such.module:Sink", (), (), "sink", "1", "elsewhere")
    found = pages.components(Plugins([broken, *Plugins.discover().all()]), distribution=None)
    assert "spark-sink" in {component.name for component in found}
    assert "no.such.module:Sink" in caplog.text
