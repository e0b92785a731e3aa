"""Names of schemas and fields that Avro accepts, as Debezium adjusts them."""

from __future__ import annotations

import pytest

from connectors.cdc.name_adjustment import field_name_adjuster, schema_name_adjuster


@pytest.mark.parametrize(
    ("mode", "name", "schema", "field"),
    [
        ("none", "1a-b.c", "1a-b.c", "1a-b.c"),
        ("avro", "1a-b.c", "_1a_b.c", "_1a_b_c"),
        ("avro", "-a", "_a", "_a"),
        ("avro", "ä\U0001f600", "___", "___"),
        ("avro", "", "", ""),
        ("avro_unicode", "a_b-c.d", "a_u005fb_u002dc.d", "a_u005fb_u002dc_u002ed"),
        ("avro_unicode", "1a", "_u0031a", "_u0031a"),
        ("avro_unicode", "aé€", "a_u00e9_u20ac", "a_u00e9_u20ac"),
        ("avro_unicode", "a\u0123", "a_u123", "a_u123"),
    ],
)
def test_names(mode: str, name: str, schema: str, field: str) -> None:
    assert (schema_name_adjuster(mode)(name), field_name_adjuster(mode)(name)) == (schema, field)
