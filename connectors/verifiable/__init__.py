"""Connectors that test a cluster of workers: they count, repeat what they were given, or fail when they are told to.

Drop-in for ``org.apache.kafka.connect.tools``, so that Apache's own system tests run against our workers: the same keys, task
configurations, records and offsets, and the same lines on the standard output, as JSON.
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
