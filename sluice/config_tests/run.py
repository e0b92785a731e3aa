"""Runs config tests: passes records through transformations and converters and compares the results."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect.config.finding import Finding, Severity
from connect.data.logical import FarInstant
from connect.data.struct import Struct
from connect.errors import ConfigError, ConnectError
from connect.java.number_text import decimal_text
from connect.plugins import Plugins
from connect.record import ConnectRecord, SinkRecord
from connect.record_format import payload_from_json, record_to_json
from sluice.config_tests.files import ENDING, ConfigTest, ConfigTestFile, is_record_node, read_test_file
from worker.lint import check_files
from worker.preview.conversion import Message, PreviewConverters
from worker.preview.errors import CONFIGURE, PreviewFailure, build_failure
from worker.preview.plan import PreviewPlan
from worker.preview.record_lines import is_record, parse_record
from worker.preview.transform_runner import Outcome, TransformRunner


@dataclass(frozen=True, slots=True)
class ConfigTestResult:
    """The result of one test."""

    file: str
    line: int
    name: str
    differences: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        return not self.differences

    def as_json(self) -> dict[str, object]:
        return {
            "file": self.file,
            "line": self.line,
            "name": self.name,
            "passed": self.passed,
            "differences": list(self.differences),
        }


def run_files(paths: Iterable[str | Path]) -> list[ConfigTestResult]:
    """Runs every test of these files and of test files below these directories. Raises ConfigError for an invalid file, and when
    there are no tests."""
    found = [read_test_file(path) for path in _files(paths)]
    if not found:
        raise ConfigError(f"No file *{ENDING} in {', '.join(map(str, paths))}")
    plugins = Plugins.discover()
    return [result for file in found for result in _run_file(file, plugins)]


def _files(paths: Iterable[str | Path]) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            yield from sorted(path.rglob(f"*{ENDING}"))
        elif path.name.endswith(ENDING):
            yield path
        else:
            beside = path.with_name(path.name.removesuffix(path.suffix) + ENDING)
            hint = f" Did you mean {beside}?" if beside.is_file() else ""
            raise ConfigError(f"{path}: names of test files must end with {ENDING}.{hint}")


def _run_file(file: ConfigTestFile, plugins: Plugins) -> Iterator[ConfigTestResult]:
    if file.lint is not None:
        checked = [file.config] if file.worker is None else [file.worker, file.config]
        findings = [one for one in check_files(checked).findings if _counts(one, file.lint) and one.file == file.config]
        yield ConfigTestResult(file.path, file.lint_line, f"lint: {file.lint}", [str(one) for one in findings])
    for one in file.tests:
        plan = PreviewPlan.read(file.config, file.worker, plugins, overrides=one.overrides)
        try:
            yield ConfigTestResult(file.path, one.line, one.name, list(_differences(one, plan)))
        except ConfigError as e:
            raise ConfigError(f"{file.path}:{one.line}: {e.message}") from e
        finally:
            plan.close()


def _counts(finding: Finding, lint: str) -> bool:
    if lint == "clean":
        return finding.severity is not Severity.NOTE
    return finding.severity is Severity.ERROR


def _differences(test: ConfigTest, plan: PreviewPlan) -> Iterator[str]:
    try:
        runner = TransformRunner(plan.config, plan.plugins)
    except ConnectError as e:
        # Tests may also expect that a configuration is rejected.
        failed = Outcome(None, build_failure(e, CONFIGURE))
        for expected in test.expected:
            yield from _compared(expected, failed, None)
        return
    try:
        reading = plan.converters() if test.is_raw else None
        writing = plan.output_converters()
        for position, (given, expected) in enumerate(zip(test.inputs, test.expected, strict=True)):
            record = _record(given, plan, reading, position)
            outcome = Outcome(None, record) if isinstance(record, PreviewFailure) else runner.apply(record)
            head = f"input {position + 1}: " if len(test.inputs) > 1 else ""
            for difference in _compared(expected, outcome, writing):
                yield head + difference
    finally:
        runner.close()


def _record(given: Any, plan: PreviewPlan, reading: PreviewConverters | None, position: int) -> ConnectRecord | PreviewFailure:
    if reading is not None:
        return reading.read(_message(given, plan.defaults.topic), position)
    if is_record_node(given):
        whole = {"topic": plan.defaults.topic, **given}
        if plan.defaults.is_sink:
            whole = {"partition": 0, "offset": position, **whole}
        whole["headers"] = _headers(whole.get("headers") or [])
        for member in ("key", "value"):
            if member in whole and not is_record({"topic": "", "value": whole[member]}):
                whole[member] = {"schema": None, "payload": whole[member]}
        return parse_record({"value": None, **whole}, plan.defaults, position)
    return plan.defaults.record(payload_from_json(None, given), position)


def _headers(headers: Any) -> list[Any]:
    """Returns headers in full form; a mapping has names and plain values."""
    if isinstance(headers, dict):
        return [{"key": name, "schema": None, "payload": value} for name, value in headers.items()]
    return list(headers)


def _message(given: Any, topic: str) -> Message:
    if not isinstance(given, dict):
        return Message(topic, None, _bytes(given))
    headers = given.get("headers") or {}
    return Message(
        str(given.get("topic", topic)),
        _bytes(given.get("key")),
        _bytes(given.get("value")),
        tuple((name, _bytes(value)) for name, value in headers.items()),
    )


def _bytes(value: Any) -> bytes | None:
    """Encodes text as UTF-8, {base64: ...} as bytes, and other values as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, dict) and set(value) == {"base64"}:
        try:
            return base64.b64decode(str(value["base64"]), validate=True)
        except ValueError as e:
            raise ConfigError(f"{value['base64']!r} is not base64: {e}") from e
    return json.dumps(value).encode()


