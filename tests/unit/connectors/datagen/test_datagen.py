"""The data generator: reproducible records, rate, and count."""

from __future__ import annotations

from typing import Any

import pytest

from connect import Schema
from connect.errors import ConfigError, ConnectError
from connect.testing import ManualClock, SourceHarness, check_source_connector
from connectors.datagen import DatagenSource, DatagenSourceTask

FAST = {"kafka.topic": "t", "quickstart": "users", "rate": "0"}


def generated(count: int, **config: str) -> list[Any]:
    with SourceHarness(DatagenSourceTask(), {**FAST, **config}) as harness:
        return [(r.key, r.value.values) for r in harness.poll_records(count)[:count]]


@pytest.mark.parametrize("quickstart", ["users", "orders", "clickstream", "pizza_orders"])
def test_quickstarts_pass_the_source_conformance_checks(quickstart: str) -> None:
    check_source_connector(DatagenSource, {**FAST, "quickstart": quickstart, "seed": "5"}, records=1500)


def test_only_equal_seeds_generate_equal_records() -> None:
    assert generated(50, seed="1") == generated(50, **{"random.seed": "1"})
    assert generated(50, seed="1") != generated(50, seed="2")


def test_the_key_is_the_quickstarts_or_the_chosen_field_or_none() -> None:
    with SourceHarness(DatagenSourceTask(), FAST) as harness:
        record = harness.poll()[0]
    assert record.key == record.value["userid"]
    assert record.key_schema == Schema.STRING
    assert record.source_partition == {"task.id": 0}
    assert record.source_offset == {"task.generation": 0, "current.iteration": 1, "random.seed": 0}
    assert [h.key for h in record.headers or ()] == ["task.generation", "task.id", "current.iteration"]
    assert generated(1, **{"schema.keyfield": "gender"})[0][0] in ("MALE", "FEMALE", "OTHER")
    assert generated(1, **{"schema.keyfield": ""})[0][0] is None


def test_counts_are_kept_over_tasks_and_restarts() -> None:
    connector = DatagenSource()
    connector.start({**FAST, "count": "10"})
    harnesses = [SourceHarness(DatagenSourceTask(), config).start() for config in connector.task_configs(3)]
    assert [len(harness.poll()) for harness in harnesses] == [4, 3, 3]
    for harness in harnesses:
        harness.commit()
        harness.stop()
        again = SourceHarness(harness.task, harness._config, harness.offsets)
        again.start()
        harness.task.stop()
        assert again.poll() == []


def test_records_are_generated_at_the_configured_rate() -> None:
    clock = ManualClock()
    with SourceHarness(DatagenSourceTask(clock.monotonic), {**FAST, "rate": "1000"}) as harness:
        clock.advance(0.5)
        assert len(harness.poll()) == 500
        clock.advance(0.01)
        assert len(harness.poll()) == 10


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"kafka.topic": ""}, "non-empty"),
        ({"schema.keyfield": "nope"}, "registertime, userid"),
        ({"rate": "-1"}, "at least 0"),
        ({"iterations": "x"}, "Not a number"),
    ],
)
def test_invalid_settings_are_rejected(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DatagenSource().start({**FAST, **config})


def test_offsets_must_be_counts() -> None:
    connector = DatagenSource()
    assert connector.alter_offsets(FAST, {(("task.id", 0),): {"current.iteration": 5}, (("task.id", 1),): None})
    with pytest.raises(ConnectError, match=r"current\.iteration"):
        connector.alter_offsets(FAST, {(("task.id", 0),): {"current.iteration": "5"}})
