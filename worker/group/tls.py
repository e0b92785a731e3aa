"""TLS of the member's connection, from the ``ssl.*`` settings of a Java client."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from connect.errors import ConfigError
from connect.tls import allow_suites, load_identity, load_trust, store_of

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(java: Mapping[str, str]) -> ssl.SSLContext:
    """Builds a client's context. Raises ConfigError, without secrets, for unreadable stores and unsupported settings."""
    if java.get("ssl.engine.factory.class"):
        raise ConfigError(
            "ssl.engine.factory.class names a Java class, which is not supported; set ssl.truststore.location",
            key="ssl.engine.factory.class",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    enabled = _words(java, "ssl.enabled.protocols")
    versions = [name for name in _VERSIONS if name in enabled] or list(_VERSIONS)
    if suites := _words(java, "ssl.cipher.suites"):
        versions = allow_suites(context, suites, versions)
    context.minimum_version, context.maximum_version = _VERSIONS[versions[0]], _VERSIONS[versions[-1]]
    # As in Java, an empty value disables hostname verification.
    context.check_hostname = java.get("ssl.endpoint.identification.algorithm", "https") != ""
    trust, identity = store_of(java, "ssl.truststore"), store_of(java, "ssl.keystore")
    if trust.is_given:
        load_trust(context, trust)
    else:
        context.load_default_certs()
    if identity.is_given:
        load_identity(context, identity)
    return context


def _words(java: Mapping[str, str], key: str) -> list[str]:
    return [word for part in java.get(key, "").split(",") if (word := part.strip())]
