"""Every quickstart generates valid, reproducible records, also after a restart in the middle."""

from __future__ import annotations

from typing import Any

import pytest

from connect.data.struct import Struct
from connect.testing import SourceHarness
from connectors.datagen import DatagenSource, DatagenSourceTask
from connectors.datagen.quickstarts import QUICKSTARTS, quickstart_named
from tests.support import randomness

KEYS = {
    "campaign_finance": "candidate_id", "clickstream": "ip", "clickstream_codes": "code", "clickstream_users": "user_id",
    "credit_cards": "card_id", "device_information": "device_ip", "fleet_mgmt_description": "vehicle_id",
    "fleet_mgmt_location": "vehicle_id", "fleet_mgmt_sensors": "vehicle_id", "gaming_games": "id",
    "gaming_player_activity": "player_id", "gaming_players": "player_id", "insurance_customer_activity": "activity_id",
    "insurance_customers": "customer_id", "insurance_offers": "offer_id", "inventory": "id", "orders": "orderid",
    "pageviews": "viewtime", "payroll_bonus": "employee_id", "payroll_employee": "employee_id",
    "payroll_employee_location": "employee_id", "pizza_orders": "store_id", "pizza_orders_cancelled": "store_id",
    "pizza_orders_completed": "store_id", "product": "id", "purchases": "id", "ratings": "rating_id",
    "shoe_clickstream": "product_id", "shoe_customers": "id", "shoe_orders": "order_id", "shoes": "id", "siem_logs": "hostname",
    "stock_trades": "symbol", "stores": "store_id", "syslog_logs": "host", "transactions": "transaction_id", "users": "userid",
    "users_": "userid",
}  # fmt: skip
"""The names and key fields of Confluent's connector."""


def rows(name: str, count: int = 1000) -> list[list[Any]]:
    generate, random = quickstart_named(name).rows.row, randomness.chance(name)
    return [generate(random, number) for number in range(count)]


def column(name: str, field: str) -> set[Any]:
    index = quickstart_named(name).rows.schema.index_of(field)
    assert index is not None
    return {row[index] for row in rows(name)}


def test_all_quickstarts_of_confluent_exist_with_their_keys() -> None:
    assert {name: quickstart_named(name).key_field for name in QUICKSTARTS} == KEYS


@pytest.mark.parametrize("name", QUICKSTARTS)
def test_rows_are_valid_reproducible_and_have_a_key(name: str) -> None:
    quickstart = quickstart_named(name)
    found = rows(name, 40)
    for row in found:
        Struct(quickstart.rows.schema, row).validate()
    assert found == rows(name, 40)
    assert quickstart.rows.schema.field(quickstart.key_field) is not None


def test_records_of_related_quickstarts_join() -> None:
    assert column("shoe_orders", "product_id") <= column("shoes", "id")
    assert column("shoe_orders", "customer_id") <= column("shoe_customers", "id")
    assert column("shoe_clickstream", "user_id") <= column("shoe_customers", "id")
    assert column("insurance_customer_activity", "customer_id") <= column("insurance_customers", "customer_id")
    assert column("payroll_bonus", "employee_id") <= column("payroll_employee", "employee_id")
    assert column("gaming_player_activity", "player_id") <= column("gaming_players", "player_id")
    assert column("transactions", "card_id") <= column("credit_cards", "card_id")
    assert column("transactions", "store_id") <= column("stores", "store_id")
    assert column("siem_logs", "hostname") <= column("device_information", "device_ip")


def test_iteration_continues_after_a_restart() -> None:
    config = {"kafka.topic": "t", "quickstart": "PageViews", "rate": "0", "iterations": "10"}
    whole = [record.value for record in DatagenSource().sample_records(config, 10)]
    assert [value["viewtime"] for value in whole] == list(range(1, 101, 10))
    first = SourceHarness(DatagenSourceTask(), {**config, "iterations": "4"}).start()
    assert [record.value for record in first.poll()] == whole[:4]
    first.commit()
    first.stop()
    again = SourceHarness(DatagenSourceTask(), config, first.offsets).start()
    records = again.poll()
    assert [record.value for record in records] == whole[4:]
    assert [record.key for record in records] == [value["viewtime"] for value in whole[4:]]
    again.stop()
