"""Archives of what only tests and benchmarks start: a schema registry and Debezium."""

from __future__ import annotations

from sluice.embedded.jar_sets import Jar, JarSet

REGISTRY_VERSION = "3.0.9"
DEBEZIUM_VERSION = "3.7.0.Final"

REGISTRY = JarSet(
    "registry",
    f"Apicurio Registry {REGISTRY_VERSION}",
    (Jar("io.apicurio", "apicurio-registry-app", REGISTRY_VERSION, "all", "tar.gz"),),
)
"""One archive with all JARs of a schema registry that has Confluent's API."""

_DEBEZIUM_MODULES = ("api", "config", "connect-plugins", "connector-common", "connector-postgres", "openlineage-api", "util")
DEBEZIUM = JarSet(
    "debezium",
    f"Debezium's PostgreSQL connector {DEBEZIUM_VERSION}",
    (
        *(Jar("io.debezium", f"debezium-{name}", DEBEZIUM_VERSION) for name in _DEBEZIUM_MODULES),
        Jar("com.datadoghq", "sketches-java", "0.8.2"),
        Jar("com.google.protobuf", "protobuf-java", "3.25.5"),
        Jar("org.postgresql", "postgresql", "42.7.13"),
    ),
)
"""The connector, for Apache's worker."""


ENGINE_VERSION = "3.6.1.Final"
"""Newer versions of the engine may lack JARs in repositories."""
DEBEZIUM_ENGINE = JarSet(
    "debezium-engine",
    f"Debezium's engine {ENGINE_VERSION}",
    (
        *(Jar("io.debezium", f"debezium-{name}", ENGINE_VERSION) for name in (*_DEBEZIUM_MODULES, "embedded")),
        *DEBEZIUM.jars[len(_DEBEZIUM_MODULES) :],
    ),
)
"""The connector in an application of its own, without a worker; only benchmarks start it."""
