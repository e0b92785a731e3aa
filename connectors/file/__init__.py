"""Lines of files: ``FileStreamSource`` reads them into a topic, ``FileStreamSink`` appends a topic to a file.

Drop-in for ``org.apache.kafka.connect.file``: same keys, offsets and text.
"""

from connectors.file.sink import FileStreamSink, FileStreamSinkTask
from connectors.file.source import FileStreamSource, FileStreamSourceTask

__all__ = ["FileStreamSink", "FileStreamSinkTask", "FileStreamSource", "FileStreamSourceTask"]
