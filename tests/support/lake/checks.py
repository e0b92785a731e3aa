"""What is compared after every step: each new version with the model, and what each task believes with what is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa

from connect.record import TopicPartition
from connectors.spark.config_keys import CURRENT
from tests.support.lake.lakes import Belief, Lake, MissingFile, Version, deleted_rows
from tests.support.lake.model import ORDERED, ORDERED_SOFTLY, Event, Row, Topic, apply_event, position_of, remembered, visible


class Finding(AssertionError):
    """The table or a task's belief is wrong."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a version must contain: the rows, and up to where each partition's records are in them."""

    rows: tuple[Row, ...] = ()
    ends: tuple[tuple[TopicPartition, int], ...] = ()


class TableChecks:
    """Knows the right contents of every version of one table."""

    def __init__(self, lake: Lake, topic: Topic) -> None:
        self._lake = lake
        self._topic = topic
        self._contents: dict[int, Contents] = {}
        self._seen = 0

    def ends(self, version: Version) -> dict[TopicPartition, int]:
        """Up to where the version has the records, whatever it says itself."""
        return dict(self._contents[version.id].ends)

    def check(self) -> None:
        """Compares the versions that are new. Raises Finding."""
        while self._seen < len(self._lake.versions):
            version = self._lake.versions[self._seen]
            self._seen += 1
            self._contents[version.id] = self._expected(version)
            self._compare(version)
        missing = self._lake.needed(self._lake.newest) - self._lake.store.objects.keys()
        if missing:
            raise Finding(f"{_name(self._lake.newest)} needs {', '.join(sorted(missing))}, which does not exist")

    def _expected(self, version: Version) -> Contents:
        before = Contents() if version.parent is None else self._contents[version.parent]
        if version.restored is not None:
            restored = self._contents[version.restored]
            if not self._lake.restores_memory:
                restored = replace(restored, rows=(*visible(restored.rows), *remembered(before.rows)))
            return restored
        if version.effect is not None:
            return Contents(tuple(version.effect(before.rows)), before.ends)
        said = {} if version.parent is None else self._lake.version(version.parent).ends
        ends, rows, events = dict(before.ends), list(before.rows), list[Event]()
        for partition, end in version.ends.items():
            if end < said.get(partition, 0):
                raise Finding(f"{_name(version)} takes the end of {partition} back from {said[partition]} to {end}")
            if end == said.get(partition, 0):
                continue  # it moves nothing: a compaction, or new columns
            events += self._topic.partitions[partition][ends.get(partition, 0) : end]
            ends[partition] = end
        if self._lake.mode in (ORDERED, ORDERED_SOFTLY):
            events.sort(key=position_of)
        for event in events:
            rows = apply_event(self._lake.mode, rows, event)
        return Contents(tuple(rows), tuple(ends.items()))

    def _compare(self, version: Version) -> None:
        if version.problems:
            raise Finding(f"{_name(version)}: {'; '.join(version.problems)}")
        try:
            found = Counter(self._lake.rows(version))
        except MissingFile:
            return  # it was cleaned since; of the newest version, that is found elsewhere
        expected = self._contents[version.id]
        rows = Counter(visible(expected.rows))
        if found == rows:
            return
        truncated = self._truncated_before(version) if version.effect is None else None
        if truncated is not None and found == Counter(truncated.rows):
            # A truncate that keeps rows may be committed before the offsets, as long as it is the next record of the table.
            self._contents[version.id] = truncated
            return
        missing, extra = rows - found, found - rows
        raise Finding(
            f"{_name(version)} (on {version.parent}) has the records up to {_ends(expected)}: "
            f"missing rows {sorted(missing.elements(), key=str)}, wrong or doubled rows {sorted(extra.elements(), key=str)}"
        )

    def _truncated_before(self, version: Version) -> Contents | None:
        before = self._contents[version.id]
        for partition, events in self._topic.partitions.items():
            end = dict(before.ends).get(partition, 0)
            if self._lake.mode in ("soft", "scd2") and end < len(events) and events[end].op == "t":
                return Contents(tuple(apply_event(self._lake.mode, before.rows, events[end])), before.ends)
        return None


def check_belief(lake: Lake, belief: Belief) -> None:
    """Compares what a task believes about a version with the version itself. Raises Finding."""
    if not lake.has_version(belief.version):
        raise Finding(f"it believes in version {belief.version}, which does not exist")
    version = lake.version(belief.version)
    # Once nothing in the table says the ends any more, a new task knows none.
    for partition in {*belief.ends, *version.ends} if belief.ends or not lake.is_moved else ():
        if belief.ends.get(partition, 0) != version.ends.get(partition, 0):
            raise Finding(
                f"it believes in {_name(version)} with the end {belief.ends.get(partition, 0)} of {partition}, "
                f"but that has {version.ends.get(partition, 0)}"
            )
    if belief.files is None:
        return
    believed = {path: deleted_rows(file) for path, file in belief.files.live.by_path.items()}
    if believed != version.deleted:
        raise Finding(f"it believes that {_name(version)} has the files {_short(believed)}, but it has {_short(version.deleted)}")
    if belief.files.has_index:
        _check_index(lake, belief, version)


def _check_index(lake: Lake, belief: Belief, version: Version) -> None:
    assert belief.files is not None
    keys = belief.files.keys
    places: dict[tuple[object, ...], set[tuple[str, int]]] = {}
    try:
        for path, number, row in lake.live_rows(version):
            places.setdefault(tuple(row.get(name) for name in keys), set()).add((path, number))
    except MissingFile:
        return
    # Rows with null in a key, and closed versions, are in no index.
    known = [key for key in places if None not in key and (CURRENT not in keys or key[list(keys).index(CURRENT)])]
    if not known:
        return
    columns = {name: pa.array([key[at] for key in known], type_) for at, (name, type_) in enumerate(keys.items())}
    matches = belief.files.find(pa.table(columns))
    found: dict[tuple[object, ...], set[tuple[str, int]]] = {}
    for at, file, row in zip(matches.keys.tolist(), matches.files.tolist(), matches.rows.tolist(), strict=True):
        found.setdefault(known[at], set()).add((belief.files.live.at(file).path, row))
    for key in known:
        if found.get(key, set()) != places[key]:
            raise Finding(
                f"its index finds the key {key} of {_name(version)} in {sorted(found.get(key, ()))} "
                f"instead of {sorted(places[key])}"
            )


def _name(version: Version) -> str:
    return f"version {version.id} ({version.operation})"


def _ends(contents: Contents) -> str:
    return ", ".join(f"{partition.partition}: {end}" for partition, end in contents.ends) or "none"


def _short(files: dict[str, frozenset[int]]) -> dict[str, list[int]]:
    return {path.rpartition("/")[2][:20]: sorted(rows) for path, rows in sorted(files.items())}
