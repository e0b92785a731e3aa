"""The table of jar sets, and the cache over it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from connect.errors import ConfigError, ConnectError, UnreachableError
from sluice.embedded import jars
from sluice.embedded.jar_sets import JAR_SETS, Jar, JarSet

SMALL = JarSet("small", "a small set", (Jar("org.slf4j", "slf4j-api", "1.7.36"), Jar("org.slf4j", "slf4j-simple", "1.7.36")))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(JAR_SETS, "small", SMALL)
    return tmp_path


def fill(folder: Path, jar_set: JarSet) -> None:
    folder.mkdir(parents=True)
    for jar in jar_set.jars:
        (folder / jar.file_name).write_bytes(b"jar")
    sizes = {jar.file_name: 3 for jar in jar_set.jars}
    (folder / "manifest.json").write_text(json.dumps({"sizes": sizes}), encoding="utf-8")


@pytest.mark.parametrize("jar_set", JAR_SETS.values(), ids=JAR_SETS)
def test_set_names_each_artifact_once(jar_set: JarSet) -> None:
    names = [jar.artifact for jar in jar_set.jars]
    assert len(names) == len(set(names))
    assert all(jar.group and jar.version for jar in jar_set.jars)


def test_spark_set_has_no_jars_of_pyspark() -> None:
    import pyspark

    shipped = [path.name for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")]
    ours = [jar.artifact for jar in JAR_SETS["spark"].jars]
    assert [name for name in ours if any(one.startswith(f"{name}-") for one in shipped)] == []


def test_complete_directory_is_used(cache: Path) -> None:
    fill(jars.folder_of(SMALL), SMALL)
    found = jars.ensure_jars("small")
    assert [path.name for path in found] == ["slf4j-api-1.7.36.jar", "slf4j-simple-1.7.36.jar"]
    assert jars.class_path(found) == f"{found[0]}:{found[1]}"


@pytest.mark.parametrize("damage", ["cut", "gone", "no manifest", "torn manifest"])
def test_damaged_directory_is_ignored(cache: Path, damage: str) -> None:
    folder = jars.folder_of(SMALL)
    fill(folder, SMALL)
    assert jars.cached_jars("small") is not None
    match damage:
        case "cut":
            (folder / "slf4j-api-1.7.36.jar").write_bytes(b"j")
        case "gone":
            (folder / "slf4j-api-1.7.36.jar").unlink()
        case "no manifest":
            (folder / "manifest.json").unlink()
        case "torn manifest":
            (folder / "manifest.json").write_text('{"siz', encoding="utf-8")
    assert jars.cached_jars("small") is None


def test_other_versions_use_another_directory(cache: Path) -> None:
    other = JarSet("small", SMALL.purpose, (Jar("org.slf4j", "slf4j-api", "2.0.0"),))
    assert jars.folder_of(other) != jars.folder_of(SMALL)


def test_ivy_uses_one_repository_without_poms(cache: Path) -> None:
    jars._write_ivy_files(SMALL, cache)
    settings = ElementTree.parse(cache / "ivysettings.xml").getroot()
    resolvers = list(settings.iterfind("resolvers/*"))
    assert [(one.tag, one.get("m2compatible"), one.get("usepoms"), one.get("root")) for one in resolvers] == [
        ("ibiblio", "true", "false", None)
    ]
    module = ElementTree.parse(cache / "ivy.xml").getroot()
    wanted = [(one.get("org"), one.get("name"), one.get("rev")) for one in module.iterfind("dependencies/dependency")]
    assert wanted == [(jar.group, jar.artifact, jar.version) for jar in SMALL.jars]


def test_mirror_replaces_the_repository(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MAVEN_REPOSITORY", "file:///mirror?a=1&b=2")
    jars._write_ivy_files(SMALL, cache)
    (resolver,) = ElementTree.parse(cache / "ivysettings.xml").getroot().iterfind("resolvers/*")
    assert resolver.get("root") == "file:///mirror?a=1&b=2"


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("http://proxy:3128", ["-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=3128"]),
        ("http://user:secret@proxy:3128/", ["-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=3128"]),
        ("", []),
    ],
)
def test_proxy_is_passed_as_java_properties(monkeypatch: pytest.MonkeyPatch, address: str, options: list[str]) -> None:
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", address)
    assert jars._proxy_properties()[:2] == options


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ERRORS Server access error at url", UnreachableError),
        ("java.net.UnknownHostException: somewhere", UnreachableError),
        ("UNRESOLVED DEPENDENCY: org.slf4j#slf4j-api;9: not found", ConnectError),
    ],
)
def test_network_error_and_missing_jar_are_distinguished(line: str, kind: type[ConnectError]) -> None:
    assert type(jars._failure(SMALL, [line])) is kind


def test_unknown_set_is_reported_with_known_names() -> None:
    with pytest.raises(ConfigError, match=r"no jar set 'flink'; known are kafka, spark"):
        jars.ensure_jars("flink")
