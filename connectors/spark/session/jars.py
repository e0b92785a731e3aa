"""Finds the JARs of the table format."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from connect.cache import cache_dir
from connect.errors import ConfigError

DELTA_COORDINATES = "io.delta:delta-spark_4.0_2.13:4.4.0"
# S3A, and the modules of the AWS SDK that it uses, instead of the SDK's bundle of 558 MB. One of the modules was not published
# everywhere with the version of the others.
S3_COORDINATES = (
    "org.apache.hadoop:hadoop-aws:3.4.1",
    "software.amazon.awssdk:apache-client:2.24.6",
    "software.amazon.awssdk:netty-nio-client:2.24.6",
    "software.amazon.awssdk:s3:2.24.6",
    "software.amazon.awssdk:s3-transfer-manager:2.24.5",
    "software.amazon.awssdk:sts:2.24.6",
)
S3_EXCLUDED = ("software.amazon.awssdk:bundle", "io.netty:*", "org.slf4j:*")
ICEBERG_COORDINATES = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
JARS_VARIABLE = "SLUICE_SPARK_JARS"
_S3A = "hadoop-aws"
_ICEBERG = "iceberg-spark-runtime"


def find_jars(given: Sequence[str]) -> list[Path]:
    """The JARs of ``spark.jars``, else of the environment variable, else those that ``sluice setup`` fetched: files, and all JARs
    of folders. Empty when there are none. Raises ConfigError."""
    places = list(given) or [p for p in os.environ.get(JARS_VARIABLE, "").split(os.pathsep) if p]
    if not places:
        return fetched_jars()
    jars: list[Path] = []
    for place in places:
        path = Path(place).expanduser()
        found = sorted(path.glob("*.jar")) if path.is_dir() else [path]
        if not found or not all(jar.is_file() for jar in found):
            key = "spark.jars" if given else JARS_VARIABLE
            raise ConfigError.invalid(key, place, "Expected a JAR file or a folder with JAR files")
        jars += found
    return jars


def fetched_jars() -> list[Path]:
    """The JARs of the table format that ``sluice setup`` fetched, if they are complete and of the version that this connector
    needs."""
    return _fetched_set(DELTA_COORDINATES)


def find_s3_jars(given: Sequence[str], conf: Iterable[tuple[str, str]]) -> list[Path]:
    """The JARs with which Spark reaches S3, if ``sluice setup --s3`` fetched them and the configured JARs have none."""
    configured = [value for key, value in conf if key in ("spark.jars", "spark.jars.packages")]
    if any(_S3A in value for value in configured) or has_s3a(find_jars(given)):
        return []
    return _fetched_set(S3_COORDINATES[0])


def find_iceberg_jars(given: Sequence[str], conf: Iterable[tuple[str, str]]) -> list[Path]:
    """Iceberg's JAR, if ``sluice setup --iceberg`` fetched it and the configured JARs do not have it."""
    configured = [value for key, value in conf if key in ("spark.jars", "spark.jars.packages")]
    if any(_ICEBERG in value for value in configured) or any(jar.name.startswith(_ICEBERG) for jar in find_jars(given)):
        return []
    return _fetched_set(ICEBERG_COORDINATES)


def has_s3a(jars: Iterable[Path]) -> bool:
    return any(jar.name.startswith(_S3A) for jar in jars)


def _fetched_set(coordinates: str) -> list[Path]:
    """The JARs of the fetched set that has these coordinates; empty if there is none.

    A set of JARs is a folder ``<cache>/jars/spark-<digest>`` whose manifest has its coordinates and sizes.
    """
    for manifest in sorted((cache_dir() / "jars").glob("spark-*/manifest.json")):
        try:
            described = json.loads(manifest.read_text(encoding="utf-8"))
            sizes = {manifest.parent / name: size for name, size in described["sizes"].items()}
            if coordinates in described["jars"] and all(jar.stat().st_size == size for jar, size in sizes.items()):
                return sorted(sizes)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # an unfinished or damaged set; setup fetches it again
    return []
