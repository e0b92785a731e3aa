"""How a preview tells of a failure: under the class name that Apache's workers would show."""

from __future__ import annotations

from dataclasses import dataclass

from connect.errors import DataError, SchemaError
from worker.error_text import describe
from worker.errors.stages import unnamed_field
from worker.errors.trace import java_name

CONFIGURE = "configure"
"""Making the transformations of the configuration."""
READ = "read"
"""Reading a line of input."""
APPLY = "apply"
"""A transformation or its predicate, on one record."""

# What Java's own classes refuse is no DataException there. Our transformations raise DataError for it, in Java's words.
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
    """Why there is no record: what a task would fail with, or what errors.tolerance would skip."""

    java_class: str
    """The simple name of the Java class."""
    message: str
    stage: str
    """``configure``, ``read``, ``apply``, or a converter's key, as ``value.converter``."""
    transform: str | None = None
    """The alias of the transformation, where one is to blame."""
    field: str | None = None
    """The field, where it is known and the message does not name it. For people: no part of the JSON."""

    def as_json(self) -> dict[str, object]:
        return {"class": self.java_class, "message": self.message, "stage": self.stage, "transform": self.transform}

    def __str__(self) -> str:
        where = f" in {self.transform}" if self.transform else ""
        return f"{self.java_class}{where}: {self.message}"


def build_failure(error: Exception, stage: str, transform: str | None = None) -> PreviewFailure:
    """The failure that an exception is."""
    return PreviewFailure(_simple_name(error), describe(error), stage, transform, unnamed_field(error))


def _simple_name(error: Exception) -> str:
    if isinstance(error, SchemaError):
        return "SchemaBuilderException"
    if isinstance(error, DataError):
        for beginning, name in _JAVA_OWN:
            if error.message.startswith(beginning):
                return name
    return java_name(error).rpartition(".")[2]
