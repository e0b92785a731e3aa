"""Finds the JARs of the table format."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from connect.cache import cache_dir
from connect.errors import ConfigError

DELTA_COORDINATES = "io.delta:delta-spark_4.0_2.13:4.4.0"
JARS_VARIABLE = "SLUICE_SPARK_JARS"


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
    """The JARs that ``sluice setup`` fetched, if they are complete and of the version that this connector needs.

    A set of JARs is a folder ``<cache>/jars/spark-<digest>`` whose manifest has its coordinates and sizes.
    """
    for manifest in sorted((cache_dir() / "jars").glob("spark-*/manifest.json")):
        try:
            described = json.loads(manifest.read_text(encoding="utf-8"))
            sizes = {manifest.parent / name: size for name, size in described["sizes"].items()}
            if DELTA_COORDINATES in described["jars"] and all(jar.stat().st_size == size for jar, size in sizes.items()):
                return sorted(sizes)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # an unfinished or damaged set; setup fetches it again
    return []
