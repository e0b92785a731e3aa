"""How the components of a distributed worker are built, started, and closed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.waiting import WAIT_S
from tests.unit.worker.distributed.fakes import PROPS
from worker.config.worker_config import WorkerConfig
from worker.distributed import bootstrap
from worker.storage.config_state import ConfigState, apply
from worker.storage.record_codec import ConnectorRecord


def test_producers_are_fenced_on_the_cluster_of_the_connectors_admin_client(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "secrets").write_text("servers=other:9\n")
    fenced: list[tuple[str, tuple[str, ...]]] = []

    def fence(client: Mapping[str, str], ids: Collection[str], timeout_s: float) -> None:
        fenced.append((client["bootstrap.servers"], tuple(ids)))

    monkeypatch.setattr(bootstrap, "fence_producers", fence)
    providers = {"config.providers": "file", "config.providers.file.class": "FileConfigProvider", "task.executors": "0"}
    config = WorkerConfig.for_cluster({**PROPS, **providers})
    parts = bootstrap.assemble(
        config,
        worker_id="here:1",
        url="http://here:1/",
        leader_client=cast(Any, None),
        on_fatal=lambda error: pytest.fail(error.message),
    )
    state = ConfigState()
    own = {"admin.override.bootstrap.servers": f"${{file:{tmp_path}/secrets:servers}}"}
    for record in (ConnectorRecord("a", {"name": "a", **own}), ConnectorRecord("b", {"name": "b"})):
        state = apply(state, record, state.offset + 1).state
    monkeypatch.setattr(parts.config_sync.store, "snapshot", lambda: state)
    for name in ("a", "b"):
        parts.leader._fence_producers(name, [f"g-{name}-0"])
    assert fenced == [("other:9", ("g-a-0",)), ("localhost:1", ("g-b-0",))]


def test_store_that_does_not_close_blocks_neither_the_worker_nor_the_other_stores(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bootstrap, "_CLOSE_STORES_S", 0.2)
    parts = bootstrap.assemble(
        WorkerConfig.for_cluster({**PROPS, "task.executors": "0"}),
        worker_id="here:1",
        url="http://here:1/",
        leader_client=cast(Any, None),
        on_fatal=lambda error: pytest.fail(error.message),
    )
    hold, closed = threading.Event(), threading.Event()
    monkeypatch.setattr(parts.config_sync.store, "close", hold.wait)
    monkeypatch.setattr(parts.status_store, "close", closed.set)
    try:
        parts.close(0.1)
    finally:
        hold.set()
    assert closed.wait(WAIT_S)
    assert "The worker shuts down without closing the config topic, which did not close within 0.2 s" in caplog.text