def _compared(expected: Any, outcome: Outcome, writing: PreviewConverters | None) -> Iterator[str]:
    failure, record = outcome.failure, outcome.record
    if "error" in expected:
        if failure is None:
            got = "a record" if record is not None else "none; the record was dropped"
            yield f"expected an error with {expected['error']!r}, got {got}"
        elif expected["error"] not in str(failure):
            yield f"expected an error with {expected['error']!r}, got: {failure}"
        return
    if failure is not None:
        yield f"failed: {failure}"
        return
    if "dropped" in expected:
        if record is not None:
            yield f"expected the record to be dropped, got {_shown(plain_record(record))}"
        return
    if record is None:
        yield "expected a record, but it was dropped"
        return
    yield from _compared_record(expected, record)
    if "message" in expected:
        yield from _compared_message(expected["message"], record, writing)


def _compared_record(expected: Any, record: ConnectRecord) -> Iterator[str]:
    plain, whole = plain_record(record), record_to_json(record)
    for member in ("topic", "partition", "timestamp", "key", "value", "headers"):
        if member in expected:
            wanted = expected[member]
            # With a schema, compare the full form, including types.
            full = member in ("key", "value") and isinstance(wanted, dict) and set(wanted) == {"schema", "payload"}
            yield from _difference(member, wanted, (whole if full else plain)[member])
    for path, wanted in (expected.get("fields") or {}).items():
        yield from _difference(path, wanted, at_path(plain, path))
    for path in expected.get("absent") or ():
        found = at_path(plain, path)
        if found is not ABSENT:
            yield f"{path}: expected to be absent, got {_shown(found)}"
    if "record" in expected:
        yield from _difference("record", expected["record"], whole)


def _compared_message(expected: Any, record: ConnectRecord, writing: PreviewConverters | None) -> Iterator[str]:
    if writing is None:
        yield "message: only sources write messages, and converters must be known: set the worker file with worker"
        return
    message = writing.write(record)
    if isinstance(message, PreviewFailure):
        yield f"message: failed: {message}"
        return
    for member, data in (("key", message.key), ("value", message.value)):
        if member in expected:
            wanted = _bytes(expected[member])
            if wanted != data and not _same_json(wanted, data):
                yield f"message.{member}: expected {_text(wanted)}, got {_text(data)}"


