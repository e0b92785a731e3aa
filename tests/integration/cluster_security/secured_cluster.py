"""A broker that requires TLS, authentication, and ACLs, and properties of workers that may use it.

    SECURE   SASL_SSL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, and OAUTHBEARER with unsigned tokens
    MUTUAL   SSL: the principal is the subject of the client's certificate

Only clients of the plain listener, the tests themselves, are superusers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sluice.embedded.broker import EmbeddedBroker
from tests.integration.rest.certificates import Authority
from tests.support.waiting import WAIT_S

JSON = "org.apache.kafka.connect.json.JsonConverter"
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PASSWORDS = {"worker": "w0rker-s3cret", "tasks": "t4sks-s3cret", "stranger": "str4nger-s3cret"}
SECRETS = (*PASSWORDS.values(), "wr0ng-s3cret", "st0re-s3cret")
"""Secrets that no log may contain."""

WORKER_ACLS = (
    ("group", "{cluster}", ("READ",)),
    ("topic", "{cluster}-", ("CREATE", "DESCRIBE_CONFIGS", "READ", "WRITE")),
)
TASK_ACLS = (
    ("group", "connect-{cluster}", ("READ",)),
    ("topic", "data-{cluster}", ("CREATE", "READ", "WRITE")),
)
WORKER_ACLS_EXACTLY_ONCE = (("transactional_id", "connect-cluster-{cluster}", ("WRITE",)),)
TASK_ACLS_EXACTLY_ONCE = (
    ("transactional_id", "{cluster}-", ("WRITE",)),
    ("topic", "{cluster}-offset", ("WRITE",)),
)
"""The ACLs that docs/distributed.md lists, as prefixes of resource names."""


@dataclass(frozen=True, slots=True)
class SecuredCluster:
    """The broker with an admin client, the certificate authority, and the folder of key stores."""

    broker: EmbeddedBroker
    admin: AdminClient
    authority: Authority
    folder: Path

    def allow(self, user: str, cluster: str, rules: Sequence[tuple[str, str, Sequence[str]]]) -> None:
        """Creates ACLs for a user; the rules have prefixes of resource names."""
        bindings = [
            AclBinding(
                ResourceType[kind.upper()],
                name.format(cluster=cluster),
                ResourcePatternType.PREFIXED,
                f"User:{user}",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for kind, name, operations in rules
            for operation in operations
        ]
        for change in self.admin.create_acls(bindings).values():
            change.result(WAIT_S)

    def trust(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "authority.pem")}

    def credentials(self, user: str, mechanism: str, password: str | None = None) -> dict[str, str]:
        """Returns the client properties that authenticate a user at the listener SECURE."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{MODULES[mechanism]} required username="{user}" password="{password or PASSWORDS[user]}";',
        }

    def worker(self, cluster: str, credentials: Mapping[str, str], listener: str = "SECURE") -> dict[str, str]:
        """Returns a worker's properties, with a short flush interval."""
        return {
            "bootstrap.servers": self.broker.bootstrap_of(listener),
            "group.id": cluster,
            "key.converter": JSON,
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            **{f"{what}.storage.topic": f"{cluster}-{what}" for what in ("config", "offset", "status")},
            **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
            **{f"{what}.storage.partitions": "1" for what in ("offset", "status")},
            "offset.flush.interval.ms": "500",
            # Each takes a second of CPU to start, and there are three by default.
            "task.executors": "1",
            **self.trust(),
            **credentials,
        }


def start(folder: Path) -> SecuredCluster:
    """Starts the broker and creates its users."""
    authority = Authority()
    store = authority.sign("broker").write_pem(folder / "broker.pem")
    trusted = folder / "authority.pem"
    trusted.write_text(authority.pem())
    users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "sasl.enabled.mechanisms": ",".join((*MODULES, "OAUTHBEARER")),
        "listener.name.secure.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        "listener.name.secure.plain.sasl.jaas.config": f"{MODULES['PLAIN']} required {users};",
        "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{MODULES['SCRAM-SHA-256']} required;",
        "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{MODULES['SCRAM-SHA-512']} required;",
    }
    broker = EmbeddedBroker(
        folder / "broker", dies_with_parent=True, listeners={"SECURE": "SASL_SSL", "MUTUAL": "SSL"}, settings=settings
    )
    broker.start(timeout_s=180.0)  # a JVM with TLS on a busy machine
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        changes = admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
                for user, password in PASSWORDS.items()
            ]
        )
        for change in changes.values():
            change.result(WAIT_S)
    return SecuredCluster(broker, admin, authority, folder)
