"""The public API for connector authors: Kafka Connect's API in Python.

Records, schemas, configuration definitions, converters, transformations, errors, and the connector and task classes. The package
needs no Kafka client, web framework, database, or Spark.
"""

from connect.change_events.custom_converters import ColumnConversion, CustomConverter, RelationalColumn
from connect.config.definition import NO_DEFAULT, ConfigDef, ConfigKey, ConfigValue, Importance, Width
from connect.config.parsing import Password
from connect.config.providers.api import ConfigData, ConfigProvider
from connect.config.types import ConfigType
from connect.connector import Connector, ConnectorContext, ExactlyOnceSupport, SinkConnector, SourceConnector
from connect.converters.api import Converter, HeaderConverter
from connect.data import Field, Header, Headers, Schema, SchemaBuilder, Struct, Type
from connect.errors import ConfigError, ConnectError, DataError, RetriableError
from connect.functions.sink import sink_connector
from connect.functions.source import source_connector
from connect.functions.source_context import SourceFunctionContext
from connect.metrics import Histogram, Metric, MetricKind
from connect.record import ConnectRecord, RawBatch, SchemaAndValue, SinkRecord, SourceRecord, TopicPartition
from connect.sink import SinkTask, SinkTaskContext
from connect.source import OffsetReader, SourceTask, SourceTaskContext
from connect.transforms.api import Predicate, Transformation

__all__ = [
    "NO_DEFAULT",
    "ColumnConversion",
    "ConfigData",
    "ConfigDef",
    "ConfigError",
    "ConfigKey",
    "ConfigProvider",
    "ConfigType",
    "ConfigValue",
    "ConnectError",
    "ConnectRecord",
    "Connector",
    "ConnectorContext",
    "Converter",
    "CustomConverter",
    "DataError",
    "ExactlyOnceSupport",
    "Field",
    "Header",
    "HeaderConverter",
    "Headers",
    "Histogram",
    "Importance",
    "Metric",
    "MetricKind",
    "OffsetReader",
    "Password",
    "Predicate",
    "RawBatch",
    "RelationalColumn",
    "RetriableError",
    "Schema",
    "SchemaAndValue",
    "SchemaBuilder",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourceFunctionContext",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "Struct",
    "TopicPartition",
    "Transformation",
    "Type",
    "Width",
    "sink_connector",
    "source_connector",
]
