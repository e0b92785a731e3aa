"""Every code of the check engine is found where it should be, and only there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from connect.config.finding import Finding, Severity
from connect.plugins import Plugins
from worker.lint import CODES, check_connector, check_worker

DOCS = Path(__file__).parents[4] / "docs" / "lint.md"
SOURCE = {"name": "s", "connector.class": "FileStreamSource", "topic": "t"}
SINK = {"name": "s", "connector.class": "FileStreamSink", "topics": "t"}
LAKE = {"name": "s", "connector.class": "SparkSink", "topics": "t", "table.location": "/lake"}
CAST = {"transforms": "c", "transforms.c.type": "org.apache.kafka.connect.transforms.Cast$Value", "transforms.c.spec": "int32"}
FILTER = {"transforms": "f", "transforms.f.type": "Filter"}
JSON = {"value.converter": "Json", "value.converter.schemas.enable": "false"}
STANDALONE = {"key.converter": "Json", "value.converter": "Json", "offset.storage.file.filename": "/tmp/offsets"}
DISTRIBUTED = {
    "key.converter": "Json",
    "value.converter": "Json",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}

Config = Mapping[str, str | None]

# code, configuration, the key it is about, a part of message or suggestion
CONNECTORS: list[tuple[str, Config, str, str]] = [
    ("missing-key", {"name": "s", "connector.class": "FileStreamSource"}, "topic", "Missing required"),
    ("missing-key", {"name": "s"}, "connector.class", "connector.class is missing"),
    ("missing-key", {"name": "s", "connector.clas": "FileStreamSource"}, "connector.class", "Is it connector.clas?"),
    ("missing-key", {"name": "s", "connector.class": "FileStreamSource", "topc": "t"}, "topic", "Is it topc?"),
    ("missing-key", {**SOURCE, **CAST, "transforms.c.spec": None} | {}, "transforms.c.spec", ""),
    (
        "missing-key",
        {**SOURCE, "topic.creation.default.partitions": "1"},
        "topic.creation.default.partitions",
        "replication.factor",
    ),
    ("wrong-type", {**SOURCE, "tasks.max": "two"}, "tasks.max", "Not a number"),
    ("wrong-type", {**SINK, "errors.restart.max.attempts": "x"}, "errors.restart.max.attempts", "Not a number"),
    ("invalid-value", {**SOURCE, "errors.restart.max.attempts": "-2"}, "errors.restart.max.attempts", "at least -1"),
    (
        "wrong-type",
        {**SINK, "value.converter": "Json", "value.converter.schemas.enable": "x"},
        "value.converter.schemas.enable",
        "",
    ),
    ("invalid-value", {**SOURCE, "tasks.max": "0"}, "tasks.max", "at least 1"),
    ("invalid-value", {**SOURCE, "errors.tolerance": "al"}, "errors.tolerance", "Did you mean all?"),
    (
        "invalid-value",
        {**SOURCE, "connector.class": "PostgresSource", "restore.debezium.events": "time_24_00, numeric_zero"},
        "restore.debezium.events",
        "Did you mean numeric_zeros?",
    ),
    ("invalid-value", {**SINK, "topics.regex": "t"}, "topics", "mutually exclusive"),
    ("invalid-value", {**SINK, "errors.deadletterqueue.topic.name": "t"}, "topics", "DLQ topic 't'"),
    ("invalid-value", {**SOURCE, "batch.size": None}, "batch.size", "null"),
    ("unknown-class", {**SOURCE, "connector.class": "FileStreamSorce"}, "connector.class", "Did you mean FileStreamSource?"),
    ("unknown-class", {**SOURCE, "value.converter": "Jason"}, "value.converter", "could not be found"),
    (
        "unknown-class",
        {**SOURCE, **CAST, "transforms.c.type": "org.apache.kafka.connect.transforms.Cast"},
        "transforms.c.type",
        "Cast$Key",
    ),
    ("invalid-value", {**SOURCE, **CAST, "transforms.c.negate": "true"}, "transforms.c.type", "'transforms.c.predicate'"),
    (
        "wrong-class",
        {**SOURCE, "transforms": "c", "transforms.c.type": "RecordIsTombstone"},
        "transforms.c.type",
        "RecordIsTombstone",
    ),
    ("duplicate-alias", {**SOURCE, **CAST, "transforms": "c,c"}, "transforms", "Duplicate alias"),
    ("empty-alias", {**SOURCE, **CAST, "transforms": "c,"}, "transforms", "empty entry"),
    ("undeclared-predicate", {**SOURCE, **FILTER, "transforms.f.predicate": "p"}, "transforms.f.predicate", "not in predicates"),
    ("unknown-key", {**SOURCE, "topcs": "x"}, "topcs", "Did you mean topic?"),
    ("unknown-key", {**SOURCE, "tasksMax": "1"}, "tasksMax", "Did you mean tasks.max?"),
    ("unknown-key", {**SOURCE, **CAST, "transforms.c.spek": "x"}, "transforms.c.spek", "Did you mean transforms.c.spec?"),
    (
        "unknown-key",
        {**SINK, **JSON, "value.converter.schema.enable": "x"},
        "value.converter.schema.enable",
        "value.converter.schemas.enable?",
    ),
    (
        "unknown-setting",
        {**SOURCE, "producer.override.lingr.ms": "5"},
        "producer.override.lingr.ms",
        "producer.override.linger.ms?",
    ),
    (
        "unknown-setting",
        {
            **SOURCE,
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.cleanup.polcy": "compact",
        },
        "topic.creation.default.cleanup.polcy",
        "Did you mean topic.creation.default.cleanup.policy?",
    ),
    (
        "undeclared-alias",
        {**SOURCE, **CAST, "transforms.cast.type": "Filter"},
        "transforms.cast.type",
        "cast is not in transforms",
    ),
    ("undeclared-alias", {**SOURCE, "predicates.p.type": "RecordIsTombstone"}, "predicates.p.type", "p is not in predicates"),
    (
        "unused-converter-keys",
        {**SOURCE, "key.converter.schemas.enable": "false"},
        "key.converter.schemas.enable",
        "Set key.converter too",
    ),
    ("wrong-file", {**SOURCE, "bootstrap.servers": "b:9092"}, "bootstrap.servers", "is a worker key"),
    ("wrong-file", {**SOURCE, "producer.linger.ms": "5"}, "producer.linger.ms", "producer.override.linger.ms"),
    ("wrong-kind", {**SOURCE, "topics": "t"}, "topics", "is a key of sinks"),
    ("wrong-kind", {**SINK, "exactly.once.support": "required"}, "exactly.once.support", "is a key of sources"),
    (
        "wrong-kind",
        {**SINK, "topic.creation.default.partitions": "1"},
        "topic.creation.default.partitions",
        "is a key of sources",
    ),
    (
        "dead-letters-of-source",
        {**SOURCE, "errors.deadletterqueue.topic.name": "d"},
        "errors.deadletterqueue.topic.name",
        "source.topic.name",
    ),
    (
        "removed-key",
        {
            **SINK,
            "transforms": "r",
            "transforms.r.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
            "transforms.r.blacklist": "a",
        },
        "transforms.r.blacklist",
        "Use transforms.r.exclude.",
    ),
    ("removed-key", {**LAKE, "executors.sql.transforms": "never"}, "executors.sql.transforms", "Remove the key."),
    ("records-vanish", {**SINK, "errors.tolerance": "all"}, "errors.tolerance", "errors.log.enable=true"),
    ("records-vanish", {**SOURCE, "errors.tolerance": "all"}, "errors.tolerance", "errors.deadletterqueue.source.topic.name"),
    (
        "dead-letters-stop",
        {**SINK, "errors.deadletterqueue.topic.name": "d"},
        "errors.deadletterqueue.topic.name",
        "errors.tolerance=all",
    ),
    (
        "unused-predicate",
        {**SOURCE, "predicates": "p", "predicates.p.type": "RecordIsTombstone"},
        "predicates.p.type",
        "predicate p",
    ),
    ("filter-drops-all", {**SOURCE, **FILTER}, "transforms.f.type", "drops every record"),
    ("too-many-tasks", {**SOURCE, "tasks.max": "2"}, "tasks.max", "never has more than 1"),
    (
        "needs-schema",
        {**SINK, **JSON, "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector"},
        "value.converter.schemas.enable",
        "",
    ),
    (
        "needs-schema",
        {
            **SINK,
            **JSON,
            "transforms": "n",
            "transforms.n.type": "org.apache.kafka.connect.transforms.SetSchemaMetadata$Value",
            "transforms.n.schema.name": "x",
        },
        "transforms.n.type",
        "SetSchemaMetadata needs a schema",
    ),
    (
        "needs-fields",
        {
            **SINK,
            "key.converter": "String",
            "transforms": "e",
            "transforms.e.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
            "transforms.e.field": "id",
        },
        "transforms.e.type",
        "HoistField$Key",
    ),
    ("needs-fields", {**SOURCE, **CAST, "transforms.c.spec": "id:int32"}, "transforms.c.type", "lines are text"),
    ("no-effect", {**SOURCE, "errors.log.include.messages": "true"}, "errors.log.include.messages", "errors.log.enable"),
    (
        "no-effect",
        {**SOURCE, "transaction.boundary.interval.ms": "5"},
        "transaction.boundary.interval.ms",
        "transaction.boundary=interval",
    ),
    (
        "no-effect",
        {**SINK, "errors.deadletterqueue.context.headers.enable": "true"},
        "errors.deadletterqueue.context.headers.enable",
        "errors.deadletterqueue.topic.name",
    ),
    (
        "unsafe-override",
        {**SINK, "consumer.override.enable.auto.commit": "true"},
        "consumer.override.enable.auto.commit",
        "commits",
    ),
    ("unsafe-override", {**SOURCE, "producer.override.acks": "1"}, "producer.override.acks", "lose"),
    (
        "unsafe-override",
        {**SOURCE, "producer.override.max.in.flight.requests.per.connection": "6"},
        "producer.override.max.in.flight.requests.per.connection",
        "order",
    ),
    (
        "unsafe-override",
        {**SOURCE, "producer.override.max.in.flight.requests.per.connection": "2", "producer.override.acks": "1"},
        "producer.override.max.in.flight.requests.per.connection",
        "order",
    ),
    (
        "unsafe-override",
        {**SOURCE, "producer.override.enable.idempotence": "false"},
        "producer.override.enable.idempotence",
        "order",
    ),
    (
        "wide-regex",
        {"name": "s", "connector.class": "FileStreamSink", "topics.regex": ".*"},
        "topics.regex",
        "__consumer_offsets",
    ),
    ("internal-topic", {**SINK, "topics": "t,__consumer_offsets"}, "topics", "internal to Kafka"),
    ("plain-secret", {**SOURCE, "mirror.url": "jdbc:mysql://db/shop?password=x1"}, "mirror.url", "separate key"),
    ("plain-secret", {**SOURCE, "producer.override.sasl.jaas.config": "x"}, "producer.override.sasl.jaas.config", "${file:"),
    ("deprecated-key", {**SOURCE, "tasks.max.enforce": "false"}, "tasks.max.enforce", "tasks.max"),
    (
        "skips-earlier-records",
        {**SINK, "consumer.override.auto.offset.reset": "latest"},
        "consumer.override.auto.offset.reset",
        "",
    ),
    ("exactly-once-worker", {**SOURCE, "exactly.once.support": "required"}, "exactly.once.support", "worker"),
]

# The same, with a worker.
WITH_WORKER: list[tuple[str, Config, Mapping[str, str], str, str]] = [
    (
        "override-refused",
        {**SINK, "consumer.override.max.poll.records": "1"},
        {**STANDALONE, "connector.client.config.override.policy": "None"},
        "consumer.override.max.poll.records",
        "'None' policy",
    ),
    ("exactly-once-off", {**SOURCE, "exactly.once.support": "required"}, DISTRIBUTED, "exactly.once.support", "enabled"),
    ("unknown-provider", {**SOURCE, "file": "${vault:a:b}"}, STANDALONE, "file", "lists none"),
    ("no-effect", {**SOURCE, "offsets.storage.topic": "o"}, STANDALONE, "offsets.storage.topic", "standalone"),
    (
        "wide-regex",
        {"name": "s", "connector.class": "FileStreamSink", "topics.regex": "[co]"},
        DISTRIBUTED,
        "topics.regex",
        "c, o",
    ),
    (
        "needs-fields",
        {
            **SINK,
            "transforms": "f",
            "transforms.f.type": "org.apache.kafka.connect.transforms.Flatten$Value",
        },
        {**STANDALONE, "value.converter": "String"},
        "transforms.f.type",
        "StringConverter",
    ),
]

WORKERS: list[tuple[str, Mapping[str, str], str, str]] = [
    (
        "missing-key",
        {"bootstrap.servers": "b:1", "key.converter": "Json", "value.converter": "Json"},
        "offset.storage.file.filename",
        "group.id",
    ),
    ("missing-key", {k: v for k, v in DISTRIBUTED.items() if k != "group.id"}, "group.id", "Missing required"),
    ("wrong-type", {**STANDALONE, "offset.flush.interval.ms": "soon"}, "offset.flush.interval.ms", "Not a number"),
    ("invalid-value", {**STANDALONE, "listeners": "localhost"}, "listeners", "http://host:port"),
    (
        "invalid-value",
        {**STANDALONE, "connector.client.config.override.policy": "Some"},
        "connector.client.config.override.policy",
        "Principal",
    ),
    (
        "invalid-value",
        {**DISTRIBUTED, "exactly.once.source.support": "enable"},
        "exactly.once.source.support",
        "Did you mean ENABLED?",
    ),
    ("invalid-value", {**DISTRIBUTED, "heartbeat.interval.ms": "10000"}, "heartbeat.interval.ms", "less than"),
    ("unknown-class", {**STANDALONE, "key.converter": "JsonConvertor"}, "key.converter", "Did you mean JsonConverter?"),
    (
        "invalid-value",
        {**DISTRIBUTED, "inter.worker.signature.algorithm": "HmacSHA3"},
        "inter.worker.signature.algorithm",
        "expected one of HmacSHA1, HmacSHA224, HmacSHA256",
    ),
    (
        "unknown-setting",
        {**DISTRIBUTED, "offset.storage.min.insync.replica": "2"},
        "offset.storage.min.insync.replica",
        "Did you mean offset.storage.min.insync.replicas?",
    ),
    ("shared-topic", {**DISTRIBUTED, "status.storage.topic": "o"}, "status.storage.topic", "offset.storage.topic"),
    ("unknown-key", {**STANDALONE, "plugin.pth": "x"}, "plugin.pth", "Did you mean plugin.path?"),
    ("unknown-key", {**STANDALONE, "value.converter.schemas.enabled": "x"}, "value.converter.schemas.enabled", "schemas.enable?"),
    ("wrong-file", {**STANDALONE, "transforms": "a"}, "transforms", "is a connector key"),
    ("removed-key", {**STANDALONE, "rest.port": "8083"}, "rest.port", "listeners"),
    ("flush-too-slow", {**STANDALONE, "offset.flush.interval.ms": "1000"}, "offset.flush.interval.ms", "5000 ms"),
    ("missing-folder", {**STANDALONE, "plugin.path": "/no/such/folder"}, "plugin.path", "not a directory"),
    (
        "unused-setting",
        {**STANDALONE, "group.min.session.timeout.ms": "1", "connect.protocol": "eager"},
        "connect.protocol",
        "distributed",
    ),
    (
        "unused-setting",
        {**DISTRIBUTED, "status.storage.cleanup.policy": "delete"},
        "status.storage.cleanup.policy",
        "always compacted",
    ),
    ("plain-secret", {**STANDALONE, "ssl.key.password": "x"}, "ssl.key.password", "file"),
]

# Codes that only whole files can have.
OF_FILES = {"unreadable-file", "duplicate-key", "duplicate-name", "shared-slot", "missing-reference", "no-name"}


def _found(findings: list[Finding], code: str, key: str, text: str) -> None:
    matching = [one for one in findings if one.code == code and one.path == key]
    assert matching, f"{code} on {key} is not among {[str(one) for one in findings]}"
    assert any(text in f"{one.message} {one.suggestion}" for one in matching), [str(one) for one in matching]


@pytest.mark.parametrize(("code", "config", "key", "text"), CONNECTORS)
def test_connectors(code: str, config: Config, key: str, text: str) -> None:
    if code == "missing-key":
        config = {name: value for name, value in config.items() if value is not None}
    _found(check_connector(config, Plugins.discover()), code, key, text)


@pytest.mark.parametrize(
    "sink", [LAKE, {**SINK, "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector", "iceberg.tables": "db.t"}]
)
def test_removed_key_is_one_error_if_the_connector_refuses_it(sink: Config) -> None:
    found = check_connector({**sink, "executors.sql.transforms": "auto"}, Plugins.discover())
    errors = [one for one in found if one.path == "executors.sql.transforms"]
    assert [(one.code, one.severity) for one in errors] == [("removed-key", Severity.ERROR)]
    assert errors[0].message == "executors.sql.transforms no longer exists"
    assert errors[0].suggestion == "Transformations always run in Python. Remove the key."


@pytest.mark.parametrize(("code", "config", "worker", "key", "text"), WITH_WORKER)
def test_connectors_on_a_worker(code: str, config: Config, worker: Mapping[str, str], key: str, text: str) -> None:
    _found(check_connector(config, Plugins.discover(), worker=worker), code, key, text)


@pytest.mark.parametrize(("code", "config", "key", "text"), WORKERS)
def test_workers(code: str, config: Mapping[str, str], key: str, text: str) -> None:
    _found(check_worker(config, Plugins.discover()), code, key, text)


def test_every_code_has_a_test_and_a_row_on_the_page() -> None:
    tested = {case[0] for case in (*CONNECTORS, *WITH_WORKER, *WORKERS)} | OF_FILES
    assert tested == set(CODES)
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z, ]+) \|", DOCS.read_text("utf-8"), re.M)
    assert dict(rows) == {code.name: code.severity.value + (", strict" if code.unread else "") for code in CODES.values()}


@pytest.mark.parametrize(
    "config", [SOURCE, SINK, {**SINK, **JSON}, {**SOURCE, **CAST}, {**SOURCE, **FILTER, "transforms": "${env:T}"}]
)
def test_a_connector_with_nothing_wrong_has_no_findings(config: Config) -> None:
    assert check_connector(config, Plugins.discover()) == []


@pytest.mark.parametrize(
    "config",
    [
        STANDALONE,
        DISTRIBUTED,
        {**DISTRIBUTED, "offset.storage.segment.bytes": "1", "bootstrap.servers": "b:1", "inter.worker.key.size": "256"},
    ],
)
def test_a_worker_with_nothing_wrong_has_no_findings(config: Mapping[str, str]) -> None:
    assert check_worker(config, Plugins.discover()) == []


def test_a_class_that_is_not_here_is_one_finding() -> None:
    """As in Apache's own examples, and many others: MirrorSourceConnector is a source with a key topics."""
    config = {
        "name": "m",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "a",
        "topics": ".*",
        "tasks.max": "4",
        "key.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        "key.converter.apicurio.registry.url": "http://registry",
        "transforms": "x",
        "transforms.x.type": "com.example.Transform$Value",
        "transforms.x.whatever": "1",
        "transforms.x.predicate": "p",
        "predicates": "p",
        "predicates.p.type": "com.example.Predicate",
        "predicates.p.whatever": "1",
    }
    found = [(one.code, one.path) for one in check_connector(config, Plugins.discover())]
    assert sorted(found) == [
        ("unknown-class", "connector.class"),
        ("unknown-class", "key.converter"),
        ("unknown-class", "predicates.p.type"),
        ("unknown-class", "transforms.x.type"),
    ]


