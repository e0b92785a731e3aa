"""The schema registry's archive, a file with a classifier."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from sluice.embedded import jars
from sluice.embedded.jar_sets import Jar, JarSet
from tests.support.jar_sets import REGISTRY


def test_classifier_is_part_of_file_name_and_coordinates() -> None:
    (archive,) = REGISTRY.jars
    assert archive.file_name == "apicurio-registry-app-3.0.9-all.tar.gz"
    assert str(archive) == "io.apicurio:apicurio-registry-app:3.0.9:all:tar.gz"
    plain = Jar("org.slf4j", "slf4j-api", "1.7.36")
    assert (plain.file_name, str(plain)) == ("slf4j-api-1.7.36.jar", "org.slf4j:slf4j-api:1.7.36")


def test_ivy_fetches_the_classified_file_without_dependencies(tmp_path: Path) -> None:
    plain = Jar("org.slf4j", "slf4j-api", "1.7.36")
    jars._write_ivy_files(JarSet("mixed", "a test", (plain, *REGISTRY.jars)), tmp_path)
    first, second = ElementTree.parse(tmp_path / "ivy.xml").getroot().iter("dependency")
    assert {one.get("transitive") for one in (first, second)} == {"false"}
    assert list(first) == []
    (artifact,) = second
    assert artifact.attrib == {
        "name": "apicurio-registry-app",
        "type": "tar.gz",
        "ext": "tar.gz",
        "{http://ant.apache.org/ivy/maven}classifier": "all",
    }
