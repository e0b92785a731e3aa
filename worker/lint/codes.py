"""Every code that a finding can have. docs/lint.md has a row for each."""

from __future__ import annotations

from dataclasses import dataclass

from connect.config.finding import Finding, Severity

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding."""

    name: str
    severity: Severity
    about: str
    unread: bool = False
    """Whether it says that a key is not read by anybody: these are errors with ``--strict``."""

    def found(self, message: str, path: str | None = None, suggestion: str | None = None) -> Finding:
        """A finding of this kind; its place is added later."""
        return Finding(self.name, self.severity, message, path, suggestion)


# What cannot work.
UNREADABLE_FILE = Code("unreadable-file", _ERROR, "The file cannot be read, or is not in its format.")
MISSING_KEY = Code("missing-key", _ERROR, "A key that must be given is not there.")
WRONG_TYPE = Code("wrong-type", _ERROR, "The value is not of the key's type, as tasks.max=two.")
INVALID_VALUE = Code("invalid-value", _ERROR, "The value breaks the key's own rule, or keys contradict each other.")
UNKNOWN_CLASS = Code("unknown-class", _ERROR, "No plugin here has this class name or alias.")
WRONG_CLASS = Code("wrong-class", _ERROR, "The class is there but of another kind, as a converter among the transforms.")
DUPLICATE_ALIAS = Code("duplicate-alias", _ERROR, "A list of transforms, predicates or groups names one twice.")
EMPTY_ALIAS = Code("empty-alias", _ERROR, "A list of transforms or predicates has an empty entry, as after a last comma.")
UNDECLARED_PREDICATE = Code("undeclared-predicate", _ERROR, "A transform uses a predicate that is not in predicates.")
DUPLICATE_NAME = Code(
    "duplicate-name", _ERROR, "Two connectors of one run have the same name: of files that are named, or of one folder."
)
OVERRIDE_REFUSED = Code("override-refused", _ERROR, "The worker's policy does not let connectors set this client setting.")
EXACTLY_ONCE_OFF = Code("exactly-once-off", _ERROR, "The connector requires exactly-once, which the worker does not have on.")
SHARED_TOPIC = Code("shared-topic", _ERROR, "A distributed worker keeps two kinds of its own data in one topic.")

# Keys that nobody reads.
UNKNOWN_KEY = Code("unknown-key", _WARNING, "No part of the configuration reads this key.", unread=True)
UNKNOWN_SETTING = Code("unknown-setting", _WARNING, "No Kafka client or topic has this setting.", unread=True)
UNDECLARED_ALIAS = Code("undeclared-alias", _WARNING, "Keys of a transform, predicate or group that is not listed.", unread=True)
UNUSED_CONVERTER_KEYS = Code(
    "unused-converter-keys", _WARNING, "Keys below a converter that the connector does not name.", unread=True
)  # fmt: skip
WRONG_FILE = Code("wrong-file", _WARNING, "A key of worker files in a connector's file, or the other way round.", unread=True)
WRONG_KIND = Code("wrong-kind", _WARNING, "A key of sinks on a source, or the other way round.", unread=True)
REMOVED_KEY = Code("removed-key", _WARNING, "A key that earlier releases had, with what took its place.", unread=True)

# What works, but not as it may be meant.
NO_NAME = Code("no-name", _WARNING, "A JSON file without a name: PUT .../config takes it, a standalone worker does not.")
DUPLICATE_KEY = Code("duplicate-key", _WARNING, "A file gives a key twice; the last one counts.")
RECORDS_VANISH = Code("records-vanish", _WARNING, "Bad records are skipped without a trace.")
DLQ_STOPS = Code("dead-letters-stop", _WARNING, "There is a dead letter queue, but the first bad record stops the task.")
DLQ_OF_SOURCE = Code("dead-letters-of-source", _WARNING, "A dead letter queue on a source, which has none.", unread=True)
UNUSED_PREDICATE = Code("unused-predicate", _WARNING, "A predicate that no transform uses.")
FILTER_DROPS_ALL = Code("filter-drops-all", _WARNING, "A Filter without predicate drops every record.")
TOO_MANY_TASKS = Code("too-many-tasks", _WARNING, "tasks.max asks for more tasks than the connector ever makes.")
NEEDS_SCHEMA = Code("needs-schema", _WARNING, "Records come without the schema that the sink or a transform needs.")
NEEDS_FIELDS = Code("needs-fields", _WARNING, "A transform works on fields, but what it gets is plain text, bytes or a number.")
NO_EFFECT = Code("no-effect", _WARNING, "The key does nothing with the other settings as they are.")
UNSAFE_OVERRIDE = Code("unsafe-override", _WARNING, "A client setting that can lose or reorder records.")
WIDE_REGEX = Code("wide-regex", _WARNING, "topics.regex takes internal topics too.")
INTERNAL_TOPIC = Code("internal-topic", _WARNING, "A sink reads a topic in which the worker or Kafka keeps its own data.")
SHARED_SLOT = Code("shared-slot", _WARNING, "Two connectors of one run use the same replication slot.")
FLUSH_TOO_SLOW = Code("flush-too-slow", _WARNING, "A commit of offsets may take longer than the time between two.")
UNKNOWN_PROVIDER = Code("unknown-provider", _WARNING, "A reference to a config provider that the worker does not have.")
MISSING_REFERENCE = Code("missing-reference", _WARNING, "A reference to a file's key that is not in the file.")
MISSING_FOLDER = Code("missing-folder", _WARNING, "A folder of plugin.path cannot be used.")

# Good to know.
PLAIN_SECRET = Code("plain-secret", _NOTE, "A secret stands in the file as it is.")
DEPRECATED_KEY = Code("deprecated-key", _NOTE, "The key still works and will go.")
UNUSED_SETTING = Code("unused-setting", _NOTE, "A setting of Apache's that this release accepts and does not use.")
SKIPS_EARLIER = Code("skips-earlier-records", _NOTE, "A new sink begins at the end of its topics.")
EXACTLY_ONCE_WORKER = Code("exactly-once-worker", _NOTE, "What the connector requires depends on a worker that was not checked.")

CODES: dict[str, Code] = {
    code.name: code for code in [value for value in globals().values() if isinstance(value, Code)]
}  # fmt: skip
"""All of them by name, in the order of this page."""
