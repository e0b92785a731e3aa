from __future__ import annotations

import pytest

from connect.data import Headers
from connect.errors import ConfigError
from connect.record import SourceRecord
from connect.transforms.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches


def test_the_whole_topic_name_must_match() -> None:
    predicate = TopicNameMatches()
    predicate.configure({"pattern": r"orders-\d+"})
    topics = ("orders-1", "my-orders-1", "orders-1x", "orders-1")
    assert [predicate.test(SourceRecord({}, {}, topic)) for topic in topics] == [True, False, False, True]


def test_a_header_is_found_by_name() -> None:
    predicate = HasHeaderKey()
    predicate.configure({"name": "h"})
    record = SourceRecord({}, {}, "t")
    assert not predicate.test(record)
    record.headers = Headers().add("x", 1).add("h", None)
    assert predicate.test(record)


def test_a_tombstone_has_no_value() -> None:
    predicate = RecordIsTombstone()
    predicate.configure({})
    assert predicate.test(SourceRecord({}, {}, "t"))
    assert not predicate.test(SourceRecord({}, {}, "t", value=0))


@pytest.mark.parametrize("pattern", ["", "(", "a{,3}", "(?P<n>a)"])
def test_a_pattern_that_java_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="for configuration pattern"):
        TopicNameMatches().configure({"pattern": pattern})
