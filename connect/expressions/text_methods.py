"""Methods of text, as in Java, Groovy, and JavaScript. Each takes the dialect, the text, and the arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

from connect.expressions.arithmetic import repeat_text
from connect.expressions.dialect import Dialect, describe_kind
from connect.expressions.errors import MAX_TEXT_LENGTH, EvaluationError, check_list_size, check_text_length
from connect.expressions.regular_expressions import Match, Regex, compile_data_regex
from connect.java.regex_replacement import compile_replacement

_CONTROL_AND_SPACE = "".join(map(chr, range(33)))
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


def require_text(value: Any) -> str:
    """Returns the argument if it is text. Raises EvaluationError."""
    if not isinstance(value, str):
        raise EvaluationError(f"the argument must be text, not {describe_kind(value)}")
    return value


def _to_regex(pattern: Any) -> Regex:
    return pattern if isinstance(pattern, Regex) else compile_data_regex(require_text(pattern))


def _require_integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise EvaluationError(f"the argument must be an integer, not {describe_kind(value)}")
    return value


def concat(dialect: Dialect, value: str, other: Any) -> str:
    added = dialect.text(other)
    check_text_length(len(value) + len(added))
    return value + added


def contains(_: Dialect, value: str, part: Any) -> bool:
    return require_text(part) in value


def starts_with(_: Dialect, value: str, part: Any, start: Any = 0) -> bool:
    return value.startswith(require_text(part), _require_integer(start))


def ends_with(_: Dialect, value: str, part: Any) -> bool:
    return value.endswith(require_text(part))


def equals_ignore_case(_: Dialect, value: str, other: Any) -> bool:
    return isinstance(other, str) and value.lower() == other.lower()


def compare_ignore_case(_: Dialect, value: str, other: Any) -> int:
    left, right = value.lower(), require_text(other).lower()
    return (left > right) - (left < right)


def index_of(_: Dialect, value: str, part: Any, start: Any = 0) -> int:
    return value.find(require_text(part), max(_require_integer(start), 0))


def char_at(dialect: Dialect, value: str, position: Any) -> str:
    at = _require_integer(position)
    if 0 <= at < len(value):
        return value[at]
    if dialect.missing_is_null:
        return ""
    raise EvaluationError(f"index {at} is out of range; the text length is {len(value)}")


def substring(dialect: Dialect, value: str, start: Any, end: Any = None) -> str:
    """Java rejects positions outside of the text; JavaScript clamps and swaps them."""
    first, last = _require_integer(start), len(value) if end is None else _require_integer(end)
    if dialect.missing_is_null:
        first, last = (min(max(at, 0), len(value)) for at in (first, last))
        return value[min(first, last) : max(first, last)]
    if not 0 <= first <= last <= len(value):
        raise EvaluationError(f"{first} to {last} is out of range; the text length is {len(value)}")
    return value[first:last]


def slice_of(_: Dialect, value: str, start: Any, end: Any = None) -> str:
    return value[_require_integer(start) : None if end is None else _require_integer(end)]


def trim(_: Dialect, value: str) -> str:
    return value.strip(_CONTROL_AND_SPACE)


def repeat(_: Dialect, value: str, count: Any) -> str:
    return repeat_text(value, count)


def pad_left(_: Dialect, value: str, size: Any, filler: Any = " ") -> str:
    return _build_padding(value, size, filler) + value


def pad_right(_: Dialect, value: str, size: Any, filler: Any = " ") -> str:
    return value + _build_padding(value, size, filler)


def _build_padding(value: str, size: Any, filler: Any) -> str:
    missing = _require_integer(size) - len(value)
    fill = require_text(filler)
    if missing <= 0 or not fill:
        return ""
    check_text_length(len(value) + missing)
    return (fill * (missing // len(fill) + 1))[:missing]


def is_number(_: Dialect, value: str) -> bool:
    try:
        return len(value) <= 400 and Decimal(value.strip()).is_finite()
    except InvalidOperation:
        return False


def is_integer(_: Dialect, value: str) -> bool:
    return len(value) <= 400 and _INTEGER.fullmatch(value.strip()) is not None


def matches(_: Dialect, value: str, pattern: Any) -> bool:
    return _to_regex(pattern).matches(value)


def match(_: Dialect, value: str, pattern: Any) -> Any:
    """JavaScript's match: the first match with its groups, or null; all matches with the flag ``g``."""
    regex = _to_regex(pattern)
    if regex.replaces_all:
        found = [one[0] for one in regex.find_all(value)]
        check_list_size(len(found))
        return found or None
    first = regex.search(value)
    return None if first is None else [first[0], *first.groups()]


