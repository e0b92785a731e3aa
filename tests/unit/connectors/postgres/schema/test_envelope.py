"""Topic names of change events."""

from __future__ import annotations

from connectors.postgres.schema.envelope import topic_name


def test_topic_names_are_sanitized() -> None:
    assert topic_name("p", ".", "my schema", "ta$ble-ö") == "p.my_schema.ta_ble-_"
