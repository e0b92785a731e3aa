"""Converts names of TLS cipher suites from Java's, which are standard (RFC 5246), to OpenSSL's."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence

from connect.errors import ConfigError

_STANDARD = re.compile(r"TLS_(?P<exchange>\w+)_WITH_(?P<cipher>\w+)")


def tls12_cipher_names(suites: Sequence[str]) -> list[str]:
    """Returns OpenSSL's names of the TLS 1.2 suites among these. TLS 1.3 suites, which have no key exchange in their name, are
    omitted; names that are not standard are taken as OpenSSL's."""
    found = []
    for suite in suites:
        match = _STANDARD.fullmatch(suite)
        if match is not None:
            found.append(_openssl_name(match["exchange"], match["cipher"]))
        elif not suite.startswith("TLS_"):
            found.append(suite)
    return found


def allow_suites(context: ssl.SSLContext, suites: Sequence[str], versions: Sequence[str]) -> list[str]:
    """Restricts a context to these suites and returns the TLS versions that remain. Python cannot select TLS 1.3 suites: naming
    one allows all, naming none disables the version. Raises ConfigError when no version remains."""
    older = tls12_cipher_names(suites)
    newer = len(older) < len(suites)
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError as e:
            raise ConfigError.invalid("ssl.cipher.suites", ",".join(suites), "none of them is known here") from e
    left = [name for name in versions if (newer if name == "TLSv1.3" else older)]
    if not left:
        raise ConfigError.invalid("ssl.cipher.suites", ",".join(suites), f"none of them fits {', '.join(versions)}")
    return left


def _openssl_name(exchange: str, cipher: str) -> str:
    # ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256; OpenSSL omits RSA as key exchange, and CBC.
    key_exchange = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    if cipher.startswith("CHACHA20_POLY1305"):
        return f"{key_exchange}CHACHA20-POLY1305"
    name = re.sub(r"(AES|ARIA|CAMELLIA)_(\d+)_", r"\1\2_", cipher)
    return key_exchange + name.replace("_CBC_", "_").replace("_", "-")
