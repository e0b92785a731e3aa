"""Requirements of the Spark session."""

from __future__ import annotations

from typing import Any

import pytest

from connect.errors import ConfigError
from connectors.spark import session


def test_missing_java_and_missing_jars_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"needs Java 17 or later: JAVA_HOME is .* has no bin/java"):
        session.require_java()
    with pytest.raises(ConfigError, match=r"spark\.jars: Expected a JAR file or a folder with JAR files"):
        session.find_jars([str(tmp_path)])
    (tmp_path / "a.jar").touch()
    monkeypatch.setenv("SLUICE_SPARK_JARS", str(tmp_path))
    assert session.find_jars([]) == [tmp_path / "a.jar"]


def test_listing_the_plugin_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    program = "import sys, connectors.spark as s; s.SparkSink().config_def(); print({'pyspark', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"
