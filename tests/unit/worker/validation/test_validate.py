"""Validation answers without a worker: against recordings, and for what recordings don't show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from connect import ConfigDef, ConfigType, ConnectRecord, Predicate, SourceConnector, SourceTask, Transformation
from connect.config.validators import at_least
from connect.converters.json.converter import JsonConverter
from connect.errors import BadRequestError, ConfigError, ConnectError, NotFoundError
from connect.plugins import APACHE_VERSION, Plugins
from tests.integration.rest.replay import Answer, differences, filled, load_recordings
from worker.config.worker_config import WorkerConfig
from worker.validation import (
    DiscoveredPluginIndex,
    Plugin,
    PluginType,
    create_error_message,
    list_plugins,
    plugin_config,
    validate,
)
from worker.validation.config_validator import restore_references_in_response

JSON = "org.apache.kafka.connect.json.JsonConverter"
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
WORKER = {"key.converter": JSON, "value.converter": JSON, "offset.storage.file.filename": "offsets"}

VALIDATIONS = [r for r in load_recordings("standalone") if r["request"]["path"].endswith("/validate") and r["status"] == 200]
TABLES = [r for r in load_recordings("standalone") if r["id"].startswith("plugin-config-") and r["status"] in (200, 400, 404)]


class Task(SourceTask):
    """Never started."""

    def start(self, config: Mapping[str, str]) -> None: ...

    def poll(self) -> None:
        return None

    def stop(self) -> None: ...


class Secretive(SourceConnector):
    """A connector with a secret and a rule."""

    def start(self, config: Mapping[str, str]) -> None: ...

    def task_class(self) -> type[SourceTask]:
        return Task

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []

    def stop(self) -> None: ...

    def config_def(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("password", ConfigType.PASSWORD, doc="Secret.")
            .define("size", ConfigType.INT, 5, validator=at_least(1), group="Sizes")
        )


class Double(Transformation):
    """A transformation with a key of its own, and one that the framework hides."""

    def configure(self, configs: Mapping[str, Any]) -> None: ...

    @classmethod
    def config_def(cls) -> ConfigDef:
        table = ConfigDef().define("factor", ConfigType.INT, validator=at_least(2)).define("predicate", ConfigType.INT, 1)
        return table.define("name", ConfigType.STRING, "x", group="Names")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return record


class Always(Predicate):
    def configure(self, configs: Mapping[str, Any]) -> None: ...

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef()

    def test(self, record: ConnectRecord) -> bool:
        return True


class SmallCatalogue:
    """A few classes by name."""

    plugins = (
        Plugin("Secretive", frozenset({PluginType.SOURCE}), "1.2", lambda: Secretive),
        Plugin("Double", frozenset({PluginType.TRANSFORMATION}), "1.2", lambda: Double),
        Plugin("Always", frozenset({PluginType.PREDICATE}), "1.2", lambda: Always),
        Plugin(JSON, frozenset({PluginType.CONVERTER, PluginType.HEADER_CONVERTER}), "1.2", lambda: JsonConverter),
    )

    def find(self, name: str, kinds: Sequence[PluginType] = ()) -> Plugin | None:
        return next((p for p in self.plugins if p.name == name), None)

    def listed(self, kind: PluginType) -> list[Plugin]:
        return [p for p in self.plugins if kind in p.kinds]

    def unknown_connector(self, name: str) -> str:
        return f"no {name}"


@pytest.fixture(scope="module")
def installed() -> DiscoveredPluginIndex:
    return DiscoveredPluginIndex(Plugins.discover())


@pytest.fixture
def worker() -> WorkerConfig:
    return WorkerConfig.standalone(WORKER)


def check(config: Mapping[str, Any], **worker: str) -> dict[str, Any]:
    return validate(
        {"connector.class": "Secretive", "name": "c", **config}, WorkerConfig.standalone({**WORKER, **worker}), SmallCatalogue()
    )


def found(answer: Mapping[str, Any], name: str) -> dict[str, Any]:
    return next(c["value"] for c in answer["configs"] if c["value"]["name"] == name)


def errors(answer: Mapping[str, Any]) -> dict[str, list[str]]:
    return {c["value"]["name"]: c["value"]["errors"] for c in answer["configs"] if c["value"]["errors"]}


@pytest.mark.parametrize("recording", VALIDATIONS, ids=lambda r: r["id"])
def test_answers_are_apaches(recording: dict[str, Any], installed: DiscoveredPluginIndex) -> None:
    worker = WorkerConfig.standalone({**WORKER, **recording["worker"]})
    config = {key: v if v is None or isinstance(v, str) else str(v) for key, v in recording["request"]["body"].items()}
    answer = Answer(200, recording["headers"], validate(config, worker, installed))
    assert differences(recording, answer) == []


@pytest.mark.parametrize("recording", TABLES, ids=lambda r: r["id"])
def test_tables_of_plugins_are_apaches(recording: dict[str, Any], installed: DiscoveredPluginIndex) -> None:
    name = recording["request"]["path"].split("/")[2]
    plugin = installed.find(name)
    query = dict(filled(recording["request"]["query"], {"version": str(plugin and plugin.version)}))
    try:
        answer = Answer(200, recording["headers"], plugin_config(name, installed, query.get("version")))
    except (BadRequestError, NotFoundError) as e:
        status = 404 if isinstance(e, NotFoundError) else 400
        answer = Answer(status, recording["headers"], {"error_code": status, "message": e.message})
    assert differences(recording, answer) == []


def test_a_secret_is_hidden_also_when_it_is_the_default_or_wrong_elsewhere() -> None:
    answer = check({"password": "s3cret", "size": "x", "producer.override.sasl.jaas.config": "c"})
    assert found(answer, "password")["value"] == "[hidden]"
    assert "s3cret" not in str(answer)


def test_the_connectors_own_errors_count() -> None:
    assert errors(check({"size": "0"})) == {
        "password": ['Missing required configuration "password" which has no default value.'],
        "size": ["Invalid value 0 for configuration size: Value must be at least 1"],
    }


def test_the_message_lists_every_error_and_where_to_see_them() -> None:
    answer = check({"size": "0", "password": "x", "tasks.max": "0"})
    assert create_error_message(answer) == (
        "Connector configuration is invalid and contains the following 2 error(s):\n"
        "Invalid value 0 for configuration tasks.max: Value must be at least 1\n"
        "Invalid value 0 for configuration size: Value must be at least 1\n"
        "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
    )
    assert create_error_message(check({"password": "x"})) is None


def test_no_class_and_an_unknown_class_are_bad_requests() -> None:
    with pytest.raises(BadRequestError, match=r"Connector config \{name=c, topic=t\} contains no connector type"):
        validate({"name": "c", "topic": "t"}, WorkerConfig.standalone(WORKER), SmallCatalogue())
    with pytest.raises(BadRequestError, match="no Nope"):
        check({"connector.class": "Nope"})


def test_null_is_an_error_only_where_the_connector_does_not_know_the_key() -> None:
    answer = check({"password": None, "unknown": None})
    assert errors(answer) == {"unknown": ["Null value can not be supplied as the configuration value."]}
    assert answer["configs"][0]["definition"] is None


def test_a_stage_brings_its_keys_required_first_and_hides_those_of_the_framework() -> None:
    answer = check({"password": "x", "transforms": "a", "transforms.a.type": "Double", "transforms.a.factor": "1"})
    stage = [c["definition"] for c in answer["configs"] if c["definition"]["name"].startswith("transforms.a.")]
    assert [key["name"].removeprefix("transforms.a.") for key in stage] == [
        "type", "plugin.version", "factor", "negate", "predicate", "name",
    ]  # fmt: skip
    assert [key["order_in_group"] for key in stage] == list(range(6))
    assert answer["groups"][-3:] == ["Transforms: a", "Transforms: a: Names", "Sizes"]
    assert errors(answer) == {"transforms.a.factor": ["Invalid value 1 for configuration factor: Value must be at least 2"]}


@pytest.mark.parametrize(
    ("config", "key", "message"),
    [
        ({"transforms": "a"}, "transforms.a.type", 'Missing required configuration "transforms.a.type"'),
        ({"transforms": "a", "transforms.a.type": "Nope"}, "transforms.a.type", "Class Nope could not be found."),
        ({"transforms": "a", "transforms.a.type": JSON}, "transforms.a.type", "does not implement the Transformation interface"),
        ({"predicates": "p", "predicates.p.type": "Double"}, "predicates.p.type", "does not implement the Predicate interface"),
        (
            {"transforms": "a", "transforms.a.type": "Double", "transforms.a.factor": "3", "transforms.a.negate": "true"},
            "transforms.a.type",
            "but there is no config 'transforms.a.predicate' defining a predicate to be negated.",
        ),
        ({"transforms": "a,a"}, "transforms", "Invalid value [a, a] for configuration transforms: Duplicate alias provided."),
    ],
)
def test_what_is_wrong_with_a_stage(config: dict[str, str], key: str, message: str) -> None:
    assert message in "\n".join(errors(check({"password": "x", **config}))[key])


def test_overrides_are_shown_and_refused_by_the_policy() -> None:
    config = {"password": "x", "producer.override.acks": "1", "producer.override.nope": " 5", "producer.override.": "6"}
    answer = check(config)
    shown = {c["value"]["name"]: (c["definition"] is not None, c["value"]["value"]) for c in answer["configs"]}
    assert shown["producer.override.acks"] == (True, "1")
    assert shown["producer.override.nope"] == (False, " 5")
    assert "producer.override." not in shown
    refused = errors(check(config, **{"connector.client.config.override.policy": "None"}))
    text = "The 'None' policy does not allow 'acks' to be overridden in the connector configuration."
    assert refused["producer.override.acks"] == [text]


def test_every_setting_of_a_client_has_its_definition() -> None:
    given = {
        "linger.ms": " 7 ",
        "partition.assignment.strategy": "a, b",
        "ssl.key.password": "s3cret",
        "sasl.login.refresh.window.factor": "0.5",
        "enable.auto.commit": "TRUE",
    }
    config = {"connector.class": FILE_SINK, "name": "c", "topics": "t"}
    config |= {f"consumer.override.{name}": value for name, value in given.items()}
    answer = validate(config, WorkerConfig.standalone(WORKER), DiscoveredPluginIndex(Plugins.discover()))
    shown = {
        c["value"]["name"].removeprefix("consumer.override."): (c["definition"], c["value"]["value"])
        for c in answer["configs"]
        if c["value"]["name"].startswith("consumer.override.")
    }
    assert shown.pop("linger.ms") == (None, " 7 ")  # a producer's
    assert {name: (key["type"], key["default_value"], value) for name, (key, value) in shown.items()} == {
        "partition.assignment.strategy": (
            "LIST",
            "class org.apache.kafka.clients.consumer.RangeAssignor,"
            "class org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "a,b",
        ),
        "ssl.key.password": ("PASSWORD", None, "[hidden]"),
        "sasl.login.refresh.window.factor": ("DOUBLE", "0.8", "0.5"),
        "enable.auto.commit": ("BOOLEAN", "true", "true"),
    }
    assert all(key["documentation"] for key, _ in shown.values())


def test_a_forgotten_key_or_value_is_told(installed: DiscoveredPluginIndex, worker: WorkerConfig) -> None:
    stage = {"transforms": "a", "transforms.a.type": "org.apache.kafka.connect.transforms.Cast", "transforms.a.spec": "int8"}
    answer = validate({"connector.class": FILE_SOURCE, "name": "c", "topic": "t", **stage}, worker, installed)
    assert errors(answer) == {
        "transforms.a.type": [
            "This class is abstract and cannot be created. Did you mean org.apache.kafka.connect.transforms.Cast$Key, "
            "org.apache.kafka.connect.transforms.Cast$Value?"
        ]
    }
    assert found(answer, "transforms.a.type")["value"] == "org.apache.kafka.connect.transforms.Cast"


def test_topics_regex_is_javas(installed: DiscoveredPluginIndex, worker: WorkerConfig) -> None:
    config = {"connector.class": FILE_SINK, "name": "c", "errors.deadletterqueue.topic.name": "dlq"}
    feeding = validate({**config, "topics.regex": "\\p{Alpha}++"}, worker, installed)
    assert "The DLQ topic 'dlq' may not be matched by the regex" in errors(feeding)["topics.regex"][0]
    assert errors(validate({**config, "topics.regex": "[a-z&&[^d]]lq"}, worker, installed)) == {}
    assert errors(validate({**config, "topics.regex": "a[b"}, worker, installed)) == {
        "topics.regex": [
            "Invalid value a[b for configuration topics.regex: Invalid regex: Unclosed character class near index 2\na[b\n  ^"
        ]
    }


def test_of_a_null_the_connectors_table_has_the_last_word() -> None:
    answer = check({"password": None, "size": None})
    assert errors(answer) == {"size": ["Invalid value null for configuration size: Value must be non-null"]}


def test_references_are_shown_in_place_of_values() -> None:
    given = {"connector.class": "Secretive", "name": "c", "password": "${p:pw}", "size": " ${p:n}", "tasks.max": "${p:t}"}
    resolved = {**given, "password": "s3cret", "size": " 77", "tasks.max": "s3cret"}
    worker = WorkerConfig.standalone(WORKER)
    answer = validate(given, worker, SmallCatalogue(), resolve=lambda _: resolved)
    shown = restore_references_in_response(answer, given, resolved, lambda text: text.replace("s3cret", "[hidden]"))
    assert (found(shown, "password")["value"], found(shown, "size")["value"]) == ("[hidden]", " ${p:n}")
    assert errors(shown)["tasks.max"][0] == "Invalid value ${p:t} for configuration tasks.max: Not a number of type INT"
    assert "s3cret" not in str(shown)


def test_a_version_that_there_is_not_is_an_error() -> None:
    assert errors(check({"password": "x", "connector.plugin.version": "[1.0,2.0)"})) == {}
    missing = ["Plugin Secretive not found that matches the version range [9,9], available versions: [1.2]"]
    answer = check({"password": "x", "connector.plugin.version": "9"})
    assert errors(answer) == {"connector.class": missing, "connector.plugin.version": missing}
    assert "password" not in {c["value"]["name"] for c in answer["configs"]}
    stage = {"transforms": "a", "transforms.a.type": "Double", "transforms.a.plugin.version": "9"}
    assert set(errors(check({"password": "x", **stage}))) == {"transforms.a.type", "transforms.a.plugin.version"}
    converter = {"key.converter": JSON, "key.converter.plugin.version": "9"}
    assert set(errors(check({"password": "x", **converter}))) == {"key.converter", "key.converter.plugin.version"}
    assert errors(check({"password": "x", "key.converter.plugin.version": "9"})) == {}
    with pytest.raises(BadRequestError, match=r"Unbounded range: \("):
        check({"password": "x", "connector.plugin.version": "("})


def test_variables_are_resolved_and_the_workers_own_check_is_asked() -> None:
    def add_error(connector: Any, props: Any, values: Any) -> None:
        values["name"].errors.append(f"seen {props['size']}")

    config = {"connector.class": "Secretive", "name": "c", "password": "x", "size": "${a:b}"}
    answer = validate(
        config,
        WorkerConfig.standalone(WORKER),
        SmallCatalogue(),
        resolve=lambda props: {**props, "size": "7"},
        check=add_error,
    )
    assert errors(answer) == {"name": ["seen 7"]}


def test_the_list_of_plugins_is_by_kind_and_name(installed: DiscoveredPluginIndex) -> None:
    listed = list_plugins(installed, connectors_only=False)
    kinds = [entry["type"] for entry in listed]
    assert kinds == sorted(kinds, key=[kind.value for kind in PluginType].index)
    assert {"class": JSON, "type": "converter", "version": APACHE_VERSION} in listed
    assert {entry["type"] for entry in list_plugins(installed, connectors_only=True)} == {"sink", "source"}
    assert {FILE_SINK, FILE_SOURCE} <= {entry["class"] for entry in listed}


def test_a_class_that_two_stages_share_cannot_be_instantiated() -> None:
    class Paired(SmallCatalogue):
        def find(self, name: str, kinds: Sequence[PluginType] = ()) -> Plugin | None:
            return super().find("Double") if name == "Cast$Value" else None

    with pytest.raises(ConnectError, match="Instantiation error"):
        plugin_config("Cast", Paired())


def test_a_python_path_is_a_name_too(installed: DiscoveredPluginIndex) -> None:
    plugin = installed.find("connect.converters.json.converter:JsonConverter", [PluginType.CONVERTER])
    assert plugin is not None
    assert plugin.name == JSON
    assert installed.find("connect.converters.json.converter:Nope", [PluginType.CONVERTER]) is None
    unregistered = installed.find("connect.record:SinkRecord", [PluginType.TRANSFORMATION])
    assert unregistered is None


def test_config_errors_of_an_override_of_the_wrong_type_are_raised() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value x for configuration max\.poll\.records"):
        validate(
            {"connector.class": FILE_SINK, "name": "c", "topics": "t", "consumer.override.max.poll.records": "x"},
            WorkerConfig.standalone(WORKER),
            DiscoveredPluginIndex(Plugins.discover()),
        )
