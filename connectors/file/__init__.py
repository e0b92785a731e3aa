"""File connectors: ``FileStreamSource`` reads lines of a file into a topic, ``FileStreamSink`` appends a topic to a file.

A drop-in replacement for ``org.apache.kafka.connect.file``: same keys, offsets, and text.
"""

from connectors.file.sink import FileStreamSink, FileStreamSinkTask
from connectors.file.source import FileStreamSource, FileStreamSourceTask

__all__ = ["FileStreamSink", "FileStreamSinkTask", "FileStreamSource", "FileStreamSourceTask"]
