"""Sluice and Apache Kafka Connect 4.3.1 with the same internal topics and in the same group.

Other orders of the two workers in the scenarios are run by hand.
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
_PARALLEL_REPLAYS = 3
"""A replay mostly waits."""
_DEFAULT_PROTOCOL = "protocol_sessioned"


@pytest.mark.parametrize(
    "scenarios",
    [
        pytest.param([one for one in SCENARIOS if one != _DEFAULT_PROTOCOL], id="all but one"),
        # The other scenarios, whose workers are alone, and the mixed group have the default protocol, too.
        pytest.param([_DEFAULT_PROTOCOL], id=_DEFAULT_PROTOCOL, marks=pytest.mark.long),
    ],
)
@pytest.mark.long
def test_internal_topics_equal_those_of_apache(broker: EmbeddedBroker, tmp_path: Path, scenarios: list[str]) -> None:
    with ThreadPoolExecutor(_PARALLEL_REPLAYS) as pool:
        found = dict(zip(scenarios, pool.map(partial(_differences, broker, tmp_path), scenarios), strict=True))
    assert found == {scenario: [] for scenario in scenarios}


def _differences(broker: EmbeddedBroker, home: Path, scenario: str) -> list[str]:
    return replay(broker, home / scenario, SLUICE, scenario)


def test_cluster_takes_over_from_apache_and_back(broker: EmbeddedBroker, tmp_path: Path) -> None:
    take_over(broker, tmp_path, APACHE, SLUICE)


@pytest.mark.long
def test_mixed_group_writes_exactly_once_with_either_leader(broker: EmbeddedBroker, tmp_path: Path) -> None:
    mixed_group(broker, tmp_path, APACHE, SLUICE, exactly_once=True)
