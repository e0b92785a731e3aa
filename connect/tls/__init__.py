"""TLS as settings of Java's clients ask for it: key stores, trust stores (PEM, PKCS12 and JKS, read without Java), cipher suites.

What a store's file holds is told by its bytes, not by ``ssl.keystore.type``: since Java 9 keytool writes PKCS12 into files called
.jks.
"""

from connect.tls.cipher_suites import allow_suites, tls12_names
from connect.tls.contexts import load_identity, load_trust
from connect.tls.store import Identity, Store, identity_of, store_of, trusted_of

__all__ = [
    "Identity",
    "Store",
    "allow_suites",
    "identity_of",
    "load_identity",
    "load_trust",
    "store_of",
    "tls12_names",
    "trusted_of",
]