def matcher(value: Any, pattern: Any) -> Match:
    """``value =~ pattern``."""
    return Match(_to_regex(pattern), require_text(value))


def split(dialect: Dialect, value: str, separator: Any, limit: Any = None) -> list[str]:
    """Java splits at a pattern and drops empty text at the end; JavaScript splits at text or a pattern and drops nothing."""
    if dialect.missing_is_null:
        parts = _split_as_script(value, separator)
        limited = parts if limit is None else parts[: max(_require_integer(limit), 0)]
    else:
        limited = _split_as_java(value, _to_regex(separator), 0 if limit is None else _require_integer(limit))
    check_list_size(len(limited))
    return limited


def _split_as_script(value: str, separator: Any) -> list[str]:
    if isinstance(separator, Regex):
        return _split_at(value, separator.find_all(value))
    parts = require_text(separator)
    return value.split(parts) if parts else list(value)


def _split_as_java(value: str, regex: Regex, limit: int) -> list[str]:
    found = [one for one in regex.find_all(value) if one.end() > 0 and one.start() < len(value)]
    parts = _split_at(value, found[: limit - 1] if limit > 0 else found)
    while limit == 0 and len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _split_at(value: str, separators: Iterable[re.Match[str]]) -> list[str]:
    parts: list[str] = []
    at = 0
    for one in separators:
        parts.append(value[at : one.start()])
        at = one.end()
    return [*parts, value[at:]]


def tokenize(_: Dialect, value: str, delimiters: Any = None) -> list[str]:
    """Groovy's tokenize: the parts between any of the characters, without empty ones."""
    chars = " \t\n\r\f" if delimiters is None else require_text(delimiters)
    parts = [part for part in re.split(f"[{re.escape(chars)}]", value) if part] if chars else [value]
    check_list_size(len(parts))
    return parts


def replace(dialect: Dialect, value: str, old: Any, new: Any) -> str:
    """Replaces all occurrences in Java, the first in JavaScript unless the pattern has the flag ``g``."""
    if isinstance(old, Regex):
        return _replace_matches(value, old, require_text(new), every=old.replaces_all or not dialect.missing_is_null)
    part, other = require_text(old), require_text(new)
    count = 1 if dialect.missing_is_null else value.count(part)
    check_text_length(len(value) + count * len(other))
    return value.replace(part, other, count if dialect.missing_is_null else -1)


def replace_all(dialect: Dialect, value: str, old: Any, new: Any) -> str:
    if dialect.missing_is_null and isinstance(old, str):
        other = require_text(new)
        check_text_length(len(value) + value.count(old) * len(other))
        return value.replace(old, other)
    return _replace_matches(value, _to_regex(old), require_text(new), every=True)


def replace_first(_: Dialect, value: str, old: Any, new: Any) -> str:
    return _replace_matches(value, _to_regex(old), require_text(new), every=False)


def _replace_matches(value: str, regex: Regex, replacement: str, *, every: bool) -> str:
    compiled = compile_replacement(replacement, regex.compiled)
    parts: list[str] = []
    at = length = 0
    for found in regex.find_all(value) if every else [one for one in [regex.search(value)] if one is not None]:
        if compiled.error is not None:
            raise EvaluationError(compiled.error)
        new = "".join([part if isinstance(part, str) else found[part] or "" for part in compiled.parts])
        length += len(new) + found.start() - at
        if length > MAX_TEXT_LENGTH:
            check_text_length(length)
        parts += [value[at : found.start()], new]
        at = found.end()
    check_text_length(length + len(value) - at)
    return "".join([*parts, value[at:]])
