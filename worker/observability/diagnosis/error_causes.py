"""Causes of failed connectors and tasks, by the texts of their traces: Sluice's, and those of Apache's and vendors' classes.

Only the diagnosis looks at texts. What the worker does about an error depends on its class.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """A class of failures."""

    code: str
    pattern: re.Pattern[str]
    message: str
    """What is wrong. ``{name}`` is the connector; groups of the pattern may be used too, but each needs to take part in it."""
    cause: str
    fix: str
    command: str
    """The next command when that is done, or one that shows more."""
    key: str | None = None
    """The config key that is to blame."""


def _cause(
    code: str,
    pattern: str,
    message: str,
    cause: str,
    fix: str,
    command: str = "sluice restart {name} --failed",
    key: str | None = None,
) -> ErrorCause:
    return ErrorCause(code, re.compile(pattern, re.I), message, cause, fix, command, key)


_TOPIC = r"[\w.\-]+"

CAUSES: tuple[ErrorCause, ...] = (
    # --- plugins and configs
    _cause(
        "plugin-missing",
        r"Failed to find any class that implements Connector|ClassNotFoundException|No plugin|PluginNotFoundError|unknown plugin",
        "a class that the config names is not installed on the worker",
        "a plugin is missing, its name is misspelled, or it is installed on some workers only",
        "Install it on every worker, or correct the name.",
        "sluice plugins --all",
    ),
    _cause(
        "python-module-missing",
        r"ModuleNotFoundError: No module named '(?P<module>[\w.]+)'",
        "the Python module {module} is not installed",
        "a dependency of the connector or of its code is missing in the worker's environment",
        "Install it on every worker, or in the connector's task.environment.",
    ),
    _cause(
        "provider-reference",
        r"Could not (?:find|read|resolve)[^\n]*\$\{|config provider[^\n]*(?:does not respond|cannot|failed)|cannot resolve",
        "a reference to a config provider could not be resolved",
        "the file, variable, or secret does not exist, or the provider does not respond",
        "Check the reference and the provider's settings on every worker.",
    ),
    # --- converters and registries
    _cause(
        "schemas-enable",
        r'JsonConverter with schemas\.enable requires "schema" and "payload" fields',
        "the records are plain JSON, and the converter expects an envelope with schema and payload",
        "the records were written with schemas.enable=false, or by a program that is no connector",
        "Set value.converter.schemas.enable=false (and key.converter.schemas.enable=false for keys).",
        "sluice describe {name}",
        "value.converter.schemas.enable",
    ),
    _cause(
        "not-registry-format",
        r"Unknown magic byte|magic byte",
        "the records were not written with a schema registry's serializer",
        "the topic holds JSON or text, and the connector has an Avro, Protobuf, or JSON Schema converter",
        "Set key.converter and value.converter to what the producer of the topic uses.",
        "sluice describe {name}",
        "value.converter",
    ),
    _cause(
        "registry-incompatible",
        r"incompatible with an earlier (?:schema|one)|error code: 409",
        "the schema registry rejects the records' schema",
        "the schema changed in a way that the subject's compatibility level forbids",
        "Change the schema compatibly, or the subject's compatibility level.",
    ),
    _cause(
        "registry-unreachable",
        r"schema registry at [^\n]*does not answer|(?:SchemaRegistry|RestService|"
        r"RestClientException)[^\n]*(?:ConnectException|refused|"
        r"UnknownHost|timed out)|Failed to send HTTP request to endpoint",
        "the schema registry does not answer",
        "it is down, or schema.registry.url is wrong",
        "Check <key|value>.converter.schema.registry.url and that the registry runs.",
        key="value.converter.schema.registry.url",
    ),
    _cause(
        "registry-refused",
        r"schema registry at [^\n]*refused to|RestClientException[^\n]*(?:401|403)",
        "the schema registry refuses the request",
        "credentials are missing or wrong, or have no rights",
        "Check <key|value>.converter.basic.auth.* and the rights of that user.",
    ),
    _cause(
        "wrong-converter",
        r"Converting byte\[\] to Kafka Connect data failed|JsonParseException|Unrecognized token|is not valid JSON|"
        r"not valid JSON|"
        r"Size of data received by (?:Int|Long|Short|Float|Double)",
        "a record cannot be read with the connector's converter",
        "the converter does not match the format of the topic, or single records are damaged",
        "Set key.converter and value.converter to the topic's format; to skip damaged records, set errors.tolerance=all and "
        "errors.deadletterqueue.topic.name.",
        "sluice describe {name}",
        "value.converter",
    ),
    _cause(
        "needs-schema",
        r"requires records with a non-null Struct value|record value schema|Only Struct objects supported|"
        r"Only Map objects supported|"
        r"with no schema|schemaless",
        "the records have no schema, and the sink or a transformation needs one",
        "the converter yields plain values, such as JSON without schemas or text",
        "Use a converter with schemas, or a transformation that works without.",
        "sluice describe {name}",
        "value.converter",
    ),
    # --- Kafka
    _cause(
        "record-too-large",
        r"RecordTooLargeException|MSG_SIZE_TOO_LARGE|larger than the topic or broker allows|max\.request\.size|"
        r"Message size too large",
        "a record is larger than Kafka accepts",
        "the producer's max.request.size, the topic's max.message.bytes, or the broker's message.max.bytes is lower",
        "Raise producer.override.max.request.size and the topic's max.message.bytes, or compress with "
        "producer.override.compression.type.",
        "sluice topic describe TOPIC",
        "producer.override.max.request.size",
    ),
    _cause(
        "topic-missing",
        rf"UnknownTopicOrPartition|UNKNOWN_TOPIC_OR_PART|Unknown topic or partition|Topic {_TOPIC} not present in metadata",
        "a topic does not exist",
        "it was deleted or never created, and the broker creates none",
        "Create the topic, or let the worker do it with topic.creation.default.partitions and .replication.factor.",
        "sluice topic ls",
    ),
    _cause(
        "kafka-unauthorized",
        r"AuthorizationException|_AUTHORIZATION_FAILED|not authorized by the broker|Not authorized to access|"
        r"authorization failed",
        "Kafka does not allow the connector to do this",
        "the principal has no ACL for the topic, group, or transactional ID that the error names",
        "Grant it, or set other credentials with producer.override.*, consumer.override.*, and admin.override.*.",
    ),
    _cause(
        "kafka-authentication",
        r"SaslAuthenticationException|rejects authentication|SASL authentication|no OAuth token|_AUTHENTICATION\b|"
        r"Authentication failed during",
        "the Kafka broker rejects the credentials",
        "user, password, or mechanism is wrong or expired",
        "Check sasl.* and security.protocol of the worker and of the connector's overrides.",
    ),
    _cause(
        "tls-failed",
        r"SSLHandshakeException|SSL handshake failed|no TLS connection|certificate verify failed|PKIX path|"
        r"CERTIFICATE_VERIFY_FAILED",
        "no TLS connection could be made",
        "a certificate is expired, not trusted, or for another host name, or one side speaks no TLS",
        "Check ssl.* settings, the certificate's names, and its date.",
    ),
    _cause(
        "fenced",
        r"ProducerFenced|InvalidProducerEpoch|INVALID_PRODUCER_EPOCH|producer was fenced|has taken over",
        "another producer with the same transactional ID has taken over",
        "the task runs elsewhere too, or two Connect clusters share group.id",
        "Make sure that each Connect cluster has its own group.id, then restart.",
    ),
    _cause(
        "offset-out-of-range",
        r"OffsetOutOfRange|OFFSET_OUT_OF_RANGE|NoOffsetForPartition|_AUTO_OFFSET_RESET|no previously committed offset",
        "the offset where the sink would continue is no longer in the topic",
        "retention has deleted the records, or the topic was recreated, and auto.offset.reset is none",
        "Accept the gap and set an offset: sluice offsets set, or sluice offsets reset.",
        "sluice offsets reset {name} --stop --dry-run",
    ),
    _cause(
        "broker-unreachable",
        r"no Kafka broker answers|_ALL_BROKERS_DOWN|_TRANSPORT\b|No resolvable bootstrap urls|"
        r"Timed out waiting for a node assignment|"
        r"TimeoutException[^\n]*(?:metadata|fetch|expired|initproducerid)|Bootstrap broker|"
        r"Failed to construct kafka (?:producer|consumer|admin)",
        "no Kafka broker answers",
        "brokers are down, bootstrap.servers is wrong, or the network or security.protocol is",
        "Check bootstrap.servers, security.protocol, and that the brokers run.",
        "sluice doctor",
        "bootstrap.servers",
    ),
    # --- databases
    _cause(
        "slot-active",
        r"replication slot \S+ is active for PID|SlotInUseError|slot [^\n]*is in use",
        "another connection reads from the replication slot",
        "two connectors use one slot.name, or an earlier connection has not ended yet",
        "Give each connector its own slot.name; pg_stat_replication shows who reads.",
        key="slot.name",
    ),
    _cause(
        "slot-invalid",
        r"can no longer get changes from replication slot|replication slot \S+ is invalid|This slot has been invalidated|"
        r"requested WAL segment [^\n]* has already been removed",
        "the replication slot is invalid: the server has removed WAL that it needed",
        "the connector was behind or stopped for longer than max_slot_wal_keep_size or idle_replication_slot_timeout allows",
        "Changes are lost: drop the slot, and take a new snapshot (sluice offsets reset, or when_needed as snapshot.mode).",
        "sluice offsets reset {name} --stop --dry-run",
        "slot.name",
    ),
    _cause(
        "slot-missing",
        r"replication slot \S+ does not exist",
        "the replication slot does not exist",
        "it was dropped, or the connector now talks to another server, such as after a failover",
        "Changes may be lost: take a new snapshot (sluice offsets reset, or when_needed as snapshot.mode).",
        "sluice offsets reset {name} --stop --dry-run",
        "slot.name",
    ),
    _cause(
        "slots-exhausted",
        r"all replication slots are in use",
        "the server has no free replication slot",
        "max_replication_slots is reached, often by slots of deleted connectors",
        "Drop unused slots (SELECT slot_name FROM pg_replication_slots WHERE NOT active), or raise max_replication_slots.",
    ),
    _cause(
        "publication-missing",
        r"publication \S+ does not exist",
        "the publication does not exist",
        "it was dropped, or publication.name or database.dbname is wrong",
        "Create it (CREATE PUBLICATION ... FOR TABLE ...), or set publication.autocreate.mode=filtered.",
        key="publication.name",
    ),
    _cause(
        "wal-level",
        r"wal_level|logical decoding requires",
        "the database server does not write logical WAL",
        "wal_level is not logical",
        "ALTER SYSTEM SET wal_level = 'logical', and restart the server.",
    ),
    _cause(
        "replica-identity",
        r"REPLICA IDENTITY|replica identity",
        "the table's replica identity does not send what the connector needs",
        "the table has no primary key, or its key columns are not those of the replica identity",
        "ALTER TABLE ... REPLICA IDENTITY FULL, or USING INDEX.",
    ),
    _cause(
        "database-authentication",
        r"password authentication failed|no password supplied|Access denied for user|authentication failed for user|"
        r"no pg_hba\.conf entry|AuthenticationError",
        "the database rejects the credentials",
        "user or password is wrong or expired, or the server does not accept connections from this host",
        "Correct the credentials; references to a config provider are read again at a restart.",
    ),
    _cause(
        "permission-denied",
        r"permission denied for|InsufficientPrivilege|must be superuser|must be owner of|may not create a replication slot|"
        r"command denied to user",
        "the database user lacks a privilege",
        "a GRANT is missing for the object that the error names",
        "GRANT it to the connector's user (for change data capture: REPLICATION, and SELECT on the tables).",
    ),
    _cause(
        "table-missing",
        r'relation "[^"]+" does not exist|no such table|Table [^\n]* is missing|Table \S+ doesn\'t exist|UndefinedTable|'
        r"Table with name \S+ does not exist",
        "a table does not exist",
        "it was dropped or renamed, its name is misspelled, or auto.create is off",
        "Create the table, correct the name, or set auto.create=true (JDBC sink).",
    ),
    _cause(
        "column-missing",
        r'column "[^"]+" (?:of relation "[^"]+" )?does not exist|Unknown column|has no column|no such column',
        "a column does not exist in the table",
        "the records have a field that the table lacks",
        "Add the column, or set auto.evolve=true (JDBC sink).",
    ),
    _cause(
        "constraint-violated",
        r"violates (?:unique|foreign key|not-null|check|exclusion) constraint|Duplicate entry|value too long for type|"
        r"numeric field overflow|UNIQUE constraint failed|NOT NULL constraint failed",
        "the database rejects a row",
        "a value violates a constraint or does not fit into its column",
        "Use insert.mode=upsert for repeated keys, widen the column, or set rows aside with errors.tolerance=all and a DLQ.",
    ),
    _cause(
        "disk-full",
        r"No space left on device|ENOSPC|disk full|could not extend file|errno 28",
        "a disk is full",
        "the worker's, the broker's, or the database's disk has no space left",
        "Free some space; a slot that retains WAL keeps filling the disk of its server.",
    ),
    _cause(
        "out-of-memory",
        r"OutOfMemoryError|MemoryError|task\.memory\.limit\.mb is|Java heap space",
        "the connector needs more memory than it may use",
        "batches, buffers, or the number of tables are too large for the limit",
        "Raise task.memory.limit.mb or the JVM's heap, or lower batch and queue sizes.",
        key="task.memory.limit.mb",
    ),
    _cause(
        "executor-crashed",
        r"exited with code \d+: code of a connector|was ended by signal|Executor process|did not answer for \d+ ms",
        "the process that ran it crashed or did not respond",
        "a native library of the connector failed, or the kernel ended the process because memory was short",
        "See the worker's log for the stacks; task.isolation=dedicated keeps other connectors apart.",
        key="task.isolation",
    ),
    _cause(
        "commit-conflict",
        r"ConcurrentAppendException|ConcurrentModificationException|CommitFailedException|commit conflict",
        "another writer changed the table at the same time",
        "two writers write to one table",
        "Let one connector write each table.",
    ),
    _cause(
        "spark-lost",
        r"Py4J\w*Error|Java gateway process exited|SparkContext was shut down|JVM of Spark",
        "Spark's JVM failed",
        "Java is missing, JARs could not be loaded, or the JVM has ended",
        "See the worker's log; check Java and JARs with sluice doctor.",
        "sluice doctor",
    ),
    _cause(
        "host-unreachable",
        r"Connection refused|could not connect|Communications link failure|could not translate host name|"
        r"Name or service not known|"
        r"UnknownHostException|No route to host|connection timed out|server closed the connection|does not answer",
        "a system that the connector needs does not answer",
        "it is down, its address is wrong, or a firewall is in between",
        "Check the address in the error, and that the system runs.",
    ),
    _cause(
        "file-missing",
        r"FileNotFoundError|NoSuchFileException|No such file or directory",
        "a file or directory does not exist on the worker",
        "the path is wrong, or the file exists on another worker only",
        "Create it on every worker, or correct the path.",
    ),
    _cause(
        "file-denied",
        r"PermissionError|AccessDeniedException|Permission denied",
        "the worker may not use a file or directory",
        "it belongs to another user",
        "Give the worker's user access to it.",
    ),
    _cause(
        "config-invalid",
        r"ConfigException|Invalid value [^\n]* for configuration",
        "the configuration is invalid",
        "a value is wrong for its key",
        "Correct the value that the error names; sluice lint checks files, sluice plan asks the worker.",
        "sluice describe {name}",
    ),
)
"""Specific causes come before general ones."""


def find_cause(trace: str) -> tuple[ErrorCause, dict[str, str]] | None:
    """Returns the first cause that a trace matches, and the groups of its pattern."""
    for one in CAUSES:
        if found := one.pattern.search(trace):
            return one, {name: value or "" for name, value in found.groupdict().items()}
    return None


def reason_of(trace: str) -> str:
    """Returns the line of a trace that says most: the last ``Caused by:``, else the first line; shortened."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    line = causes[-1] if causes else lines[0] if lines else ""
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


_LONGEST = 300
