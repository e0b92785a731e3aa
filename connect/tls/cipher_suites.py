"""Names of TLS cipher suites: Java has the standard's (RFC 5246), OpenSSL its own."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence

from connect.errors import ConfigError

_STANDARD = re.compile(r"TLS_(?P<exchange>\w+)_WITH_(?P<cipher>\w+)")


def tls12_cipher_names(suites: Sequence[str]) -> list[str]:
    """OpenSSL's names of the suites of TLS 1.2 among these. Those of TLS 1.3 have no key exchange in their name and are left out;
    what is no standard name is taken as OpenSSL's."""
    found = []
    for suite in suites:
        match = _STANDARD.fullmatch(suite)
        if match is not None:
            found.append(_openssl_name(match["exchange"], match["cipher"]))
        elif not suite.startswith("TLS_"):
            found.append(suite)
    return found


def allow_suites(context: ssl.SSLContext, suites: Sequence[str], versions: Sequence[str]) -> list[str]:
    """Allows no other suites, and returns the versions of TLS that are left of those. Python has no choice among the suites of
    TLS 1.3: one that is named brings them all, none takes the version away. Raises ConfigError when nothing is left."""
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
    # ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256; RSA as key exchange is not named; CBC goes without saying.
    key_exchange = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    if cipher.startswith("CHACHA20_POLY1305"):
        return f"{key_exchange}CHACHA20-POLY1305"
    name = re.sub(r"(AES|ARIA|CAMELLIA)_(\d+)_", r"\1\2_", cipher)
    return key_exchange + name.replace("_CBC_", "_").replace("_", "-")
