"""Finds where the payload starts in JSON with schemas: ``{"schema":S,"payload":P}``, as JsonConverter writes it.

The bytes before P are the same for all messages of one schema.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

OPEN = b'{"schema":'
_PAYLOAD = b',"payload":'


class MessagePrefix(NamedTuple):
    """The bytes before a payload, and the parsed schema in them."""

    text: bytes
    schema: dict[str, Any]


def find_message_prefix(message: bytes) -> MessagePrefix | None:
    """Returns the prefix of a message; None if JsonConverter would not write the message like this."""
    if not message.startswith(OPEN):
        return None
    at = message.find(_PAYLOAD)
    while at > 0:
        # A default value in the schema may contain the same text; the schema is complete only at its true end.
        try:
            schema = json.loads(message[len(OPEN) : at])
        except ValueError:
            at = message.find(_PAYLOAD, at + 1)
            continue
        return MessagePrefix(message[: at + len(_PAYLOAD)], schema) if isinstance(schema, dict) else None
    return None
