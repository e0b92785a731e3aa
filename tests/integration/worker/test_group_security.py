"""A member of a worker group with a broker that requires TLS and authentication."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from connect.errors import ConnectError, UnreachableError
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from tests.support.cases import first_fast
from tests.support.waiting import WAIT_S, Deadline
from tests.unit.worker.group import certificates
from worker.group.config import GroupSettings
from worker.group.events import Assigned, GroupEvent
from worker.group.member import GroupMember
from worker.group.protocol import Assignment, WorkerMetadata

# The workers of tests/integration/cluster_security authenticate, too.
pytestmark = pytest.mark.long

AUTHORITY = certificates.make("authority")
JAAS = 'org.apache.kafka.common.security.{module} required username="worker" password="{password}";'


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Worker settings for a broker listener with TLS, PLAIN, and SCRAM-SHA-512."""
    folder: Path = tmp_path_factory.mktemp("secured")
    host = certificates.make("host", AUTHORITY)
    (folder / "host.pem").write_text(host.key_pem() + host.pem)
    plain, controller, secure = free_ports(3)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},SECURE://127.0.0.1:{secure}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "host.pem"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.secure.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_worker="s3cret";'
        ),
        "listener.name.secure.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    broker = EmbeddedBroker(folder / "broker", port=plain, dies_with_parent=True, settings=settings)
    with broker:
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        changes = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("worker", credential, b"s3cret")])
        for change in changes.values():
            change.result(WAIT_S)
        yield {
            "bootstrap.servers": f"127.0.0.1:{secure}",
            "group.id": "secured",
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": AUTHORITY.pem,
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": JAAS.format(module="plain.PlainLoginModule", password="s3cret"),
        }
    broker.remove()


def join(props: Mapping[str, str]) -> list[GroupEvent]:
    """Joins the group and returns the first events of the member."""
    events: list[GroupEvent] = []
    member = GroupMember(
        GroupSettings.of(props, client_id="w1"),
        metadata=lambda: WorkerMetadata("http://w1/", 1),
        assign=lambda members, protocol, leader: dict.fromkeys(members, Assignment(protocol.version, 0, leader)),
        events=events.append,
        wake=lambda: None,
    )
    try:
        member.start(WAIT_S)
        deadline = Deadline("an event of the member")
        while not events:
            deadline.check()
            member.poll(0.5)
    finally:
        member.close()
    return events


@pytest.mark.parametrize(("mechanism", "module"), [("PLAIN", "plain.Plain"), ("SCRAM-SHA-512", "scram.Scram")])
def test_member_authenticates_and_joins(secured: Mapping[str, str], mechanism: str, module: str) -> None:
    jaas = JAAS.format(module=f"{module}LoginModule", password="s3cret")
    (event,) = join({**secured, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas})
    assert isinstance(event, Assigned)


@pytest.mark.parametrize(
    ("wrong", "message"),
    first_fast(
        [
            ({"sasl.jaas.config": JAAS.format(module="plain.PlainLoginModule", password="wr0ng")}, "authentication failed"),
            ({"sasl.mechanism": "SCRAM-SHA-256"}, "the broker does not support sasl.mechanism=SCRAM-SHA-256"),
            (
                {"ssl.truststore.certificates": certificates.make("another").pem},
                "no TLS connection to .*: CERTIFICATE_VERIFY_FAILED",
            ),
        ]
    ),
)
def test_wrong_settings_fail_the_start(secured: Mapping[str, str], wrong: dict[str, str], message: str) -> None:
    with pytest.raises(ConnectError, match=message) as caught:
        join({**secured, **wrong})
    assert not isinstance(caught.value, UnreachableError)
    assert "wr0ng" not in caught.value.message
