"""``connection.allow.addresses`` and ``connection.deny.addresses``: what resolves to a denied address is refused before a byte is
sent, in whatever form the address is written."""

from __future__ import annotations

import socket

import pytest

from connect import ConfigError
from connect.addresses import ALLOW_DEFAULT, DENY_DEFAULT, AddressRules
from worker.config.worker_config import WorkerConfig

WORKER = {"key.converter": "String", "value.converter": "String", "offset.storage.file.filename": "/nowhere/offsets"}
DEFAULTS = AddressRules.of([ALLOW_DEFAULT], DENY_DEFAULT.split(","))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("169.254.169.254", "169.254.169.254"),
        ("db.example.com", "169.254.1.1"),
        ("db.example.com", "fe80::1%eth0"),
        ("db.example.com", "::ffff:169.254.169.254"),
        ("db.example.com", "64:ff9b::a9fe:a9fe"),
        ("db.example.com", "2002:a9fe:a9fe::"),
        ("db.example.com", "fd00:ec2::254"),
        ("db.example.com", "100.100.100.200"),
        ("Metadata.Google.Internal.", "10.0.0.1"),
        ("metadata.goog", "10.0.0.1"),
    ],
)
def test_link_local_addresses_and_metadata_services_are_denied_by_default(host: str, address: str) -> None:
    assert not DEFAULTS.allows(host, address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.1.2.3", "192.168.0.1", "fd12::1", "8.8.8.8", "2001:db8::1"])
def test_loopback_private_and_public_addresses_are_allowed_by_default(address: str) -> None:
    assert DEFAULTS.allows("db.example.com", address)


def test_rules_name_networks_addresses_and_hosts() -> None:
    rules = AddressRules.of(["10.0.0.0/8", "*.example.com", "2001:db8::/32"], ["10.0.0.7", "old.*"])
    assert rules.allows("db", "10.1.2.3")
    assert rules.allows("db", "2001:db8::5")
    assert rules.allows("DB.Example.com", "8.8.8.8")
    assert not rules.allows("db", "8.8.8.8")
    assert not rules.allows("db.example.com", "10.0.0.7")
    assert not rules.allows("old.example.com", "10.1.2.3")


@pytest.mark.parametrize("entry", ["10.0.0.0/99", "fe80::/200", "a/b", "2001:db8::zz"])
def test_an_entry_that_is_no_network_is_refused_when_the_worker_starts(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"Invalid value .* for configuration connection.deny.addresses: expected an address"):
        WorkerConfig.standalone({**WORKER, "connection.deny.addresses": entry})


def test_names_in_numeric_disguise_are_resolved_before_they_are_checked() -> None:
    for host in ("2852039166", "0xa9fea9fe", "169.254.43518"):
        with pytest.raises(ConfigError, match="are not allowed on this worker"):
            DEFAULTS.resolve(host)


def answers(monkeypatch: pytest.MonkeyPatch, *rounds: list[str]) -> None:
    """Sets what the resolver returns, call by call: no real name server changes its mind on demand."""
    remaining = list(rounds)

    def resolve(host: str, port: object, *more: object, **named: object) -> list[tuple[object, ...]]:
        found = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        family = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(family[":" in one], socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_only_the_allowed_addresses_of_a_name_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, ["fe80::1", "10.0.0.1", "10.0.0.1", "169.254.169.254"])
    assert DEFAULTS.resolve("db") == ["10.0.0.1"]


def test_a_name_server_that_changes_its_answer_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answers(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])
        resolved = DEFAULTS.resolve("rebinding.example.com", port)
        answers(monkeypatch, ["127.0.0.1"], ["127.0.0.1"])
        with DEFAULTS.open_socket("rebinding.example.com", port, 5) as link:
            assert link.getpeername() == (resolved[0], port)
    answers(monkeypatch, ["169.254.169.254"])
    with pytest.raises(ConfigError, match=r"Connections to rebinding.example.com \(169.254.169.254\) are not allowed"):
        DEFAULTS.open_socket("rebinding.example.com", 80, 5)


@pytest.mark.parametrize("host", ["a..b", ".", f"{'x' * 64}.example.com"])
def test_names_that_cannot_be_encoded_are_unresolvable(host: str) -> None:
    with pytest.raises(OSError, match="is not a host name"):
        DEFAULTS.resolve(host)
    DEFAULTS.require(host)  # the client reports it itself
