from __future__ import annotations

import pytest

from connect.data import Headers
from connect.errors import ConfigError
from connect.record import SourceRecord
from connect.transforms.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches


def test_topic_name_matches_requires_a_full_match() -> None:
    predicate = TopicNameMatches()
    predicate.configure({"pattern": r"orders-\d+"})
    topics = ("orders-1", "my-orders-1", "orders-1x", "orders-1")
    assert [predicate.test(SourceRecord({}, {}, topic)) for topic in topics] == [True, False, False, True]


def test_has_header_key_finds_header_by_name() -> None:
    predicate = HasHeaderKey()
    predicate.configure({"name": "h"})
    record = SourceRecord({}, {}, "t")
    assert not predicate.test(record)
    record.headers = Headers().add("x", 1).add("h", None)
    assert predicate.test(record)


def test_record_is_tombstone_if_its_value_is_null() -> None:
    predicate = RecordIsTombstone()
    predicate.configure({})
    assert predicate.test(SourceRecord({}, {}, "t"))
    assert not predicate.test(SourceRecord({}, {}, "t", value=0))


@pytest.mark.parametrize("pattern", ["", "(", "a{,3}", "(?P<n>a)"])
def test_pattern_that_java_rejects_is_rejected(pattern: str) -> None:
    with pytest.raises(ConfigError, match="for configuration pattern"):
        TopicNameMatches().configure({"pattern": pattern})
