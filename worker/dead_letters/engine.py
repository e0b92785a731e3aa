"""Answers requests about the dead letters of one connector, as plain data.

Answering runs plugin code (converters, transformations), so it belongs into an executor or a command, never into the control
process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from connect.errors import BadRequestError
from worker.dead_letters.causes import CauseGroups, cause_of
from worker.dead_letters.checks import LetterChecks, letter_json, make_checks
from worker.dead_letters.letters import DeadLetter, LetterSelection
from worker.dead_letters.reader import LetterReader, LetterSource, Positions
from worker.dead_letters.replay import replay
from worker.dead_letters.requests import ReplayRequest, parse_flag, parse_number, parse_selection
from worker.progress_reports import OnProgress, ignore_progress


def answer(
    source: LetterSource, request: Mapping[str, Any], *, timeout_s: float | None = None, on_progress: OnProgress = ignore_progress
) -> dict[str, Any]:
    """Answers a request: its ``action`` is ``list``, ``causes``, or ``replay``.

    Blocks up to about ``timeout_s``; an answer that is not ``complete`` has what was read until then. Raises BadRequestError,
    IllegalStateError for a connector without a dead letter queue, NotFoundError for a queue that does not exist yet, and other
    errors of Kafka.
    """
    reader = LetterReader(source, timeout_s, on_progress)
    match request.get("action"):
        case "list":
            limit, with_trace = parse_number(request, "limit", 20), parse_flag(request, "with_trace", False)
            return _list(reader, parse_selection(request.get("selection")), limit, with_trace=with_trace)
        case "causes":
            return _causes(reader, parse_selection(request.get("selection")))
        case "replay":
            return replay(reader, ReplayRequest.parse(request))
        case other:
            raise BadRequestError(f"Unknown request about dead letters: {other}")


def _list(reader: LetterReader, selection: LetterSelection, limit: int, *, with_trace: bool) -> dict[str, Any]:
    """Returns the newest selected dead letters in the order of the queue, and the size of the queue."""
    source, ranges = reader.source, reader.ranges()
    positions = reader.positions(ranges)
    found: list[DeadLetter] = []
    is_complete = True
    for number, (low, high) in ranges.items():
        newest, is_read = _read_newest(reader, number, low, high, selection, positions, limit)
        found += newest
        is_complete = is_complete and is_read
    if len(ranges) > 1:
        found.sort(key=lambda one: (one.stored.timestamp_ms or 0, one.stored.partition, one.stored.offset))
    found = found[max(0, len(found) - limit) :]
    checks = make_checks(source.config, source.worker, source.plugins, source.mask) if found else None
    try:
        shown = [
            letter_json(
                one,
                cause_of(one, source.config).id,
                replayed=_is_replayed(one, positions),
                decoded=checks.decode(one) if isinstance(checks, LetterChecks) else {},
                with_trace=with_trace,
            )
            for one in found
        ]
    finally:
        if isinstance(checks, LetterChecks):
            checks.close()
    return {
        "connector": source.connector,
        "topic": reader.topic,
        "records": sum(high - low for low, high in ranges.values()),
        "left": sum(high - low - _count_replayed(positions, number, low, high) for number, (low, high) in ranges.items()),
        "newest_ms": max((one.stored.timestamp_ms or 0 for one in found), default=None),
        "complete": is_complete,
        "letters": shown,
    }


def _read_newest(
    reader: LetterReader, partition: int, low: int, high: int, selection: LetterSelection, positions: Positions, limit: int
) -> tuple[list[DeadLetter], bool]:
    """Returns the newest selected dead letters of a partition, and whether there was time to find them: reads backward in growing
    steps."""
    found: list[DeadLetter] = []
    end, step = high, max(limit, 1)
    while limit and end > low and len(found) < limit:
        first = max(low, end - step)
        earlier = deque[DeadLetter](maxlen=limit - len(found))
        for chunk in reader.read(partition, first, end, selection, positions):
            earlier += chunk.letters
            if reader.is_over:
                return found or list(earlier), False
        found = [*earlier, *found]
        end, step = first, step * 4
    return found, True


def _is_replayed(letter: DeadLetter, positions: Positions) -> bool:
    position = positions.get(letter.stored.partition)
    return position is not None and letter.stored.offset in position


def _count_replayed(positions: Positions, partition: int, low: int, high: int) -> int:
    position = positions.get(partition)
    return 0 if position is None else position.count(low, high)


def _causes(reader: LetterReader, selection: LetterSelection) -> dict[str, Any]:
    """Returns the causes of the selected dead letters, the most frequent first."""
    groups, count, is_complete = CauseGroups(reader.source.config), 0, True
    ranges = reader.ranges()
    positions = reader.positions(ranges)
    for number, (low, high) in ranges.items():
        for chunk in reader.read(number, low, high, selection, positions):
            groups.add(chunk.letters)
            count += len(chunk.letters)
            if reader.is_over:
                is_complete = False
                break
    return {
        "connector": reader.source.connector,
        "topic": reader.topic,
        "letters": count,
        "complete": is_complete,
        "causes": groups.as_json(),
    }
