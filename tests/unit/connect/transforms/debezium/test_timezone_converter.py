from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from connect.data.logical import FarInstant, date_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.errors import ConfigError, DataError
from connect.record import SourceRecord
from connect.transforms.debezium.timezone_converter import TimezoneConverter
from connectors.cdc.schema import envelope
from connectors.postgres.schema.source_block import SOURCE

from .change_events import event, row, source_block, tombstone

_TIME = "io.debezium.time."


def _time(name: str, type: Type) -> Schema:
    return Schema(type, optional=True, name=f"{_TIME}{name}", version=1)


FIELDS = [
    ("id", Schema.INT32),
    ("micros", _time("MicroTimestamp", Type.INT64)),
    ("nanos", _time("NanoTimestamp", Type.INT64)),
    ("millis", _time("Timestamp", Type.INT64)),
    ("zoned", _time("ZonedTimestamp", Type.STRING)),
    ("zoned_time", _time("ZonedTime", Type.STRING)),
    ("connect", timestamp_schema(optional=True)),
    ("day", date_schema(optional=True)),
    ("clock", _time("MicroTime", Type.INT64)),
]
ORDERS = envelope.row_schemas("db.orders", SOURCE, FIELDS, [("id", Schema.INT32)])
NOW = dt.datetime(2024, 1, 15, tzinfo=dt.UTC)


def _order(**values: Any) -> Any:
    members = {name: None for name, _ in FIELDS} | {"id": 1} | values
    return row(*members.values(), schema=ORDERS.value)


def _event(table: str = "orders", topic: str = "db.server1.table1", **values: Any) -> SourceRecord:
    return event("u", _order(**values), _order(**values), schemas=ORDERS, topic=topic, source=source_block(table))


def _converted(zone: str, record: SourceRecord, **config: str) -> Any:
    made = TimezoneConverter(now=lambda: NOW)
    made.configure({"converted.timezone": zone, **{name.replace("_", "."): value for name, value in config.items()}})
    return made.apply(record)


def _after(zone: str, **values: Any) -> dict[str, Any]:
    after: dict[str, Any] = _converted(zone, _event(**values)).value.get("after").as_dict()
    return after


def test_each_type_is_converted_by_an_offset() -> None:
    after = _after(
        "+05:30",
        micros=1_529_507_596_945_104,
        nanos=1_531_481_025_340_000_104,
        millis=1_514_908_810_123,
        zoned="2018-01-02T11:15:30.123456789+00:00",
        zoned_time="11:15:30.123456789+00:00",
        connect=dt.datetime(2018, 3, 27, 2, tzinfo=dt.UTC),
    )
    assert after["micros"] == 1_529_487_796_945_104
    assert after["nanos"] == 1_531_461_225_340_000_104
    assert after["millis"] == 1_514_889_010_123
    assert after["zoned"] == "2018-01-02T16:45:30.123456789+05:30"
    assert after["zoned_time"] == "16:45:30.123456789+05:30"
    assert after["connect"] == dt.datetime(2018, 3, 26, 20, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        ("Pacific/Easter", "2011-01-11T16:40:30.123456789+00:00", "2011-01-11T11:40:30.123456789-05:00"),
        ("Atlantic/Azores", "2020-05-01T11:55:30+00:00", "2020-05-01T11:55:30Z"),
        ("Europe/Berlin", "2024-07-01T00:00Z", "2024-07-01T02:00:00+02:00"),
        ("+00:00", "2024-12-31T23:59:59.120-01:00", "2025-01-01T00:59:59.12Z"),
        ("+01:00", "9999-12-31T23:30:00Z", "+10000-01-01T00:30:00+01:00"),
        ("+01:00", "+294247-01-10T04:00:54.775807Z", "+294247-01-10T05:00:54.775807+01:00"),
        ("-01:00", "-0001-01-01T00:30:00Z", "-0002-12-31T23:30:00-01:00"),
        ("+00:00:30", "2024-01-01T00:00:00Z", "2024-01-01T00:00:30+00:00:30"),
    ],
)
def test_text_with_an_offset_keeps_its_instant(zone: str, text: str, expected: str) -> None:
    assert _after(zone, zoned=text)["zoned"] == expected


def test_time_of_day_gets_the_current_offset() -> None:
    assert _after("Europe/Berlin", zoned_time="23:30:00Z")["zoned_time"] == "00:30:00+01:00"


def test_local_times_are_converted_by_the_rules_of_the_region() -> None:
    winter, summer = 1_704_067_200_000, 1_719_792_000_000
    assert _after("Europe/Berlin", millis=winter)["millis"] == winter - 3_600_000
    assert _after("Europe/Berlin", millis=summer)["millis"] == summer - 7_200_000
    assert _after("Europe/Berlin", micros=-1)["micros"] == -3_600_000_001
    assert _after("Africa/Cairo", connect=FarInstant(1 << 55))["connect"] == FarInstant((1 << 55) - 7_200_000)


