"""Defines the codes of findings. docs/lint.md has a row for each."""

from __future__ import annotations

from dataclasses import dataclass

from connect.config.finding import Finding, Severity

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


@dataclass(frozen=True, slots=True)
class Code:
    """One type of finding."""

    name: str
    severity: Severity
    about: str
    unread: bool = False
    """Whether it reports a key that nothing reads. With ``--strict``, these are errors."""

    def finding(self, message: str, path: str | None = None, suggestion: str | None = None) -> Finding:
        """Creates a finding with this code; its file and line are added later."""
        return Finding(self.name, self.severity, message, path, suggestion)


# Configurations that cannot work.
UNREADABLE_FILE = Code("unreadable-file", _ERROR, "The file cannot be read or parsed.")
MISSING_KEY = Code("missing-key", _ERROR, "A required key is missing.")
WRONG_TYPE = Code("wrong-type", _ERROR, "The value does not have the key's type, for example tasks.max=two.")
INVALID_VALUE = Code("invalid-value", _ERROR, "The value violates the key's rule, or keys contradict each other.")
UNKNOWN_CLASS = Code("unknown-class", _ERROR, "No plugin has this class name or alias.")
WRONG_CLASS = Code("wrong-class", _ERROR, "The class is of another kind, for example a converter among the transforms.")
DUPLICATE_ALIAS = Code("duplicate-alias", _ERROR, "A list of transforms, predicates, or groups contains a name twice.")
EMPTY_ALIAS = Code(
    "empty-alias", _ERROR, "A list of transforms or predicates has an empty entry, for example after a trailing comma."
)
UNDECLARED_PREDICATE = Code("undeclared-predicate", _ERROR, "A transform uses a predicate that is not listed in predicates.")
DUPLICATE_NAME = Code(
    "duplicate-name",
    _ERROR,
    "Two connectors of one run have the same name. Compared are the named files, and the files of each directory.",
)
OVERRIDE_REFUSED = Code("override-refused", _ERROR, "The worker's policy does not allow connectors to set this client setting.")
EXACTLY_ONCE_OFF = Code(
    "exactly-once-off", _ERROR, "The connector requires exactly-once delivery, which is not enabled on the worker."
)
SHARED_TOPIC = Code("shared-topic", _ERROR, "A distributed worker stores two kinds of its own data in one topic.")

# Keys that nothing reads.
UNKNOWN_KEY = Code("unknown-key", _WARNING, "No component reads this key.", unread=True)
UNKNOWN_SETTING = Code("unknown-setting", _WARNING, "No Kafka client or topic has this setting.", unread=True)
UNDECLARED_ALIAS = Code("undeclared-alias", _WARNING, "Keys of a transform, predicate, or group that is not listed.", unread=True)
UNUSED_CONVERTER_KEYS = Code(
    "unused-converter-keys", _WARNING, "Keys of a converter that the connector does not set.", unread=True
)  # fmt: skip
WRONG_FILE = Code("wrong-file", _WARNING, "A worker key in a connector's file, or vice versa.", unread=True)
WRONG_KIND = Code("wrong-kind", _WARNING, "A sink key on a source, or vice versa.", unread=True)
REMOVED_KEY = Code(
    "removed-key",
    _WARNING,
    "A key of an earlier release; the message says what to do. An error if the connector refuses it.",
    unread=True,
)

# Configurations that work, but perhaps not as intended.
NO_NAME = Code("no-name", _WARNING, "A JSON file without a name. PUT .../config accepts it; a standalone worker does not.")
DUPLICATE_KEY = Code("duplicate-key", _WARNING, "A key occurs twice in a file; the last one counts.")
RECORDS_VANISH = Code("records-vanish", _WARNING, "Errant records are skipped without a trace.")
DLQ_STOPS = Code("dead-letters-stop", _WARNING, "There is a dead letter queue, but the first errant record stops the task.")
DLQ_OF_SOURCE = Code(
    "dead-letters-of-source",
    _WARNING,
    "A sink's dead letter queue key on a source. Sources use errors.deadletterqueue.source.*.",
    unread=True,
)
UNUSED_PREDICATE = Code("unused-predicate", _WARNING, "No transform uses this predicate.")
FILTER_DROPS_ALL = Code("filter-drops-all", _WARNING, "A Filter without a predicate drops every record.")
TOO_MANY_TASKS = Code("too-many-tasks", _WARNING, "tasks.max is higher than the number of tasks that the connector can have.")
NEEDS_SCHEMA = Code("needs-schema", _WARNING, "Records have no schema, but the sink or a transform needs one.")
NEEDS_FIELDS = Code("needs-fields", _WARNING, "A transform works on fields, but its input is plain text, bytes, or a number.")
NO_EFFECT = Code("no-effect", _WARNING, "The key has no effect with the other settings.")
UNSAFE_OVERRIDE = Code("unsafe-override", _WARNING, "A client setting that can lose or reorder records.")
WIDE_REGEX = Code("wide-regex", _WARNING, "topics.regex matches internal topics too.")
INTERNAL_TOPIC = Code("internal-topic", _WARNING, "A sink reads a topic in which the worker or Kafka stores its own data.")
SHARED_SLOT = Code("shared-slot", _WARNING, "Two connectors of one run use the same replication slot.")
FLUSH_TOO_SLOW = Code("flush-too-slow", _WARNING, "An offset flush may take longer than the interval between two flushes.")
UNKNOWN_PROVIDER = Code("unknown-provider", _WARNING, "A reference to a config provider that the worker does not define.")
MISSING_REFERENCE = Code("missing-reference", _WARNING, "A reference to a key that the file does not contain.")
MISSING_FOLDER = Code("missing-folder", _WARNING, "A folder of plugin.path cannot be used.")

# Notes.
PLAIN_SECRET = Code("plain-secret", _NOTE, "A secret is in the file in plain text.")
DEPRECATED_KEY = Code("deprecated-key", _NOTE, "The key works but will be removed.")
UNUSED_SETTING = Code("unused-setting", _NOTE, "One of Apache's settings that this release accepts but does not use.")
SKIPS_EARLIER = Code("skips-earlier-records", _NOTE, "A new sink starts at the end of its topics.")
EXACTLY_ONCE_WORKER = Code("exactly-once-worker", _NOTE, "The connector requires something of a worker that was not checked.")

CODES: dict[str, Code] = {
    code.name: code for code in [value for value in globals().values() if isinstance(value, Code)]
}  # fmt: skip
"""All codes by name, in the order of this module."""
