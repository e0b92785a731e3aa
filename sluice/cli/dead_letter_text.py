"""The text of dead letters, their causes, and checks, as ``sluice dlq`` prints them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

_SHOWN_CHARACTERS = 200


def summary(answer: Mapping[str, Any]) -> str:
    """Returns how many dead letters have each verdict."""
    texts = {
        "passes": "pass",
        "unchecked": "were not checked",
        "unverified": "pass, but failed in the sink or at the broker, which is not checked",
        "dropped": "are dropped by a transformation",
        "fails": "fail again and stay in the queue",
        "withheld": "stay because the transformations of the replay drop them or fail",
        "superseded": "stay because their topic has a newer record of the same key (--include-superseded)",
    }
    counts = [f"{answer['verdicts'][name]} {text}" for name, text in texts.items() if answer["verdicts"].get(name)]
    return "; ".join(counts) or "no dead letters are left"


def check_lines(one: Mapping[str, Any]) -> list[str]:
    """Returns the lines of one checked dead letter: verdict, error, and what the transformations of the replay and of the
    connector change."""
    lines = [f"{one['partition']}:{one['offset']} {one['verdict']}"]
    before, changed, after = (_flat(one.get(stage)) for stage in ("before", "changed", "after"))
    if error := one["error"]:
        where = f" in {error['transform']}" if error["transform"] else f" in {error['stage']}" if "." in error["stage"] else ""
        lines.append(f"    {error['class']}{where}: {error['message']}")
    if one.get("dropped_by"):
        lines.append(f"    dropped by {one['dropped_by']}")
    if changed:
        lines += [f"    replay {line}" for line in _difference(before, changed)]
    given = changed or before
    if one["after"] is None:
        return lines + [
            f"      {path} = {short_text(value)}" for path, value in given.items() if path.startswith(("key", "value"))
        ]
    return lines + [f"    {line}" for line in _difference(given, after)]


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    lines = []
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            mark = "+" if path not in before else "-" if path not in after else "~"
            sides = [short_text(side[path]) for side in (before, after) if path in side]
            lines.append(f"{mark} {path} = {' -> '.join(str(side) for side in sides)}")
    return lines


def _flat(node: Any, path: str = "") -> dict[str, str]:
    """Returns the leaves of a record's JSON by path, without schemas."""
    if isinstance(node, Mapping):
        found: dict[str, str] = {}
        for name, member in node.items():
            if name == "schema":
                continue
            below = path if name == "payload" else f"{path}.{name}" if path else str(name)
            found |= _flat(member, below)
        return found
    return {} if node is None and not path else {path: json.dumps(node, ensure_ascii=False)}


def letter_lines(letter: Mapping[str, Any]) -> list[str]:
    """Returns the lines of one dead letter."""
    context = letter["context"]
    head = f"{letter['partition']}:{letter['offset']}  {time_text(letter['timestamp_ms']) or '-'}  cause {letter['cause']}"
    lines = [head + ("  (replayed)" if letter["replayed"] else "")]
    if context["topic"] is not None:
        lines.append(f"    from    {context['topic']}-{context['partition']} at {context['offset']}, task {context['task']}")
    if context["stage"] is not None:
        lines.append(f"    failed  {context['stage']} in {context['class']}")
        lines.append(f"    error   {context['exception_class']}: {context['message']}")
    lines += [f"    {part:<7} {_shown(letter[part])}" for part in ("key", "value")]
    lines += [f"    header  {header['key']} = {_shown(header['value'])}" for header in letter["headers"]]
    if trace := context.get("trace"):
        lines += [f"        {line}" for line in trace.rstrip().splitlines()]
    return lines


def _shown(part: Mapping[str, Any] | None) -> str:
    if part is None:
        return "null"
    if "decoded" in part:
        return short_text(json.dumps(part["decoded"], ensure_ascii=False)) or ""
    return short_text(part.get("text") if "text" in part else part.get("hex")) or ""


def short_text(text: Any) -> str | None:
    """Returns a text on one line, without control characters, truncated."""
    if text is None:
        return None
    line = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in str(text))
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 1]}…"


def plugin_text(cause: Mapping[str, Any]) -> str | None:
    """Returns the plugin of a cause: the alias of a transformation, and its class without package."""
    name = cause["class"]
    simple = None if name is None else str(name).rpartition(".")[2]
    return f"{cause['transform']} ({simple})" if cause["transform"] else simple


def time_text(at_ms: int | None) -> str | None:
    """Returns a timestamp in UTC; None if it is unknown."""
    if at_ms is None or at_ms < 0:
        return None
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
