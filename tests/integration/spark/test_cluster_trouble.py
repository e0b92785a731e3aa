"""A cluster without a master."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError
from connectors.spark import session
from sluice.embedded.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_master_that_is_down_at_the_start_fails_the_task_with_its_address(
    spark_props: dict[str, str], tmp_path: Path, run: Any, topic: Any
) -> None:
    session.stop()
    down = free_ports(1)[0]
    props = {"name": "lake", "connector.class": "SparkSink", "topics": "t", "table.location": str(tmp_path / "lake")}
    props |= {"spark.jars": spark_props["spark.jars"], "spark.master": f"spark://127.0.0.1:{down}"}
    with pytest.raises(
        ConnectError, match=rf"No Spark master answers at 127\.0\.0\.1:{down}.*: start it, or correct spark\.master"
    ):
        run(props, [topic("t", schemas=False)], raw=True, group={})
    session.stop()
