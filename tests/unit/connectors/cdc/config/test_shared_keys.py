from __future__ import annotations

import re

from connect.config.definition import ConfigDef
from connectors.cdc.config.contract_keys import define_contract_keys
from connectors.cdc.config.event_settings import define_event_form_keys
from connectors.cdc.config.signal_keys import define_signal_keys
from connectors.cdc.config.topic_naming import SCHEMA_STRATEGIES, define_topic_naming_keys


def test_shared_keys_are_those_of_no_database_in_particular() -> None:
    keys = ConfigDef()
    define_event_form_keys(keys, "schema")
    define_signal_keys(keys, "schema", example="shop.orders", backfill_doc="When tables are captured later.")
    define_contract_keys(keys, "schema")
    define_topic_naming_keys(keys, "schema", SCHEMA_STRATEGIES)
    of_postgres = re.compile(r"pg_|publication|slot\b|replica identity|message\.prefix|public\.|numeric", re.IGNORECASE)
    assert [name for name, key in keys.keys.items() if of_postgres.search(f"{name} {key.doc}")] == []
