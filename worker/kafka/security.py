"""Translates TLS and SASL settings of Java clients for librdkafka.

Java has keys in key stores and credentials in JAAS lines; librdkafka gets PEM and plain keys instead. A setting without a
counterpart is rejected with an alternative: a connection must never silently be less secure than configured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from connect.errors import ConfigError
from connect.tls import JavaTlsSettings, Store, read_identity, read_trusted_certificates, tls12_cipher_names

_JAAS = re.compile(r"^\s*(?P<module>[\w.$]+)\s+(?P<flag>required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*$", re.S)
_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")

TLS_KEYS = frozenset(
    {
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
SASL_KEYS = frozenset(
    {
        "sasl.client.callback.handler.class",
        "sasl.jaas.config",
        "sasl.kerberos.service.name",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
    }
)


def tls_settings(java: Mapping[str, str]) -> dict[str, str]:
    """Returns librdkafka's settings for the ``ssl.*`` keys of a Java client."""
    settings = JavaTlsSettings.from_properties(java)
    result: dict[str, str] = {}
    algorithm = java.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        # In Java an empty value disables host name verification.
        result["ssl.endpoint.identification.algorithm"] = algorithm.lower() or "none"
    if older := tls12_cipher_names(settings.cipher_suites):
        result["ssl.cipher.suites"] = ":".join(older)  # librdkafka cannot select those of TLS 1.3
    trust, identity = settings.trust_store, settings.key_store
    if trust.location is not None and trust.certificates is None and trust.is_pem():
        result["ssl.ca.location"] = trust.location
    elif trust.is_given:
        result["ssl.ca.pem"] = read_trusted_certificates(trust)
    if identity.is_given:
        result.update(_identity(identity))
    elif "ssl.key.password" in java:
        result["ssl.key.password"] = java["ssl.key.password"]  # of librdkafka's own ssl.key.location
    return result


def _identity(store: Store) -> dict[str, str]:
    found = read_identity(store)
    password = {"ssl.key.password": found.password} if found.password else {}
    if store.location is not None and store.certificates is None and store.is_pem():
        return {"ssl.certificate.location": store.location, "ssl.key.location": store.location, **password}
    return {"ssl.certificate.pem": found.chain, "ssl.key.pem": found.key, **password}


def sasl_settings(java: Mapping[str, str]) -> dict[str, str]:
    """Returns librdkafka's settings for the ``sasl.*`` keys of a Java client."""
    protocol = java.get("security.protocol", "PLAINTEXT").upper()
    if not protocol.startswith("SASL"):
        return {}
    result: dict[str, str] = {}
    # librdkafka has its own name for it, too.
    mechanism = (java.get("sasl.mechanism") or java.get("sasl.mechanisms") or "GSSAPI").upper()
    result["sasl.mechanism"] = mechanism
    if service := java.get("sasl.kerberos.service.name"):
        result["sasl.kerberos.service.name"] = service
    jaas = java.get("sasl.jaas.config")
    options = jaas_options(jaas) if jaas else {}
    if mechanism == "OAUTHBEARER":
        result.update(_oauth_settings(java, options))
    elif mechanism == "GSSAPI":
        for ours, theirs in (("sasl.kerberos.keytab", "keyTab"), ("sasl.kerberos.principal", "principal")):
            if theirs in options:
                result[ours] = options[theirs]
    elif jaas:
        for name in ("username", "password"):
            if name not in options:
                raise ConfigError(f'sasl.jaas.config has no {name}="...", which {mechanism} needs', key="sasl.jaas.config")
            result[f"sasl.{name}"] = options[name]
    return result


def jaas_options(jaas: str) -> dict[str, str]:
    """Parses the options of a JAAS line such as ``PlainLoginModule required username="a" password="b";``. Errors never quote
    it."""
    match = _JAAS.match(jaas)
    if match is None:
        raise ConfigError(
            'sasl.jaas.config cannot be read; expected: <LoginModule class> required username="..." password="...";',
            key="sasl.jaas.config",
        )
    options = {}
    for name, double, single, bare in _OPTION.findall(match["options"]):
        options[name] = re.sub(r"\\(.)", r"\1", double or single) or bare
    return options


def _oauth_settings(java: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Returns client credentials from the settings that Kafka has for them since 4.1, or else from the JAAS line."""
    url = java.get("sasl.oauthbearer.token.endpoint.url")
    client = java.get("sasl.oauthbearer.client.credentials.client.id") or options.get("clientId")
    secret = java.get("sasl.oauthbearer.client.credentials.client.secret") or options.get("clientSecret")
    if not (url and client and secret):
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER works here with a token endpoint only: sasl.oauthbearer.token.endpoint.url, "
            "sasl.oauthbearer.client.credentials.client.id and .client.secret, or for these two "
            'sasl.jaas.config=...OAuthBearerLoginModule required clientId="..." clientSecret="..."; a Java callback handler '
            "cannot be used",
            key="sasl.mechanism",
        )
    if not url.lower().startswith(("http://", "https://")):
        raise ConfigError.invalid(
            "sasl.oauthbearer.token.endpoint.url", url, "a token can be had from an http or https endpoint only, not from a file"
        )
    result = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": client,
        "sasl.oauthbearer.client.secret": secret,
    }
    if scope := java.get("sasl.oauthbearer.scope") or options.get("scope"):
        result["sasl.oauthbearer.scope"] = scope
    return result
