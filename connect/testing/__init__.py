"""Tools for testing connectors: run tasks without Kafka, script a source, inspect a sink, control the clock.

The product itself does not import this package.
"""

from connect.testing.clock import ManualClock
from connect.testing.conformance import check_external_system, check_sink_connector, check_source_connector
from connect.testing.harness import MemoryOffsets, MemoryTransactions, SinkHarness, SourceHarness
from connect.testing.memory import MemorySink, MemorySinkTask
from connect.testing.runs import run_sink, run_source, run_transforms
from connect.testing.scripted import ScriptedSource, ScriptedSourceTask

__all__ = [
    "ManualClock",
    "MemoryOffsets",
    "MemorySink",
    "MemorySinkTask",
    "MemoryTransactions",
    "ScriptedSource",
    "ScriptedSourceTask",
    "SinkHarness",
    "SourceHarness",
    "check_external_system",
    "check_sink_connector",
    "check_source_connector",
    "run_sink",
    "run_source",
    "run_transforms",
]
