"""Which rows count as different, while both sides change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect.verification import Key, SourceRows, SourceSnapshot
from sluice.verify.canonical import Form
from sluice.verify.model import DifferenceKind
from sluice.verify.settlement import ABSENT_ROUNDS, Settlement
from sluice.verify.table_rows import FormKey, FormRows, TableReader

PLACEHOLDER = "__unavailable"


@dataclass
class FakeSnapshot:
    rows_by_id: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By key: the value, and the version of the row."""
    writing: frozenset[str] = frozenset()

    def writers(self, table: str) -> frozenset[str]:
        return self.writing

    def rows_of(self, table: str, keys: Sequence[Key]) -> Iterator[SourceRows]:
        wanted = [int(text) for (text,) in keys]
        found = [(key, *self.rows_by_id[key]) for key in wanted if key in self.rows_by_id]
        if found:
            records: Any = [(key, value) for key, value, _ in found]
            yield SourceRows(records, [(str(key),) for key, _, _ in found], [version for _, _, version in found])


class FakeReader:
    """Rows of two columns; the target's are set by the test."""

    columns = ("id", "text")

    def __init__(self) -> None:
        self.plan = SimpleNamespace(key_size=1, sources=[SimpleNamespace(name="t")])
        self.unwritten: set[tuple[str, Key]] = set()
        self.target: list[tuple[int, str | None]] = []

    def expected(self, table: object, batches: Iterator[SourceRows]) -> Iterator[FormRows]:
        for batch in batches:
            columns: Any = list(zip(*batch.records, strict=True))
            yield FormRows(columns, columns, "t", batch.keys, batch.versions)

    def rows_of(self, keys: Sequence[FormKey]) -> Iterator[FormRows]:
        if self.target:
            columns: Any = list(zip(*self.target, strict=True))
            yield FormRows(columns, columns)

    def source_key(self, table: object, key: FormKey) -> Key:
        return (str(key[0]),)

    def kind_of(self, name: str) -> str:
        return "text"


@pytest.fixture
def reader() -> FakeReader:
    return FakeReader()


def settlement_of(reader: FakeReader, *keys: int) -> Settlement:
    start: list[tuple[tuple[Form, ...], None]] = [((key,), None) for key in keys]
    return Settlement(cast(TableReader, reader), start, frozenset((PLACEHOLDER,)))


def play(settlement: Settlement, before: FakeSnapshot, after: FakeSnapshot) -> list[DifferenceKind]:
    settlement.read_before(cast(SourceSnapshot, before))
    settlement.read_target()
    settlement.close_equal()
    return [one.kind for one in settlement.read_after(cast(SourceSnapshot, after)).differences]


def test_a_row_that_differs_and_was_not_written_counts_at_once(reader: FakeReader) -> None:
    settlement, source = settlement_of(reader, 1), FakeSnapshot({1: ("new", "v1")})
    reader.target = [(1, "old")]
    assert play(settlement, source, source) == [DifferenceKind.CHANGED]
    assert not settlement.open


def test_a_row_that_the_target_lacks_counts_at_once(reader: FakeReader) -> None:
    source = FakeSnapshot({1: ("new", "v1")})
    assert play(settlement_of(reader, 1), source, source) == [DifferenceKind.MISSING]


def test_a_row_that_was_written_between_the_snapshots_stays_open(reader: FakeReader) -> None:
    settlement = settlement_of(reader, 1)
    reader.target = [(1, "newest")]
    assert play(settlement, FakeSnapshot({1: ("new", "v1")}), FakeSnapshot({1: ("newest", "v2")})) == []
    assert list(settlement.open) == [(1,)]


def test_a_write_that_restores_the_value_is_a_write(reader: FakeReader) -> None:
    settlement = settlement_of(reader, 1)
    reader.target = [(1, "in between")]
    assert play(settlement, FakeSnapshot({1: ("same", "v1")}), FakeSnapshot({1: ("same", "v3")})) == []
    assert settlement.open


def test_equal_rows_are_settled(reader: FakeReader) -> None:
    settlement, source = settlement_of(reader, 1, 2), FakeSnapshot({1: ("same", "v1")})
    reader.target = [(1, "same")]
    assert play(settlement, source, source) == []
    assert not settlement.open


def test_a_row_that_only_the_target_has_counts_after_several_rounds(reader: FakeReader) -> None:
    settlement, source = settlement_of(reader, 1), FakeSnapshot()
    reader.target = [(1, "deleted")]
    rounds = [play(settlement, source, source) for _ in range(ABSENT_ROUNDS)]
    assert rounds == [[], [], [DifferenceKind.EXTRA]]


