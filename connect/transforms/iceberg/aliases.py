"""The transformations of the Iceberg sink for Kafka Connect by name: those of Apache, and the former ones by Tabular."""

from connect.plugins import Kind, PluginEntry

_JAVA_PACKAGES = ("org.apache.iceberg.connect.transforms", "io.tabular.iceberg.connect.transforms")

PLUGINS: tuple[PluginEntry, ...] = tuple(
    PluginEntry(
        Kind.TRANSFORMATION,
        f"connect.transforms.iceberg.{module}:{name}",
        tuple(f"{package}.{name}" for package in _JAVA_PACKAGES),
        (name,),
    )
    for module, name in (
        ("copy_value", "CopyValue"),
        ("debezium_transform", "DebeziumTransform"),
        ("dms_transform", "DmsTransform"),
        ("json_to_map", "JsonToMapTransform"),
        ("kafka_metadata", "KafkaMetadataTransform"),
        ("mongo_debezium", "MongoDebeziumTransform"),
    )
)