def test_a_connector_whose_table_fails_is_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def config_def(self: object) -> object:
        raise ZeroDivisionError("of its author")

    monkeypatch.setattr("connect.testing.memory.MemorySink.config_def", config_def)
    config = {"name": "m", "connector.class": "connect.testing.memory:MemorySink", "topics": "t", "own": "1"}
    found = check_connector(config, Plugins.discover())
    assert [(one.code, one.path) for one in found] == [("unknown-class", "connector.class")]
    assert "ZeroDivisionError: of its author" in found[0].message


def test_a_valid_choice_that_breaks_another_rule_is_not_suggested() -> None:
    config = {"name": "s", "connector.class": "SparkSink", "topics": "t", "table.location": "/lake", "table.format": "parquet"}
    (finding,) = check_connector({**config, "write.mode": "scd2"}, Plugins.discover())
    assert (finding.path, finding.suggestion) == ("write.mode", None)


def test_a_value_with_a_reference_is_not_judged() -> None:
    config = {
        **SOURCE,
        "tasks.max": "${env:TASKS}",
        "errors.tolerance": "${file:/x:y}",
        "topic.creation.default.partitions": "${env:P}",
    }
    assert check_connector(config, Plugins.discover()) == []


def test_aliases_may_have_dots() -> None:
    config = {
        **SOURCE,
        "transforms": "a.b",
        "transforms.a.b.type": "RegexRouter",
        "transforms.a.b.regex": "x",
        "transforms.a.b.replacement": "y",
    }
    assert check_connector(config, Plugins.discover()) == []
    found = check_connector({**config, "transforms.a.b.regx": "x"}, Plugins.discover())
    assert [one.suggestion for one in found] == ["Did you mean transforms.a.b.regex?"]