def test_a_row_that_is_inserted_and_deleted_again_is_no_difference(reader: FakeReader) -> None:
    settlement, source = settlement_of(reader, 1), FakeSnapshot()
    for _ in range(5):
        reader.target = [(1, "short")]
        assert play(settlement, source, source) == []
        reader.target = [(1, "shorter")]
        assert play(settlement, source, source) == []
    reader.target = []
    assert play(settlement, source, source) == []
    assert not settlement.open


def test_open_transactions_that_have_written_to_the_table_delay_a_difference(reader: FakeReader) -> None:
    settlement = settlement_of(reader, 1)
    reader.target = [(1, "of transaction a")]
    rows = {1: ("old", "v1")}
    assert play(settlement, FakeSnapshot(rows), FakeSnapshot(rows, frozenset(("a", "b")))) == []
    assert play(settlement, FakeSnapshot(rows), FakeSnapshot(rows, frozenset(("a", "c")))) == []
    # The transaction becomes visible.
    assert play(settlement, FakeSnapshot({1: ("of transaction a", "v2")}), FakeSnapshot({1: ("of transaction a", "v2")})) == []
    assert not settlement.open


def test_a_difference_counts_when_all_transactions_from_before_have_ended(reader: FakeReader) -> None:
    settlement = settlement_of(reader, 1)
    reader.target = [(1, "wrong")]
    rows = {1: ("right", "v1")}
    assert play(settlement, FakeSnapshot(rows), FakeSnapshot(rows, frozenset(("a",)))) == []
    assert play(settlement, FakeSnapshot(rows), FakeSnapshot(rows, frozenset(("b",)))) == [DifferenceKind.CHANGED]


def test_several_rows_of_a_key_are_duplicates(reader: FakeReader) -> None:
    source = FakeSnapshot({1: ("same", "v1")})
    reader.target = [(1, "same"), (1, "same")]
    assert play(settlement_of(reader, 1), source, source) == [DifferenceKind.DUPLICATE]


def test_placeholders_of_unavailable_values_are_counted_only(reader: FakeReader) -> None:
    settlement, source = settlement_of(reader, 1), FakeSnapshot({1: ("large", "v1")})
    reader.target = [(1, PLACEHOLDER)]
    settlement.read_before(cast(SourceSnapshot, source))
    settlement.read_target()
    found = settlement.read_after(cast(SourceSnapshot, source))
    assert (found.differences, found.unavailable) == ([], 1)


def test_rows_that_the_pipeline_does_not_write_are_no_differences(reader: FakeReader) -> None:
    settlement, source = settlement_of(reader, 1), FakeSnapshot()
    reader.unwritten.add(("t", ("1",)))
    reader.target = [(1, "from before")]
    assert play(settlement, source, source) == []
    assert not settlement.open


def test_row_that_the_pipeline_does_not_write_excuses_no_row_of_another_table(reader: FakeReader) -> None:
    settlement, source = settlement_of(reader, 1), FakeSnapshot()
    settlement.open[(1,)].source = "t", ("1",)
    reader.unwritten.add(("other", ("1",)))
    reader.target = [(1, "from before")]
    for _ in range(ABSENT_ROUNDS - 1):
        assert play(settlement, source, source) == []
    assert play(settlement, source, source) == [DifferenceKind.EXTRA]


@pytest.mark.parametrize(
    ("actual", "versions", "is_equal"),
    [
        ("b", [(1, "a"), (1, "b"), (1, "c")], True),
        ("x", [(1, "a"), (1, "b")], False),
        (None, [(1, "a"), None, (1, "c")], True),
        (None, [(1, "a"), (1, "c")], False),
        ("first", [(1, "b"), (1, "c")], True),
        ("newest", [(1, "b")], True),
    ],
)
def test_rows_that_change_all_the_time_are_settled_by_their_versions(
    reader: FakeReader, actual: str | None, versions: list[Any], is_equal: bool
) -> None:
    settlement = settlement_of(reader, 1)
    reader.target = [] if actual is None else [(1, actual)]
    settlement.read_before(cast(SourceSnapshot, FakeSnapshot({1: ("first", "v1")})))
    settlement.read_target()
    settlement.read_after(cast(SourceSnapshot, FakeSnapshot({1: ("newest", "v9")})))
    found = settlement.explain({(1,): versions})
    assert bool(found.differences) is not is_equal
    assert not settlement.open


def test_unavailable_values_of_versions_are_those_of_the_version_before(reader: FakeReader) -> None:
    settlement = settlement_of(reader, 1)
    reader.target = [(1, "large")]
    settlement.read_before(cast(SourceSnapshot, FakeSnapshot({1: ("other", "v1")})))
    settlement.read_target()
    settlement.read_after(cast(SourceSnapshot, FakeSnapshot({1: ("newest", "v9")})))
    assert settlement._complete((1, PLACEHOLDER), (1, "large")) == (1, "large")
    assert not settlement.explain({(1,): [(1, "large"), (1, PLACEHOLDER)]}).differences
