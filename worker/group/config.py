"""Settings of a group member, from a worker's Java-style keys."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from connect.errors import ConfigError, DataError
from connect.tls import JavaTlsSettings, allow_suites, load_identity, load_trust
from worker.group.oauth_tokens import TokenEndpoint
from worker.group.protocol import Protocol
from worker.kafka.security import sasl_settings

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

# The member's client takes these under snake_case names; defaults are those of a distributed worker.
_NUMBERS = {
    "connections.max.idle.ms": 540_000,
    "metadata.max.age.ms": 300_000,
    "reconnect.backoff.max.ms": 1_000,
    "reconnect.backoff.ms": 50,
    "request.timeout.ms": 40_000,
    "retry.backoff.ms": 100,
    "socket.connection.setup.timeout.max.ms": 30_000,
    "socket.connection.setup.timeout.ms": 10_000,
}


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Typed settings. Times are in ms."""

    group_id: str
    client_id: str
    protocol: Protocol
    """The newest one that it offers; see :meth:`Protocol.offered`."""
    bootstrap: str
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    """How long members have to join again; a member that is not polled for this long leaves by itself."""
    retry_backoff_ms: int = 100
    request_timeout_ms: int = 40_000
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Connection and security settings of kafka-python. Contains secrets: never print it."""
    token_endpoint: TokenEndpoint | None = None

    @classmethod
    def of(cls, worker_props: Mapping[str, str], *, client_id: str | None = None) -> GroupSettings:
        """Parses a worker's properties. ``client_id`` is the default of ``client.id``, instead of ``connect-<group.id>``.

        Raises ConfigError for invalid values, and for values that would make the connection less secure than configured.
        """
        props = {key: str(value).strip() for key, value in worker_props.items()}
        group_id = props.get("group.id", "")
        if not group_id:
            raise ConfigError('Missing required configuration "group.id" which has no default value.', key="group.id")
        session, heartbeat = _number(props, "session.timeout.ms", 10_000), _number(props, "heartbeat.interval.ms", 3_000)
        if heartbeat >= session:
            raise ConfigError.invalid("heartbeat.interval.ms", heartbeat, f"must be less than session.timeout.ms={session}")
        numbers = {key: _number(props, key, default) for key, default in _NUMBERS.items()}
        bootstrap = props.get("bootstrap.servers") or "localhost:9092"
        client = {key.replace(".", "_"): value for key, value in numbers.items()}
        security, endpoint = _security(props)
        return cls(
            group_id=group_id,
            client_id=props.get("client.id") or client_id or f"connect-{group_id}",
            protocol=_protocol(props.get("connect.protocol") or "sessioned"),
            bootstrap=bootstrap,
            session_timeout_ms=session,
            heartbeat_interval_ms=heartbeat,
            rebalance_timeout_ms=_number(props, "rebalance.timeout.ms", 60_000),
            retry_backoff_ms=numbers["retry.backoff.ms"],
            request_timeout_ms=numbers["request.timeout.ms"],
            client={
                **client,
                **security,
                "bootstrap_servers": [server.strip() for server in bootstrap.split(",") if server.strip()],
                "client_dns_lookup": props.get("client.dns.lookup") or "use_all_dns_ips",
                "socket_options": _socket_options(props),
            },
            token_endpoint=endpoint,
        )


def _protocol(value: str) -> Protocol:
    try:
        return Protocol.of_setting(value)
    except DataError as e:
        raise ConfigError.invalid("connect.protocol", value, "expected one of eager, compatible, sessioned") from e


def _number(props: Mapping[str, str], key: str, default: int) -> int:
    value = props.get(key, "")
    if not value:
        return default
    try:
        number = int(value)
    except ValueError as e:
        raise ConfigError.invalid(key, value, "Not a number of type INT") from e
    if number < 0:
        raise ConfigError.invalid(key, value, "Value must be at least 0")
    return number


def _socket_options(props: Mapping[str, str]) -> list[tuple[int, int, int]]:
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for key, option in (("send.buffer.bytes", socket.SO_SNDBUF), ("receive.buffer.bytes", socket.SO_RCVBUF)):
        # -1 leaves the size to the system, which is also the better default: messages here are small.
        if props.get(key, "-1") != "-1":
            options.append((socket.SOL_SOCKET, option, _number(props, key, 0)))
    return options


def _security(props: Mapping[str, str]) -> tuple[dict[str, Any], TokenEndpoint | None]:
    protocol = (props.get("security.protocol") or "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError.invalid("security.protocol", protocol, f"expected one of {', '.join(_PROTOCOLS)}")
    result: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        from worker.group.config import tls_context  # cryptography takes a while to import

        result["ssl_context"] = tls_context(props)
    if not protocol.startswith("SASL"):
        return result, None
    sasl = sasl_settings(props)
    mechanism = result["sasl_mechanism"] = sasl["sasl.mechanism"]
    if mechanism not in _MECHANISMS:
        raise ConfigError.invalid("sasl.mechanism", mechanism, f"expected one of {', '.join(_MECHANISMS)}")
    if mechanism == "OAUTHBEARER":
        endpoint = TokenEndpoint(
            sasl["sasl.oauthbearer.token.endpoint.url"],
            sasl["sasl.oauthbearer.client.id"],
            sasl["sasl.oauthbearer.client.secret"],
            sasl.get("sasl.oauthbearer.scope"),
        )
        return result, endpoint
    if mechanism == "GSSAPI":
        if find_spec("gssapi") is None:
            raise ConfigError.invalid(
                "sasl.mechanism", mechanism, "membership in a worker group needs the Python package gssapi for it, which is not "
                "installed: pip install gssapi, and run kinit for the principal",
            )  # fmt: skip
        result["sasl_kerberos_service_name"] = sasl.get("sasl.kerberos.service.name", "kafka")
        return result, None
    if "sasl.username" not in sasl:
        raise ConfigError(
            f'sasl.mechanism={mechanism} needs sasl.jaas.config=<LoginModule class> required username="..." password="...";',
            key="sasl.jaas.config",
        )
    result["sasl_plain_username"], result["sasl_plain_password"] = sasl["sasl.username"], sasl["sasl.password"]
    return result, None


_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(java: Mapping[str, str]) -> ssl.SSLContext:
    """Builds a client's context. Raises ConfigError, without secrets, for unreadable stores and unsupported settings."""
    settings = JavaTlsSettings.from_properties(java)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = [name for name in _VERSIONS if name in settings.enabled_protocols] or list(_VERSIONS)
    if settings.cipher_suites:
        versions = allow_suites(context, settings.cipher_suites, versions)
    context.minimum_version, context.maximum_version = _VERSIONS[versions[0]], _VERSIONS[versions[-1]]
    context.check_hostname = settings.checks_host_names
    if settings.trust_store.is_given:
        load_trust(context, settings.trust_store)
    else:
        context.load_default_certs()
    if settings.key_store.is_given:
        load_identity(context, settings.key_store)
    return context
