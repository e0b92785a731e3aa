"""What has nothing to do costs little: long waits for quiet topics, and clients without what nobody asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from worker.kafka import clients
from worker.kafka.settings import ClientKind
from worker.sink.loop import wait_slice_s


@pytest.mark.parametrize(("quiet_s", "slice_s"), [(0.0, 0.25), (5.0, 0.25), (10.0, 0.5), (20.0, 1.0), (86_400.0, 1.0)])
def test_a_sink_waits_longer_the_longer_its_topics_are_quiet(quiet_s: float, slice_s: float) -> None:
    assert wait_slice_s(quiet_s) == pytest.approx(slice_s)


@pytest.mark.parametrize(("given", "used"), [({}, "false"), ({"enable.metrics.push": "true"}, "true")])
def test_clients_push_metrics_only_if_asked_to(given: Mapping[str, str], used: str) -> None:
    def client(settings: dict[str, Any]) -> dict[str, Any]:
        return settings

    for kind in ClientKind:
        assert clients._made(client, kind, {"bootstrap.servers": "nowhere:1", **given}, {})["enable.metrics.push"] == used
