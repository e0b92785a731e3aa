"""Sluice and Apache Kafka Connect 4.3.1 on the same topics and in the same group, each in either part.

About 110 s on a quiet machine of two cores. What takes longer is run by hand: every other order of makes in the scenarios.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.worker_process import SLUICE
from tests.interop.apache_worker import APACHE
from tests.interop.internal_topics import replay
from tests.interop.recording import SCENARIOS
from tests.interop.scenarios import mixed_group, take_over

pytestmark = pytest.mark.timeout(600)
_AT_ONCE = 3
"""Most of a replay is waiting."""


def test_internal_topics_hold_what_apaches_hold(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = dict(zip(SCENARIOS, pool.map(partial(_differences, broker, tmp_path), SCENARIOS), strict=True))
    assert found == {scenario: [] for scenario in SCENARIOS}


def _differences(broker: EmbeddedBroker, home: Path, scenario: str) -> list[str]:
    return replay(broker, home / scenario, SLUICE, scenario)


def test_a_cluster_carries_on_from_apaches_and_gives_back(broker: EmbeddedBroker, tmp_path: Path) -> None:
    take_over(broker, tmp_path, APACHE, SLUICE)


def test_one_group_of_both_leads_and_writes_exactly_once(broker: EmbeddedBroker, tmp_path: Path) -> None:
    mixed_group(broker, tmp_path, APACHE, SLUICE, exactly_once=True)
