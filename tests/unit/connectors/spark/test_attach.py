"""Attaching to a Spark whose application ends in this moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from connect.errors import ConnectError
from connectors.spark.session import attach as attaching
from connectors.spark.session.attach import attach


def gateway_of(session: Any) -> Any:
    def fail(_: Any) -> None:
        raise RuntimeError("SparkEnv is null")

    found = SimpleNamespace(isEmpty=lambda: session is None, get=lambda: session)
    classic = SimpleNamespace(SparkSession=SimpleNamespace(getDefaultSession=lambda: found))
    spark = SimpleNamespace(sql=SimpleNamespace(classic=classic))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=spark)), JavaSparkContext=fail)
    return SimpleNamespace(jvm=jvm)


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("state", ["none", "stopped", "running"])
def test_failure_of_an_application_that_has_ended_says_so(monkeypatch: pytest.MonkeyPatch, state: str, is_local: bool) -> None:
    context = SimpleNamespace(isStopped=lambda: state == "stopped")
    session = None if state == "none" else SimpleNamespace(sparkContext=lambda: context)
    monkeypatch.setattr(attaching, "connect_gateway", lambda port, token: gateway_of(session))
    monkeypatch.setattr(attaching, "detach", lambda gateway: None)
    expected = RuntimeError if state == "running" else ConnectionError if is_local else ConnectError
    with pytest.raises(expected) as raised:
        attach(1, "token", is_local=is_local)
    words = "SparkEnv" if state == "running" else "is ending" if is_local else "the cluster has ended the worker's application"
    assert words in str(raised.value)
