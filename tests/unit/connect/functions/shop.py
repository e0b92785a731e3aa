"""Functions as users write them, named by tests in configurations. Line numbers matter to no test: they are looked up."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from os import getcwd
from typing import Annotated, Any, ClassVar, Literal

from connect import ConnectRecord, Password, RetriableError, Schema, SchemaAndValue, SchemaBuilder
from connect.config.validators import at_least

NAMED = SchemaBuilder.struct().field("name", Schema.STRING).field("size", Schema.OPTIONAL_INT64).build()
NUMBER = 5
working_folder = getcwd


def trim(value: dict[str, Any]) -> dict[str, Any]:
    value["name"] = value["name"].strip()
    return value


def tidy(value: Any) -> Any:
    """Changes what lies deep inside."""
    value["tags"].append("seen")
    value["inner"]["count"] += 1
    return value


def shorten(value: str, max_length: Annotated[int, "How much to keep.", at_least(1)] = 3, from_: int = 0) -> str:
    return value[from_ : from_ + max_length]


def settings(  # type: ignore[no-untyped-def]  # a user's function may lack a hint
    value: Any, text: str, ratio: float = 1.0, on: bool = False, words: tuple[str, ...] = (),
    mode: Literal["a", "b"] = "a", secret: Password | None = None, plain="x",  # without a hint: the type of its default
) -> Any:  # fmt: skip
    return {"text": text, "ratio": ratio, "on": on, "words": words, "mode": mode, "secret": secret, "plain": plain}


def anything(value: Any, **options: str) -> Any:
    return dict(sorted(options.items()))


def route(record: ConnectRecord) -> ConnectRecord | None:
    if record.value == "drop":
        return None
    record.topic = f"{record.topic}-{record.value}"
    return record


def spoil(record: ConnectRecord) -> ConnectRecord:
    record.value["n"] += 1
    record.key = "mine"
    record.ensure_headers().add("h", 1)
    return record


def lower(key: str) -> str:
    return key.lower()


def doubled(values: list[Any]) -> list[Any]:
    return [None if value == 0 else value * 2 for value in values]


def doubled_lazily(values: list[Any]) -> Iterator[Any]:
    for value in values:
        yield value * 2


def too_few(values: list[Any]) -> list[Any]:
    return values[1:]


def no_list(values: list[Any]) -> Any:
    return dict.fromkeys(values)


def reversed_records(records: list[ConnectRecord]) -> list[ConnectRecord | None]:
    return [None if record.value is None else record for record in records]


def same(value: Any) -> Any:
    return value


def divide(value: int) -> float:
    return _inverse(value)


def _inverse(value: int) -> float:
    return 1 / value  # the failing line


def refused(value: Any) -> Any:
    raise RetriableError("the lookup service is away")


def returns(value: Any) -> Any:
    return {"list": [1], "set": {1}, "struct": SchemaAndValue(Schema.INT8, 1), "generator": (x for x in "a")}[value]


def as_record(record: ConnectRecord) -> Any:
    return record.value


def widened(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, **value.pop("extra", {})}


def is_large(value: Any) -> bool:
    return value is not None and value > 100


def is_from(record: ConnectRecord, topic: str) -> bool:
    return record.topic == topic


def is_vague(value: Any) -> Any:
    return value


def is_broken(key: Any) -> bool:
    return bool(key.missing)


async def later(value: Any) -> Any:
    return value


def unclear(row: Any) -> Any:
    return row


def nothing() -> None: ...


def clashing(value: Any, predicate: str = "") -> Any:
    return value


def taking(value: Any, function_takes: str = "") -> Any:
    return value


def unusual(value: Any, numbers: list[int]) -> Any:
    return value


def leaving(value: Any) -> Any:
    if value == 1:
        sys.exit(f"gone with {value}")
    return value


def forgetful(value: dict[str, Any]) -> None:
    value["seen"] = True


def nesting(value: Any) -> Any:
    for _ in range(100_000):
        value = {"in": value}
    return value


class Numbering:
    """State of one task."""

    closed: ClassVar[list[str]] = []

    def __init__(self, prefix: str, start: int = 1) -> None:
        if start < 0:
            raise ValueError("start is below 0")
        self.prefix = prefix
        self.next = start

    def __call__(self, value: Any) -> str:
        self.next += 1
        return f"{self.prefix}{self.next - 1}"

    def close(self) -> None:
        self.closed.append(self.prefix)


class NotCallable:
    pass


pair = functools.partial(shorten, max_length=2)