def test_secrets_are_not_shown() -> None:
    config = {
        "name": "p",
        "connector.class": "PostgresSource",
        "database.password": "hunter2-secret",
        "database.port": "hunter2-secret",
        "my.password": "other-secret",
        "tasks.max": "other-secret",
    }
    shown = " ".join(map(str, check_connector(config, Plugins.discover())))
    assert "database.port" in shown
    assert "hunter2" not in shown
    assert "other-secret" not in shown


def test_keys_without_a_fixed_name_are_known() -> None:
    config = {
        "name": "p",
        "connector.class": "PostgresSource",
        "signal.consumer.security.protocol": "SSL",
        "signal.consumr.security.protocol": "SSL",
        "column.mask.with.5.chars": "public.t.a",
        "column.truncate.to.5.chars": "public.t.b",
        "snapshot.select.statement.overrides": "public.t",
        "snapshot.select.statement.overrides.public.t": "select 1",
        "post.processors": "again",
        "post.processors.again.type": "io.debezium.processors.reselect.ReselectColumnsPostProcessor",
        "post.processors.again.reselect.null.values": "false",
    }
    unknown = [one.path for one in check_connector(config, Plugins.discover()) if one.code == "unknown-key"]
    assert unknown == ["signal.consumr.security.protocol"]


def test_nothing_outside_is_looked_at() -> None:
    """The database of this connector is not there; REST validation would try to reach it."""
    config = {
        "name": "p",
        "connector.class": "PostgresSource",
        "database.hostname": "no-such-host.invalid",
        "database.user": "u",
        "database.dbname": "d",
        "topic.prefix": "t",
        "schema.include.list": "a",
        "schema.exclude.list": "b",
    }
    errors = [one for one in check_connector(config, Plugins.discover()) if one.severity.value == "error"]
    assert [one.path for one in errors] == ["schema.exclude.list"]
