"""TLS to MySQL and MariaDB: maps the properties of both JDBC drivers, and PyMySQL's own, to PyMySQL's arguments."""

from __future__ import annotations

import ssl
from typing import Any

from connectors.jdbc.urls.driver_properties import DriverProperties

_OFF, _ANY, _AUTHORITY, _IDENTITY = "off", "any", "authority", "identity"

_MODES = {
    "disabled": _OFF,
    "preferred": "",
    "required": _ANY,
    "verify-ca": _AUTHORITY,
    "verify-identity": _IDENTITY,
    "disable": _OFF,
    "trust": _ANY,
    "verify-full": _IDENTITY,
    "false": _OFF,
    "0": _OFF,
    "true": _IDENTITY,
    "1": _IDENTITY,
}
"""MySQL's TLS modes, then MariaDB's."""
_STORES = (
    "trustCertificateKeyStoreUrl",
    "clientCertificateKeyStoreUrl",
    "trustStore",
    "keyStore",
)
_OF_STORES = (
    "trustCertificateKeyStoreType",
    "trustCertificateKeyStorePassword",
    "clientCertificateKeyStoreType",
    "clientCertificateKeyStorePassword",
    "trustStoreType",
    "trustStorePassword",
    "keyStoreType",
    "keyStorePassword",
    "keyPassword",
    "fallbackToSystemKeyStore",
    "fallbackToSystemTrustStore",
)


def arguments(properties: DriverProperties, kind: str) -> dict[str, Any]:
    """Returns ``ssl``, ``ssl_disabled``, or neither: then PyMySQL encrypts if the server supports it, as MySQL's driver does."""
    found = {
        name: value for name in ("ca", "capath", "cert", "key", "cipher") if (value := properties.text(f"ssl_{name}")) is not None
    }
    key_password = properties.text("ssl_key_password")
    if key_password is not None:
        found["password"] = key_password
    certificate = properties.text("serverSslCert")
    if certificate and certificate.startswith(("-----BEGIN", "classpath:")):
        properties.notice("serverSslCert is ignored: set the path of a certificate file")
    elif certificate:
        found.setdefault("ca", certificate.removeprefix("file:"))
    for store in _STORES:
        properties.leave_out("is a Java key store and is ignored: set PEM files as ssl_ca, ssl_cert, and ssl_key", store)
    properties.text(*_OF_STORES)
    mode = _mode(properties, kind, "ca" in found or "capath" in found)
    if mode == _OFF:
        return {"ssl_disabled": True}
    if not mode and not found:
        return {}
    if mode in (_AUTHORITY, _IDENTITY) and "ca" not in found and "capath" not in found:
        # Without a CA path, PyMySQL would not verify the host name.
        paths = ssl.get_default_verify_paths()
        found.update({"ca": paths.cafile} if paths.cafile else {"capath": paths.capath or paths.openssl_capath})
    verified = mode in (_AUTHORITY, _IDENTITY)
    return {"ssl": {**found, "verify_mode": verified, "check_hostname": mode == _IDENTITY}}


def _mode(properties: DriverProperties, kind: str, has_authority: bool) -> str:
    """Returns the configured TLS mode, if any."""
    own = _own_mode(properties)
    given = properties.choice(_MODES, "sslMode")
    use = properties.flag("useSSL")
    require, verify = properties.flag("requireSSL"), properties.flag("verifyServerCertificate")
    trust, any_name = properties.flag("trustServerCertificate"), properties.flag("disableSslHostnameVerification")
    own_identity = properties.flag("ssl_verify_identity", "ssl_check_hostname")
    if own_identity and own != _OFF:
        return _IDENTITY
    if own is not None:
        return own
    if given is not None:
        return given
    if use is False:
        return _OFF
    if kind == "mariadb" and use:
        return _ANY if trust else _AUTHORITY if any_name else _IDENTITY
    if verify or require:
        return _AUTHORITY if verify else _ANY
    # A configured certificate authority implies verification.
    return (_AUTHORITY if own_identity is False else _IDENTITY) if has_authority else ""


def _own_mode(properties: DriverProperties) -> str | None:
    """Returns the TLS mode set by PyMySQL's own arguments."""
    disabled, certificate = properties.flag("ssl_disabled"), properties.flag("ssl_verify_cert")
    if disabled:
        return _OFF
    return None if certificate is None else _AUTHORITY if certificate else _ANY
