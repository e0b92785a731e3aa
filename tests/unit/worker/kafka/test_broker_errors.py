"""What a client's error becomes: who is told what to check."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from connect.errors import ConnectError, UnreachableError
from worker.kafka.clients import BrokerNotices, LastReport, kafka_error

TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for controller: Local: Timed out")
LOGIN = KafkaError(
    KafkaError._AUTHENTICATION,
    "sasl_ssl://b:9093/bootstrap: SASL authentication error: Authentication failed: Invalid username or password "
    "(after 111ms in state AUTH_REQ)",
)
CERTIFICATE = KafkaError(
    KafkaError._SSL,
    "ssl://b:9093/bootstrap: SSL handshake failed: certificate verify failed: broker certificate could not be verified, verify "
    "that ssl.ca.location is correctly configured or root CA certificates are installed (install ca-certificates package) "
    "(after 2ms in state SSL_HANDSHAKE)",
)
ALERT = KafkaError(
    KafkaError._TRANSPORT,
    "ssl://b:9093/bootstrap: Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42 "
    "(after 5ms in state APIVERSION_QUERY)",
)


@pytest.mark.parametrize(
    ("error", "cause", "told"),
    [
        (
            TIMED_OUT,
            LOGIN,
            "x: the broker at b:9093 rejects authentication: SASL authentication error: Authentication failed: Invalid username "
            "or password. Check sasl.mechanism and sasl.jaas.config of this client",
        ),
        (
            TIMED_OUT,
            CERTIFICATE,
            "x: no TLS connection with the broker at b:9093: SSL handshake failed: certificate verify failed: broker certificate "
            "could not be verified. Check ssl.truststore.*",
        ),
        (TIMED_OUT, ALERT, "x: no TLS connection with the broker at b:9093: Receive failed: error:0A000412:SSL routines::"),
        (LOGIN, None, "x: the broker at b:9093 rejects authentication"),
        (
            KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
            LOGIN,  # of earlier: what the broker has answered counts
            "x: not authorized by the broker at b:9093: Group authorization failed. (GROUP_AUTHORIZATION_FAILED). The client's "
            "principal needs READ on the group",
        ),
    ],
)
def test_a_rejection_names_its_cause_and_a_fix(error: KafkaError, cause: KafkaError | None, told: str) -> None:
    found = kafka_error(error, "x", "b:9093", cause)
    assert found.message.startswith(told)
    assert not isinstance(found, UnreachableError)
    assert "ssl.ca.location" not in found.message


def test_an_unavailable_broker_is_not_a_rejection() -> None:
    found: ConnectError = kafka_error(TIMED_OUT, "x", "b:9093", KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    assert isinstance(found, UnreachableError)
    assert found.message == (
        "x: no Kafka broker answers at b:9093 (_TRANSPORT). Check bootstrap.servers and security.protocol, and that the broker "
        "runs"
    )


def test_the_last_report_has_the_reason() -> None:
    report = LastReport()
    report(LOGIN)
    report(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert report.error is LOGIN


class TestNotices:
    """When it is said that no broker answers: a client says so, too, of a name whose first address is not the broker's."""

    AWAY = "one:9092/bootstrap: Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT)"

    def said(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *seconds: float, text: str = AWAY
    ) -> list[float]:
        """The times out of these, at which the client says so, when the log does."""
        notices = BrokerNotices("localhost:9092")
        told = []
        for now in seconds:
            monkeypatch.setattr("worker.kafka.clients.time.monotonic", lambda now=now: now)
            caplog.clear()
            assert notices.failure(KafkaError(KafkaError._TRANSPORT, text)) is None
            if caplog.records:
                told.append(now)
        return told

    def test_a_single_word_is_not_believed(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        assert self.said(monkeypatch, caplog, 100.0, 100.1, 900.0, 900.2) == []

    def test_brokers_that_stay_away_are_told_of_every_half_minute(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert self.said(monkeypatch, caplog, 100.0, 100.5, 101.5, 110.0, 120.0, 130.0, 140.0) == [101.5, 140.0]

    def test_a_report_every_half_minute_is_one_outage(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The client suppresses what it said within 30 seconds."""
        assert self.said(monkeypatch, caplog, 100.0, 130.1, 160.3) == [130.1, 160.3]

    def test_connections_that_end_while_idle_are_no_outage(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        ended = "one:9092/1: Disconnected (after 20000ms in state UP)"
        assert self.said(monkeypatch, caplog, 100.0, 120.0, 140.0, text=ended) == []

    @pytest.mark.parametrize("prefix", ["", "sasl_ssl://", "GroupCoordinator: ", "GroupCoordinator: ssl://"])
    def test_the_broker_and_the_reason_are_named(
        self, prefix: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert self.said(monkeypatch, caplog, 100.0, 102.0, text=prefix + self.AWAY) == [102.0]
        reason = "Connect to ipv4#10.0.0.1:9092 failed: Connection refused"
        assert caplog.messages == [f"No Kafka broker answers at one:9092 ({reason}); waiting until one does"]

    def test_each_broker_has_its_own_outage(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        notices = BrokerNotices("one:9092,two:9092")
        for now, broker in [(100.0, "one"), (102.0, "two"), (102.5, "two")]:
            monkeypatch.setattr("worker.kafka.clients.time.monotonic", lambda now=now: now)
            notices.failure(KafkaError(KafkaError._TRANSPORT, self.AWAY.replace("one", broker)))
        assert not caplog.records
