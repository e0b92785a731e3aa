"""Configurations of connectors with dead letters."""

from __future__ import annotations

SINK = {
    "errors.deadletterqueue.topic.name": "dlq", "topics": "orders", "key.converter": "String", "value.converter": "Json",
    "value.converter.schemas.enable": "false", "transforms": "a", "transforms.a.type": "CastValue",
    "transforms.a.spec": "amount:int32",
}  # fmt: skip
SOURCE = {
    "errors.deadletterqueue.source.topic.name": "dlq", "key.converter": "String", "value.converter": "Json",
    "value.converter.schemas.enable": "false",
}  # fmt: skip
