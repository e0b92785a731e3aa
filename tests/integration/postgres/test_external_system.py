"""The connection test of the PostgreSQL source, and the tables that it lists, on a real server."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from connect.plugins import Plugins
from connectors.cdc.schema.filters import name_matches
from tests.integration.postgres.conftest import Source
from tests.support.waiting import WAIT_S
from worker.model import SystemQuestion
from worker.validation.external_systems import answer_about_system

SHOP = """
create table orders (id int primary key, note text);
create table events (at timestamptz, kind text);
create table audited (at timestamptz);
alter table audited replica identity full;
create schema "odd.one";
create table "odd.one"."a,b(c)" (id int primary key);
create table parted (id int primary key) partition by range (id);
create table parted_1 partition of parted for values from (0) to (10);
create unlogged table scratch (id int primary key);
create view shown as select * from orders;
insert into orders select n, 'x' from generate_series(1, 300) n;
analyze orders;
"""


def ask(config: Mapping[str, str], question: SystemQuestion, timeout_s: float = WAIT_S) -> dict[str, Any]:
    values = {"connector.class": "PostgresSource", **config}
    return answer_about_system(Plugins.discover(), values, question, timeout_s=timeout_s)


def steps_of(config: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    answer = ask(config, SystemQuestion.CONNECTION_TEST)
    return {step["name"]: step for step in answer["steps"]}


def codes(step: Mapping[str, Any]) -> list[str]:
    return [finding["code"] for finding in step["findings"]]


def test_each_step_passes_and_nothing_is_created(source: Source) -> None:
    with source.sql() as db:
        db.execute("create table orders (id int primary key)")
        answer = ask(source.config, SystemQuestion.CONNECTION_TEST)
        assert answer["state"] == "passed"
        assert [step["name"] for step in answer["steps"]] == [
            "Connection", "wal_level", "Replication", "Replication slot", "Publication", "Tables", "Snapshot privileges",
            "Keys and replica identity",
        ]  # fmt: skip
        assert {step["state"] for step in answer["steps"]} == {"passed"}
        assert answer["steps"][0]["detail"].startswith("PostgreSQL ")
        assert "1 captured: public.orders" in answer["steps"][5]["detail"]
        assert db.execute("select count(*) from pg_publication").fetchone() == (0,)
        slot = source.config["slot.name"]
        assert db.execute("select 1 from pg_replication_slots where slot_name = %s", [slot]).fetchone() is None


def test_wrong_password_database_and_port_name_the_key_and_what_to_do(source: Source) -> None:
    wrong = {"database.password": "no-such-77"}
    answer = ask({**source.config, **wrong}, SystemQuestion.CONNECTION_TEST)
    (step,) = answer["steps"]
    assert (answer["state"], step["name"], codes(step)) == ("failed", "Connection", ["authentication-failed"])
    (finding,) = step["findings"]
    assert (finding["path"], finding["suggestion"]) == ("database.password", "Check database.user and database.password")
    assert "no-such-77" not in str(answer)
    step = steps_of({**source.config, "database.dbname": "nowhere"})["Connection"]
    assert (codes(step), step["findings"][0]["path"]) == (["unknown-database"], "database.dbname")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        step = steps_of({**source.config, "database.port": str(unused.getsockname()[1])})["Connection"]
    assert (codes(step), step["findings"][0]["path"]) == (["unreachable"], "database.hostname")
    missing = {key: value for key, value in source.config.items() if key != "database.hostname"}
    step = steps_of(missing)["Configuration"]
    assert (codes(step), step["findings"][0]["path"]) == (["invalid-config"], "database.hostname")


def test_address_that_the_worker_does_not_allow_is_not_contacted(source: Source) -> None:
    step = steps_of({**source.config, "database.hostname": "169.254.169.254"})["Connection"]
    assert codes(step) == ["address-not-allowed"]
    assert "connection.deny.addresses" in step["findings"][0]["message"]


def test_missing_privileges_are_found_with_the_statement_that_grants_them(source: Source, role: str) -> None:
    with source.sql() as db:
        db.execute("create table orders (id int primary key)")
        db.execute(f"alter role {role} noreplication")
        steps = steps_of(source.config)
        assert codes(steps["Replication"]) == ["no-replication-privilege"]
        assert f"ALTER ROLE {role} REPLICATION" in steps["Replication"]["findings"][0]["suggestion"]
        assert codes(steps["Publication"]) == ["may-not-create-publication"]
        assert codes(steps["Snapshot privileges"]) == ["no-select-privilege"]
        db.execute(f"alter role {role} replication; grant create on database {source.database} to {role}")
        db.execute(f"grant select on orders to {role}")
        steps = steps_of({**source.config, "publication.autocreate.mode": "filtered"})
        assert steps["Replication"]["state"] == steps["Snapshot privileges"]["state"] == "passed"
        (finding,) = steps["Publication"]["findings"]
        assert "it does not own orders" in finding["message"]
        assert finding["path"] == "publication.autocreate.mode"


def test_slot_publication_and_identity_problems_are_found(source: Source) -> None:
    with source.sql() as db:
        db.execute("create table orders (id int primary key); create table events (at int)")
        db.execute("create publication sluice for table orders with (publish = 'insert')")
        slot = source.config["slot.name"]
        db.execute("select pg_create_physical_replication_slot(%s)", [slot])
        mode = {"publication.autocreate.mode": "disabled"}
        steps = steps_of({**source.config, **mode})
        assert codes(steps["Replication slot"]) == ["slot-of-others"]
        assert codes(steps["Publication"]) == ["table-not-published", "operations-not-published"]
        assert 'ADD TABLE "public"."events"' in steps["Publication"]["findings"][0]["suggestion"]
        assert codes(steps["Keys and replica identity"]) == ["no-primary-key", "no-replica-identity"]
        db.execute("select pg_drop_replication_slot(%s)", [slot])
        named = {**source.config, **mode, "publication.name": "absent", "table.include.list": "public.none"}
        steps = steps_of(named)
        assert codes(steps["Publication"]) == ["no-publication"]
        assert (codes(steps["Tables"]), steps["Tables"]["findings"][0]["path"]) == (["no-table"], "table.include.list")


def test_slot_that_a_running_connector_reads_is_a_warning(source: Source) -> None:
    with source.sql() as db:
        db.execute("create table orders (id int primary key)")
        source.start()
        source.until("streaming")
        assert codes(steps_of(source.config)["Replication slot"]) == ["slot-in-use"]


def test_tables_are_listed_with_what_decides_whether_they_can_be_captured(source: Source) -> None:
    with source.sql() as db:
        db.execute(SHOP)
        db.execute("create publication sluice for table orders")
        # The keys that are not filled in yet do not matter.
        given = {key: value for key, value in source.config.items() if key.startswith(("database.", "publication."))}
        answer = ask(given, SystemQuestion.DATA_COLLECTIONS)
    found = {one["name"]: one for one in answer["collections"]}
    assert list(found) == ["odd.one.a,b(c)", "public.audited", "public.events", "public.orders", "public.parted_1"]
    orders = found["public.orders"]
    assert (orders["schema"], orders["database"], orders["kind"]) == ("public", source.database, "table")
    assert (orders["rows"], orders["has_primary_key"], orders["findings"]) == (300, True, [])
    assert orders["size_bytes"] > 0
    assert orders["details"] == {"replica identity": "default", "publication": "included"}
    assert codes(found["public.events"]) == ["no-primary-key", "no-replica-identity"]
    assert found["public.events"]["rows"] is None
    assert codes(found["public.audited"]) == ["no-primary-key"]
    assert found["public.audited"]["details"] == {"replica identity": "full", "publication": "not included"}
    assert answer["keys"][0] == {"name": "table.include.list", "form": "regex"}
    assert (answer["hidden"], answer["is_truncated"]) == (0, False)
    for one in found.values():
        assert [name for name in found if name_matches([one["entry"]], name)] == [one["name"]]
        assert "," not in one["entry"]


def test_partitioned_tables_are_listed_as_they_are_published(source: Source) -> None:
    with source.sql() as db:
        db.execute(SHOP)
        answer = ask({**source.config, "publish.via.partition.root": "true"}, SystemQuestion.DATA_COLLECTIONS)
    kinds = {one["name"]: one["kind"] for one in answer["collections"]}
    assert kinds["public.parted"] == "partitioned table"
    assert "public.parted_1" not in kinds


def test_server_that_does_not_answer_is_given_up_at_the_time_limit(source: Source) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = {**source.config, "database.port": str(silent.getsockname()[1])}
        answer = ask(config, SystemQuestion.CONNECTION_TEST, timeout_s=0.2)
    assert [codes(step) for step in answer["steps"]] == [["timed-out"]]
    assert answer["state"] == "failed"
