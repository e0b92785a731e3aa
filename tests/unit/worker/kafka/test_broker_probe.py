"""The check of a standalone worker's readiness."""

from __future__ import annotations

from sluice.embedded.ports import free_ports
from worker.kafka.broker_probe import BrokerProbe


def test_broker_that_does_not_answer_is_reported_with_its_address() -> None:
    (port,) = free_ports(1)
    probe = BrokerProbe([f"127.0.0.1:{port}"], {})
    check = probe.check()
    assert not check.passes
    assert f"no Kafka broker answers at 127.0.0.1:{port}" in check.message
    assert probe.check() is check  # asked once
    probe.close()


def test_invalid_settings_are_reported() -> None:
    probe = BrokerProbe(["127.0.0.1:1"], {"security.protocol": "invalid"})
    check = probe.check()
    probe.close()
    assert not check.passes
    assert "security.protocol" in check.message
