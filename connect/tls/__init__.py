"""TLS settings of Java clients: key stores and trust stores (PEM, PKCS12, and JKS, read without Java), and cipher suites.

The format of a store is detected from its bytes, not from ``ssl.keystore.type``: since Java 9, keytool writes PKCS12 into files
called .jks.
"""

from connect.tls.cipher_suites import allow_suites, tls12_cipher_names
from connect.tls.contexts import load_identity, load_trust
from connect.tls.settings import JavaTlsSettings
from connect.tls.store import Identity, Store, parse_store, read_identity, read_trusted_certificates

__all__ = [
    "Identity",
    "JavaTlsSettings",
    "Store",
    "allow_suites",
    "load_identity",
    "load_trust",
    "parse_store",
    "read_identity",
    "read_trusted_certificates",
    "tls12_cipher_names",
]
