"""TLS and SASL settings of Java clients, as librdkafka takes them.

Java keeps keys in key stores and logins in JAAS lines; librdkafka takes PEM and plain keys. What has no counterpart is refused
with the way out, for a connection that is less secure than asked must not come about by silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from connect.errors import ConfigError

_JAAS = re.compile(r"^\s*(?P<module>[\w.$]+)\s+(?P<flag>required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*$", re.S)
_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
_JKS_MAGIC = b"\xfe\xed\xfe\xed"

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
        "sasl.oauthbearer.token.endpoint.url",
    }
)


def tls_settings(java: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings for the ``ssl.*`` keys of a Java client."""
    result: dict[str, str] = {}
    if java.get("ssl.engine.factory.class"):
        raise ConfigError(
            "ssl.engine.factory.class names a Java class, which cannot be used here; give PEM files with ssl.truststore.type=PEM",
            key="ssl.engine.factory.class",
        )
    algorithm = java.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        # In Java an empty value switches the check of host names off.
        result["ssl.endpoint.identification.algorithm"] = algorithm.lower() or "none"
    if certificates := java.get("ssl.truststore.certificates"):
        result["ssl.ca.pem"] = certificates
    elif location := java.get("ssl.truststore.location"):
        _require_pem("ssl.truststore", location, java.get("ssl.truststore.type"))
        result["ssl.ca.location"] = location
    if chain := java.get("ssl.keystore.certificate.chain"):
        result["ssl.certificate.pem"] = chain
        result["ssl.key.pem"] = java.get("ssl.keystore.key", "")
    elif location := java.get("ssl.keystore.location"):
        if _is_pkcs12(location, java.get("ssl.keystore.type")):
            result["ssl.keystore.location"] = location
            result["ssl.keystore.password"] = java.get("ssl.keystore.password", "")
        else:
            _require_pem("ssl.keystore", location, java.get("ssl.keystore.type"))
            result["ssl.certificate.location"] = location
            result["ssl.key.location"] = location
    if password := java.get("ssl.key.password"):
        result["ssl.key.password"] = password
    return result


def _head(key: str, location: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            return file.read(4096)
    except OSError as e:
        raise ConfigError.invalid(f"{key}.location", location, f"cannot be read: {e.strerror}") from e


def _is_pkcs12(location: str, kind: str | None) -> bool:
    # keytool has written PKCS12 into files called .jks since Java 9, so the bytes count, not the name. 0x30 opens a DER sequence.
    return (kind or "JKS").upper() != "PEM" and _head("ssl.keystore", location).startswith(b"\x30")


def _require_pem(key: str, location: str, kind: str | None) -> None:
    head = _head(key, location)
    if b"-----BEGIN" in head:
        return
    is_jks = head.startswith(_JKS_MAGIC)
    found = "a JKS key store" if is_jks else "a PKCS12 key store" if head.startswith(b"\x30") else "not PEM"
    if is_jks:
        convert = (
            f"keytool -importkeystore -srckeystore {location} -destkeystore store.p12 -deststoretype PKCS12 && "
            f"openssl pkcs12 -in store.p12 {'-nokeys ' if key == 'ssl.truststore' else '-nodes '}-out store.pem"
        )
    else:
        convert = f"openssl pkcs12 -in {location} {'-nokeys ' if key == 'ssl.truststore' else '-nodes '}-out store.pem"
    raise ConfigError.invalid(
        f"{key}.location", location, f"it is {found}; PEM is needed ({key}.type={kind or 'JKS'}). Convert it: {convert}, then "
        f"set {key}.location=store.pem and {key}.type=PEM",
    )  # fmt: skip


def sasl_settings(java: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings for the ``sasl.*`` keys of a Java client."""
    protocol = java.get("security.protocol", "PLAINTEXT").upper()
    if not protocol.startswith("SASL"):
        return {}
    result: dict[str, str] = {}
    mechanism = java.get("sasl.mechanism", "GSSAPI").upper()
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
    """The options of a JAAS line, as ``PlainLoginModule required username="a" password="b";``. Never quotes it in an error."""
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
    url = java.get("sasl.oauthbearer.token.endpoint.url")
    client, secret = options.get("clientId"), options.get("clientSecret")
    if not (url and client and secret):
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER works here with a token endpoint only: sasl.oauthbearer.token.endpoint.url and "
            'sasl.jaas.config=...OAuthBearerLoginModule required clientId="..." clientSecret="..."; a Java callback handler '
            "cannot be used",
            key="sasl.mechanism",
        )
    result = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": client,
        "sasl.oauthbearer.client.secret": secret,
    }
    if scope := options.get("scope"):
        result["sasl.oauthbearer.scope"] = scope
    return result
