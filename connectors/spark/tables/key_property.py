"""The key of an upsert table, which is a property of the table: a task that starts must not take another one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

KEY_PROPERTY = "sluice.key"


def key_properties(keys: Sequence[str]) -> dict[str, str]:
    """The properties of a table with this key."""
    return {KEY_PROPERTY: json.dumps(list(keys), ensure_ascii=False)} if keys else {}


def read_key(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The key columns of a table with these properties; empty if it does not say them."""
    try:
        found = json.loads(properties.get(KEY_PROPERTY) or "[]")
    except ValueError:
        return ()
    is_list = isinstance(found, list) and all(isinstance(name, str) for name in found)
    return tuple(found) if is_list else ()
