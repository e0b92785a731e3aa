"""The connection to Spark's JVM."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from typing import Any

import pytest

from connectors.spark.config import SparkConfig
from connectors.spark.session import attached
from connectors.spark.session.attached import AttachedSpark
from tests.support.waiting import WAIT_S


def test_close_while_the_host_is_being_reached_does_not_wait_for_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host would send nothing until its JVM runs."""
    ours, theirs = socket.socketpair()
    connecting, closing_begins = threading.Event(), threading.Event()

    def connect_host(*_: Any) -> socket.socket:
        connecting.set()
        assert closing_begins.wait(WAIT_S)
        return ours

    monkeypatch.setattr(attached, "connect_host", connect_host)
    monkeypatch.setattr(attached, "plan_launch", lambda _: None)
    monkeypatch.setattr(attached, "rendezvous_for", lambda *_: None)
    scope: Any = None
    with closing(theirs):
        spark = AttachedSpark(SparkConfig("local[1]", "", (), ()), scope)
        assert connecting.wait(WAIT_S)
        closer = threading.Thread(target=spark.close, daemon=True)
        closer.start()
        while not spark.has_failed():  # close() has marked it, and looks for the connection next
            pass
        closer.join(0.2)
        closing_begins.set()
        closer.join(WAIT_S)
        assert not closer.is_alive()
