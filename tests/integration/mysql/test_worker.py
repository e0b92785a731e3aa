"""A real worker runs Debezium's configuration of a MariaDB connector: topics, schema history, and a restart after SIGKILL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from connect.config.properties import write_properties
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.cluster.topics import payload, read_topic
from tests.cluster.worker_process import SLUICE_STANDALONE, WorkerProcess
from tests.support.waiting import WAIT_S

_JSON = "org.apache.kafka.connect.json.JsonConverter"


def _debeziums_config(server: EmbeddedMariaDB, broker: EmbeddedBroker, database: str) -> dict[str, str]:
    """The example of Debezium's documentation."""
    return {
        "name": "inventory",
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "tasks.max": "1",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.server.id": "184054",
        "topic.prefix": database,
        "table.include.list": f"{database}.customers",
        "schema.history.internal.kafka.bootstrap.servers": broker.bootstrap,
        "schema.history.internal.kafka.topic": f"history.{database}",
        "include.schema.changes": "true",
    }


def test_debeziums_configuration_runs_and_survives_a_kill(
    mariadb: EmbeddedMariaDB, broker: EmbeddedBroker, mariadb_database: str, tmp_path: Path
) -> None:
    name = mariadb_database
    topic, changes, history = f"{name}.{name}.customers", name, f"history.{name}"

    def sql(*statements: str) -> None:
        with mariadb.connect(name) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def count(topic: str) -> int:
        listed = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=WAIT_S).topics
        return len(read_topic(broker.bootstrap, topic)) if topic in listed else 0

    def reached(topic: str, records: int) -> Callable[[], bool]:
        return lambda: count(topic) >= records

    def stream_is_stored() -> bool:
        stored = worker.client.offsets("inventory")
        return bool(stored) and "snapshot" not in stored[0]["offset"]

    def values() -> list[Any]:
        return [payload(record.value) for record in read_topic(broker.bootstrap, topic)]

    sql(
        "create table customers(id int auto_increment primary key, name varchar(20))",
        "create table other(id int primary key)",
        "insert into customers(name) values ('a'), ('b')",
    )
    config = tmp_path / "inventory.properties"
    config.write_text(write_properties(_debeziums_config(mariadb, broker, name)), encoding="utf-8")
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "offset.flush.interval.ms": "200",
        "key.converter": _JSON,
        "value.converter": _JSON,
    }
    worker = WorkerProcess(SLUICE_STANDALONE, tmp_path, "worker", settings, connector_files=[config])
    worker.start()
    try:
        worker.wait_for(reached(topic, 2), WAIT_S, "the rows of the snapshot")
        sql("insert into customers(name) values ('c')", "insert into other values (1)")
        worker.wait_for(reached(topic, 3), WAIT_S, "a change")
        # A worker that is killed before would repeat the snapshot.
        worker.wait_for(stream_is_stored, WAIT_S, "an offset of the stream")
        worker.kill()
        sql("alter table customers add city varchar(20)", "update customers set city = 'x' where id = 3")
        worker.start()
        worker.wait_for(lambda: values()[-1]["op"] == "u", WAIT_S, "a change after the restart")
        worker.stop()
    finally:
        worker.kill()
    found = values()
    assert [(value["op"], value["source"]["snapshot"]) for value in found[:2]] == [("r", "first"), ("r", "last")]
    assert [value["after"] for value in found[:2]] == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    created = {"id": 3, "name": "c"}
    # Without exactly-once, a change may be repeated after a kill.
    assert [value for value in found[2:-1] if (value["op"], value["after"]) != ("c", created)] == []
    assert (found[-1]["op"], found[-1]["before"]) == ("u", {"id": 3, "name": "c", "city": None})
    assert found[-1]["after"] == {"id": 3, "name": "c", "city": "x"}
    ddl = [payload(record.value)["ddl"] for record in read_topic(broker.bootstrap, changes)]
    assert ddl[-1] == "alter table customers add city varchar(20)"
    assert any("CREATE TABLE `customers`" in statement for statement in ddl)
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(history, timeout=WAIT_S).topics[history]
    assert len(metadata.partitions) == 1
    documents = [record.json for record in read_topic(broker.bootstrap, history)]
    assert {document["source"]["server"] for document in documents} == {name}
    assert documents[-1]["ddl"] == ddl[-1]
