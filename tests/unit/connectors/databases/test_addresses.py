"""Addresses for libpq: names stay for TLS, addresses decide where the connection goes."""

from __future__ import annotations

import pytest

from connect import ConfigError
from connect.addresses import AddressRules
from connectors.databases.postgresql.addresses import pin_addresses

RULES = AddressRules.of(["*"], ["169.254.0.0/16"])


def test_each_host_gets_its_addresses_and_port() -> None:
    found = pin_addresses(RULES, "127.0.0.1,127.0.0.2", "5432,6432")
    assert found == {"host": "127.0.0.1,127.0.0.2", "port": "5432,6432", "hostaddr": "127.0.0.1,127.0.0.2"}
    found = pin_addresses(RULES, "localhost", "5432")
    assert set(found["host"].split(",")) == {"localhost"}
    assert set(found["hostaddr"].split(",")) <= {"127.0.0.1", "::1"}
    assert len(found["hostaddr"].split(",")) == len(found["host"].split(",")) == len(found["port"].split(","))


def test_unix_sockets_need_no_address() -> None:
    assert pin_addresses(RULES, "/var/run", "5432") == {"host": "/var/run", "port": "5432"}
    assert pin_addresses(RULES, "/var/run,127.0.0.1", "5432")["hostaddr"] == ",127.0.0.1"


@pytest.mark.parametrize(
    ("host", "hostaddr"),
    [
        ("169.254.169.254", ""),
        ("127.0.0.1,169.254.169.254", ""),
        ("127.0.0.1", "169.254.169.254"),
        ("", "169.254.169.254"),
        ("a", "127.0.0.1,169.254.169.254"),
    ],
)
def test_denied_addresses_are_refused_however_they_are_given(host: str, hostaddr: str) -> None:
    with pytest.raises(ConfigError, match=r"169\.254\.169\.254\)? are not allowed"):
        pin_addresses(RULES, host, "5432", hostaddr)


def test_names_that_do_not_resolve_raise_what_the_resolver_says() -> None:
    with pytest.raises(OSError, match=r"\w"):
        pin_addresses(RULES, "no-such-host.invalid", "5432")
