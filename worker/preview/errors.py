"""Describes failures of a preview with the exception class that Apache's worker would show."""

from __future__ import annotations

from dataclasses import dataclass

from connect.errors import DataError, SchemaError
from worker.error_text import describe
from worker.errors.stages import unnamed_field
from worker.errors.trace import java_name

CONFIGURE = "configure"
"""Configuring the transformations."""
READ = "read"
"""Reading an input line."""
APPLY = "apply"
"""Applying a transformation or its predicate to a record."""

# Errors of Java's own classes, which are no DataExceptions. Our transformations raise DataError with Java's message.
_JAVA_OWN = (
    ("Unknown field: ", "IllegalArgumentException"),
    ("Illegal pattern character ", "IllegalArgumentException"),
    ("Illegal group reference", "IllegalArgumentException"),
    ("Unterminated quote", "IllegalArgumentException"),
    ("invalid ISO 8601 format", "IllegalArgumentException"),
    ("named capturing group ", "IllegalArgumentException"),
    ("capturing group name ", "IllegalArgumentException"),
    ("No group with name ", "IllegalArgumentException"),
    ("No group ", "IndexOutOfBoundsException"),
)


@dataclass(frozen=True, slots=True)
class PreviewFailure:
    """Why a record failed: a task would fail with this, or skip the record depending on errors.tolerance."""

    java_class: str
    """The simple name of the Java class."""
    message: str
    stage: str
    """``configure``, ``read``, ``apply``, or a converter's key, as ``value.converter``."""
    transform: str | None = None
    """The alias of the transformation that failed, if any."""
    field: str | None = None
    """The field, if known and not in the message. Not part of the JSON."""

    def as_json(self) -> dict[str, object]:
        return {"class": self.java_class, "message": self.message, "stage": self.stage, "transform": self.transform}

    def __str__(self) -> str:
        where = f" in {self.transform}" if self.transform else ""
        return f"{self.java_class}{where}: {self.message}"


def build_failure(error: Exception, stage: str, transform: str | None = None) -> PreviewFailure:
    """Converts an exception to a failure."""
    return PreviewFailure(_simple_name(error), describe(error), stage, transform, unnamed_field(error))


def _simple_name(error: Exception) -> str:
    if isinstance(error, SchemaError):
        return "SchemaBuilderException"
    if isinstance(error, DataError):
        for prefix, name in _JAVA_OWN:
            if error.message.startswith(prefix):
                return name
    return java_name(error).rpartition(".")[2]
