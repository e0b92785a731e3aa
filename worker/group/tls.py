"""TLS of the member's connection, from the ``ssl.*`` settings of a Java client."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from connect.tls import JavaTlsSettings, allow_suites, load_identity, load_trust

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
