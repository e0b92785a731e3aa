"""Fetches real JARs: by only one process, and with a broken Maven cache of the user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from connect.errors import ConnectError
from sluice.embedded import jars
from sluice.embedded.jar_sets import JAR_SETS, Jar, JarSet
from tests.support.waiting import WAIT_S

SMALL = JarSet("small", "a small set", (Jar("org.slf4j", "slf4j-api", "1.7.36"), Jar("org.slf4j", "slf4j-simple", "1.7.36")))

FETCH = """
import sys
from sluice.embedded import jars
from sluice.embedded.jar_sets import JAR_SETS, Jar, JarSet
JAR_SETS["small"] = JarSet("small", "a small set", tuple(Jar("org.slf4j", n, "1.7.36") for n in ("slf4j-api", "slf4j-simple")))
jars.ensure_jars("small", lambda done, total, jar: print(done, total, jar, flush=True))
"""


@pytest.fixture
def broken_home(tmp_path: Path) -> Path:
    """A home directory with a POM without its JAR in the Maven cache, and with broken Ivy settings."""
    home = tmp_path / "home"
    module = home / ".m2" / "repository" / "org" / "slf4j" / "slf4j-api" / "1.7.36"
    module.mkdir(parents=True)
    (module / "slf4j-api-1.7.36.pom").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>org.slf4j</groupId>'
        "<artifactId>slf4j-api</artifactId><version>1.7.36</version></project>",
        encoding="utf-8",
    )
    (home / ".ivy2").mkdir()
    (home / ".ivy2" / "ivysettings.xml").write_text("<ivysettings><broken/>", encoding="utf-8")
    return home


def test_incomplete_maven_cache_is_ignored_and_only_one_process_fetches(broken_home: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(broken_home), "SLUICE_CACHE_DIR": str(tmp_path / "cache")}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", FETCH], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outcomes = [one.communicate(timeout=WAIT_S) for one in both]
    assert [one.returncode for one in both] == [0, 0], outcomes
    lines = sorted((out.splitlines() for out, _ in outcomes), key=len)
    assert lines == [[], ["0 2 ", "1 2 slf4j-api.jar", "2 2 slf4j-simple.jar"]]
    (folder,) = (tmp_path / "cache" / "jars").glob("small-*")
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "slf4j-api-1.7.36.jar", "slf4j-simple-1.7.36.jar"]
    assert sorted(path.name for path in broken_home.iterdir()) == [".ivy2", ".m2"]


def test_cached_jars_need_neither_network_nor_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = jars.ensure_jars("kafka")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("SLUICE_MAVEN_REPOSITORY", "file:///nowhere")
    assert jars.ensure_jars("kafka") == found


def test_missing_jar_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = JarSet("small", "a small set", (Jar("org.slf4j", "slf4j-nonsense", "0.0.1"),))
    (tmp_path / "repository").mkdir()
    monkeypatch.setitem(JAR_SETS, "small", wrong)
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SLUICE_MAVEN_REPOSITORY", (tmp_path / "repository").as_uri())
    with pytest.raises(ConnectError, match=r"(?s)a small set could not be fetched.*slf4j-nonsense"):
        jars.ensure_jars("small")
    assert [path.name for path in (tmp_path / "cache" / "jars").iterdir()] == [".small.lock"]
