"""Checksums of buckets differ exactly where rows differ, in any order of the rows."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sluice.verify.canonical import Form
from sluice.verify.row_hashes import BucketSums, Hashes, bucket_count, combine, hash_forms

Rows = list[tuple[int, Form]]
values = st.one_of(st.none(), st.text(max_size=5), st.integers(-(1 << 70), 1 << 70))
tables = st.dictionaries(st.integers(-50, 50), values, max_size=40)


def hash_rows(columns: Sequence[Sequence[Form]]) -> Hashes:
    return combine([hash_forms(column) for column in columns])


def sums_of(rows: Sequence[tuple[int, Form]], size: int = 7) -> BucketSums:
    sums = BucketSums(1024)
    for start in range(0, len(rows), size):
        columns = list(zip(*rows[start : start + size], strict=True))
        sums.add(hash_rows(columns[:1]), hash_rows(columns))
    return sums


@given(tables, st.randoms())
def test_order_and_batches_do_not_matter(table: dict[int, Form], random: object) -> None:
    rows = list(table.items())
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert not sums_of(rows).differing(sums_of(shuffled, 3)).any()


@given(tables, tables)
def test_buckets_that_differ_have_all_rows_that_differ(one: dict[int, Form], other: dict[int, Form]) -> None:
    left, right = sums_of(list(one.items())), sums_of(list(other.items()))
    differing = left.differing(right)
    for key in one.keys() | other.keys():
        if (key in one, one.get(key)) != (key in other, other.get(key)):
            assert differing[left.places(hash_rows([[key]]))[0]]


def test_values_with_equal_hashes_in_python_have_different_hashes() -> None:
    hashes = hash_rows([[-1, -2, 1, 2**61, "1", None, ""]])
    assert len(set(hashes.tolist())) == 7


def test_duplicates_differ_from_single_rows() -> None:
    assert sums_of([(1, "a"), (1, "a")]).differing(sums_of([(1, "a")])).sum() == 1


def test_number_of_buckets_is_bounded() -> None:
    assert bucket_count(0) == 1 << 10
    assert bucket_count(10**9) == 1 << 20
    assert bucket_count(10**6).bit_count() == 1