def _same_json(expected: bytes | None, actual: bytes | None) -> bool:
    if expected is None or actual is None:
        return False
    try:
        return is_same(json.loads(expected), json.loads(actual))
    except ValueError:
        return False


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode("utf-8", "backslashreplace")


def _difference(path: str, expected: Any, actual: Any) -> Iterator[str]:
    """Yields the members in which two values differ."""
    if is_same(expected, actual):
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in dict.fromkeys((*expected, *actual)):
            yield from _difference(f"{path}.{name}", expected.get(name, ABSENT), actual.get(name, ABSENT))
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for i, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from _difference(f"{path}.{i}", one, other)
    else:
        yield f"{path}: expected {_shown(expected)}, got {_shown(actual)}"


def _shown(value: Any) -> str:
    return str(value) if value is ABSENT else json.dumps(value, ensure_ascii=False)


# --- text -------------------------------------------------------------------------------------------------------------------


def format_result(result: ConfigTestResult, *, color: bool = False) -> str:
    """Returns one line for the test and one for each difference."""
    word, style = ("ok", "32") if result.passed else ("FAILED", "1;31")
    shown = f"\x1b[{style}m{word}\x1b[0m" if color else word
    lines = [f"{result.file}:{result.line}: {shown}: {result.name}"]
    return "\n".join([*lines, *(f"    {difference}" for difference in result.differences)])


def format_summary(results: Sequence[ConfigTestResult]) -> str:
    """Returns the last line of the output."""
    failed = sum(not result.passed for result in results)
    return f"{len(results) - failed} passed, {failed} failed"


ABSENT = "(absent)"


def to_plain(value: Any) -> Any:
    """Returns the plain form of a record value."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case decimal.Decimal():
            return decimal_text(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat().replace("+00:00", "Z")
        case FarInstant():
            return value.millis
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case Struct():
            return {f.name: to_plain(member) for f, member in zip(value.schema.fields or (), value.values, strict=True)}
        case dict():
            return {key if isinstance(key, str) else str(to_plain(key)): to_plain(member) for key, member in value.items()}
        case list() | tuple():
            return [to_plain(member) for member in value]
    return str(value)


def plain_record(record: ConnectRecord) -> dict[str, Any]:
    """Returns a record's members in plain form."""
    node: dict[str, Any] = {"topic": record.topic, "partition": record.partition, "timestamp": record.timestamp}
    if isinstance(record, SinkRecord):
        node["offset"] = record.offset
    node["key"], node["value"] = to_plain(record.key), to_plain(record.value)
    # The last header of a name wins, as for most consumers.
    node["headers"] = {header.key: to_plain(header.value) for header in record.headers or ()}
    return node


def at_path(node: Any, path: str) -> Any:
    """Returns the value at a dotted path, or ABSENT. Names may contain dots."""
    if path == "":
        return node
    if isinstance(node, list):
        head, _, rest = path.partition(".")
        return at_path(node[int(head)], rest) if head.isdecimal() and int(head) < len(node) else ABSENT
    if not isinstance(node, Mapping):
        return ABSENT
    for name in sorted((name for name in node if path == name or path.startswith(f"{name}.")), key=len, reverse=True):
        found = at_path(node[name], path[len(name) + 1 :])
        if found is not ABSENT:
            return found
    return ABSENT


def is_same(expected: Any, actual: Any) -> bool:
    """Returns whether the values are equal; 1, 1.0, and true differ."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(is_same(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(is_same(a, b) for a, b in zip(expected, actual, strict=True))
    if isinstance(expected, bool | int | float) and isinstance(actual, bool | int | float):
        return type(expected) is type(actual) and (expected == actual or (expected != expected and actual != actual))
    return bool(expected == actual)