def test_ambiguous_local_time_uses_the_earlier_offset_or_is_rejected_if_strict() -> None:
    never = int(dt.datetime(2024, 3, 31, 2, 30, tzinfo=dt.UTC).timestamp()) * 1000
    assert _after("Europe/Berlin", millis=never)["millis"] == never - 3_600_000
    twice = int(dt.datetime(2024, 10, 27, 2, 30, tzinfo=dt.UTC).timestamp()) * 1000
    assert _after("Europe/Berlin", millis=twice)["millis"] == twice - 7_200_000
    with pytest.raises(DataError, match=r"The field millis cannot be converted: .* occurs never or twice in Europe/Berlin"):
        _converted("Europe/Berlin", _event(millis=twice), conversion_strict="true")


def test_dates_and_times_of_day_are_not_converted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    after = _after("+05:30", day=dt.date(2024, 1, 1), clock=5)
    assert (after["day"], after["clock"]) == (dt.date(2024, 1, 1), 5)
    assert "io.debezium.time.MicroTime has no time zone" in caplog.text


def test_original_record_is_not_changed() -> None:
    record = _event(millis=5)
    result = _converted("+01:00", record)
    assert result.value_schema is record.value_schema
    assert record.value.get("after").get("millis") == 5


@pytest.mark.parametrize(
    ("rules", "changed"),
    [
        ({"include_list": "source:orders"}, {"before.millis", "before.micros", "after.millis", "after.micros"}),
        ({"include_list": "source:orders:millis"}, {"before.millis", "after.millis"}),
        ({"include_list": "source:orders:after.millis, orders:micros"}, {"after.millis", "before.micros", "after.micros"}),
        ({"include_list": "topic:db.server1.table1:millis"}, {"before.millis", "after.millis"}),
        ({"include_list": "db.server1.table1:before.millis"}, {"before.millis"}),
        ({"include_list": "orders:millis"}, {"before.millis", "after.millis"}),
        ({"include_list": "source:customers"}, set()),
        ({"include_list": "source:orders:source.ts_ms"}, {"source.ts_ms"}),
        ({"exclude_list": "source:orders:millis"}, {"before.micros", "after.micros"}),
        ({"exclude_list": "source:orders"}, set()),
        ({"exclude_list": "topic:other"}, {"before.millis", "before.micros", "after.millis", "after.micros"}),
        ({"exclude_list": "orders:before.millis"}, {"before.micros", "after.millis", "after.micros"}),
    ],
)
def test_rules_select_topics_tables_and_fields(rules: dict[str, str], changed: set[str]) -> None:
    record = _event(millis=5, micros=5)
    result = _converted("+01:00", record, **rules)
    found = {
        f"{block}.{name}"
        for block in ("before", "after", "source")
        for name, value in result.value.get(block).as_dict().items()
        if value != record.value.get(block).get(name)
    }
    assert found == changed


def test_epochs_of_the_source_block_become_local_times() -> None:
    result = _converted("+01:00", _event(), include_list="source:orders:source.ts_ms")
    assert result.value.get("source").get("ts_ms") == 1_000 + 3_600_000


def test_other_records_pass() -> None:
    for record in (tombstone(), SourceRecord({}, {}, "t", value={"a": 1})):
        assert _converted("+01:00", record) is record


@pytest.mark.parametrize("text", ["x", "2018-13-02T11:15:30Z", "2018-01-02T25:15:30Z", "2018-01-02T11:15:30"])
def test_text_that_is_not_a_timestamp_names_the_field(text: str) -> None:
    with pytest.raises(DataError, match="The field zoned cannot be converted"):
        _after("+01:00", zoned=text)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, "converted.timezone"),
        ({"converted.timezone": "Mars/Olympus"}, "America/Los_Angeles"),
        ({"converted.timezone": "+19:00"}, "at most 18:00"),
        ({"converted.timezone": "+1"}, "+08:00"),
        ({"converted.timezone": "UTC", "include.list": "source:a", "exclude.list": "source:b"}, "only one"),
        ({"converted.timezone": "UTC", "include.list": "a"}, "source:<table>:<field>"),
        ({"converted.timezone": "UTC", "include.list": "a:b:c"}, "a is neither source nor topic"),
        ({"converted.timezone": "UTC", "exclude.list": "source::b"}, "topic:<topic>:<field>"),
    ],
)
def test_invalid_config_is_rejected_at_start(config: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TimezoneConverter().configure(config)
    assert named in caught.value.message
