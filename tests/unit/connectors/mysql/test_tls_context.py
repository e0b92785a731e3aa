from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.mysql.config import parse_config
from connectors.mysql.connection import build_tls_context
from tests.integration.rest.certificates import Authority
from tests.unit.connectors.mysql.test_config import REQUIRED

AUTHORITY = Authority()


def trusted_names(trust: Path | None, mode: str) -> list[str]:
    stores = {} if trust is None else {"database.ssl.truststore": str(trust)}
    context = build_tls_context(parse_config({**REQUIRED, "database.ssl.mode": mode, **stores}).address.tls)
    assert context is not None
    return [str(certificate["subject"]) for certificate in context.get_ca_certs()]


def test_a_trust_store_replaces_the_certificates_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system, own = tmp_path / "system.pem", tmp_path / "own.pem"
    system.write_text(Authority("system").pem())
    own.write_text(Authority("own").pem())
    monkeypatch.setenv("SSL_CERT_FILE", str(system))
    (name,) = trusted_names(own, "verify_ca")
    assert "'own'" in name
    (name,) = trusted_names(None, "verify_identity")
    assert "'system'" in name
    assert trusted_names(own, "required") == []


@pytest.mark.parametrize(
    ("key", "content", "password", "message"),
    [
        ("database.ssl.truststore", None, None, r"for configuration database\.ssl\.truststore: cannot be read"),
        ("database.ssl.truststore", b"\xce\xce\xce\xce", None, r"then set database\.ssl\.truststore=store\.p12"),
        ("database.ssl.keystore", AUTHORITY.pem().encode(), None, r"certificates of database\.ssl\.keystore cannot be used"),
        ("database.ssl.keystore", b"locked", None, r"is encrypted; set database\.ssl\.keystore\.password"),
        ("database.ssl.keystore", b"locked", "wrong", r"database\.ssl\.keystore\.password does not open the key"),
    ],
)  # fmt: skip
def test_errors_of_stores_name_the_keys_of_debezium(
    tmp_path: Path, key: str, content: bytes | None, password: str | None, message: str
) -> None:
    file = tmp_path / "store"
    if content == b"locked":
        AUTHORITY.sign("client").write_pem(file, "secret")
    elif content is not None:
        file.write_bytes(content)
    config = {**REQUIRED, "database.ssl.mode": "verify_ca", key: str(file)}
    if password is not None:
        config[f"{key}.password"] = password
    with pytest.raises(ConfigError, match=message):
        build_tls_context(parse_config(config).address.tls)
