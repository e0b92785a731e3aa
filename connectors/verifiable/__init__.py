"""Connectors that test a cluster of workers: they count, print records, or fail on request.

Drop-in replacements for ``org.apache.kafka.connect.tools``, so that Apache's system tests run against our workers: same keys,
task configurations, records, and offsets, and the same JSON lines on the standard output.
"""

from connectors.verifiable.mock import MockSink, MockSinkTask, MockSource, MockSourceTask
from connectors.verifiable.schema_source import SchemaSource, SchemaSourceTask
from connectors.verifiable.verifiable_sink import VerifiableSink, VerifiableSinkTask
from connectors.verifiable.verifiable_source import VerifiableSource, VerifiableSourceTask

__all__ = [
    "MockSink",
    "MockSinkTask",
    "MockSource",
    "MockSourceTask",
    "SchemaSource",
    "SchemaSourceTask",
    "VerifiableSink",
    "VerifiableSinkTask",
    "VerifiableSource",
    "VerifiableSourceTask",
]
