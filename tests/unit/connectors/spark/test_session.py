"""Requirements of Spark, how it is launched, and where the processes of a worker meet."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import javaproperties
import pytest

from connect.errors import ConfigError, ConnectError, RetriableError
from connect.worker_lifetime import WorkerLifetime, WorkerScope
from connectors.spark import session
from connectors.spark.config import SparkConfig
from connectors.spark.errors import explain, is_jvm_gone
from connectors.spark.s3_settings import read_s3_settings
from connectors.spark.session import class_archive, jvm
from connectors.spark.session.archive_training import create_archive
from connectors.spark.session.gateway import connect_gateway
from connectors.spark.session.rendezvous import rendezvous_for
from connectors.spark.session.settings import JAVA_OPTIONS, LaunchPlan, plan_launch
from sluice.embedded import jars as fetched
from sluice.embedded.jar_sets import JAR_SETS, JarSet


def test_missing_java_and_missing_jars_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"needs Java 17 or later: JAVA_HOME is .* has no bin/java"):
        session.require_java()
    with pytest.raises(ConfigError, match=r"spark\.jars: Expected a JAR file or a folder with JAR files"):
        session.find_jars([str(tmp_path)])
    (tmp_path / "a.jar").touch()
    monkeypatch.setenv("SLUICE_SPARK_JARS", str(tmp_path))
    assert session.find_jars([]) == [tmp_path / "a.jar"]


def test_old_java_is_refused_by_its_release_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    (tmp_path / "release").write_text('IMPLEMENTOR="X"\nJAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"needs Java 17 or later, and .*/bin/java is 11; point JAVA_HOME to a newer one"):
        session.require_java()


def test_listing_the_plugin_imports_nothing_heavy() -> None:
    program = "import sys, connectors.spark as s; s.SparkSink().config_def(); print({'pyspark', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"


def fetch(wanted: JarSet) -> Path:
    """Puts a set of JARs where ``sluice setup`` does; returns its folder."""
    folder = fetched.folder_of(wanted)
    folder.mkdir(parents=True)
    for jar in wanted.jars:
        (folder / jar.file_name).write_bytes(b"jar")
    manifest = {"jars": [str(jar) for jar in wanted.jars], "sizes": {jar.file_name: 3 for jar in wanted.jars}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_jars_that_setup_fetched_are_found_if_they_are_complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLUICE_SPARK_JARS", raising=False)
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(tmp_path))
    assert session.find_jars([]) == []
    wanted = JAR_SETS["spark"]
    folder = fetch(wanted)
    (tmp_path / "jars" / "spark-damaged").mkdir()
    (tmp_path / "jars" / "spark-damaged" / "manifest.json").write_text('{"jars": 1}')
    assert session.find_jars([]) == sorted(folder / jar.file_name for jar in wanted.jars)
    (folder / wanted.jars[0].file_name).unlink()
    assert session.find_jars([]) == []


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LaunchPlan:
    """A plan for a Java and a JAR that are only files."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    jar = tmp_path / "delta.jar"
    jar.write_bytes(b"1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(tmp_path / "cache"))
    own = (("spark.driver.extraJavaOptions", "-Da=b"), ("spark.driver.memory", "2g"))
    return plan_launch(SparkConfig("local[2]", "", own, (str(jar),)))


def test_plan_ends_a_jvm_without_memory_and_puts_the_connectors_options_last(plan: LaunchPlan, tmp_path: Path) -> None:
    options = plan.conf[JAVA_OPTIONS].split()
    assert "-XX:+ExitOnOutOfMemoryError" in options
    assert options[-1] == "-Da=b"
    command = jvm.java_command(plan)
    assert command[0] == str(tmp_path / "jdk" / "bin" / "java")
    assert "-Xmx2g" in command
    assert command[command.index("-cp") + 1].split(os.pathsep)[0] == str(tmp_path / "delta.jar")


def test_spark_is_launched_by_its_scripts_if_its_environment_is_configured(plan: LaunchPlan) -> None:
    assert not jvm.needs_scripts({}, plan.conf)
    assert jvm.needs_scripts({"SPARK_CONF_DIR": "/etc/spark"}, plan.conf)
    assert jvm.needs_scripts({}, {**plan.conf, "spark.driver.extraLibraryPath": "/lib"})
    assert jvm.needs_scripts({}, {**plan.conf, "spark.master": "yarn"})


@pytest.mark.parametrize("text", ["plain.value-1", " a=b:c\\d #!", "zwei\nZeilen", "ключ 🔑", ""])
def test_java_reads_properties_as_they_were_written(text: str) -> None:
    assert javaproperties.loads(f"key={jvm._escape(text)}\n") == {"key": text}


def test_class_archive_belongs_to_one_java_and_one_set_of_jars(plan: LaunchPlan, tmp_path: Path) -> None:
    java, paths = Path(plan.java), [str(tmp_path / "delta.jar")]
    archive = class_archive.path_for(java, paths)
    assert class_archive.options_for(java, paths) == []
    archive.parent.mkdir()
    archive.touch()
    assert class_archive.options_for(java, paths)[:2] == [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    (tmp_path / "delta.jar").write_bytes(b"another")
    assert class_archive.options_for(java, paths) == []
    assert class_archive.path_for(java, []) != archive
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.2"\n')
    assert class_archive.path_for(java, []) != class_archive.path_for(tmp_path / "other", [])


def test_class_archive_that_cannot_be_written_is_no_error(
    plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("SLUICE_SPARK_JARS", str(tmp_path / "delta.jar"))
    assert create_archive() is None
    assert "Spark starts slower" in caplog.text


@pytest.fixture
def scope() -> Iterator[WorkerScope]:
    lifetime = WorkerLifetime()
    yield lifetime.scope
    lifetime.end(0)


def test_processes_of_a_worker_meet_in_a_private_directory(scope: WorkerScope) -> None:
    place = rendezvous_for(scope, "local[2]")
    with place.locked():
        assert place.folder.exists()
    assert place.folder.stat().st_mode & 0o777 == 0o700
    assert rendezvous_for(scope, "local[2]") == place
    assert rendezvous_for(scope, "local[4]").socket != place.socket
    assert (place.claim_warm_up(), place.claim_warm_up()) == (True, False)
    place.folder.chmod(0o755)
    with pytest.raises(ConnectError, match="is not a private directory of this user"), place.locked():
        pytest.fail("it was locked")
    place.folder.chmod(0o700)
    with place.locked():
        place.remove()
        assert not place.folder.exists()
    with place.locked():  # another process may have waited for the lock meanwhile
        assert place.folder.exists()
        place.remove()


def test_errors_of_a_jvm_that_has_ended_are_retriable() -> None:
    from py4j.protocol import Py4JError, Py4JNetworkError

    ended = [
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),
        Py4JError("An error occurred while calling o12.commit"),
        Py4JError("An error occurred while calling o12.commit. Trace:\nTarget Object ID does not exist for this gateway :o12\n"),
    ]
    for error in ended:
        assert is_jvm_gone(error)
        explained = explain(error, "table t")
        assert isinstance(explained, RetriableError)
        assert explained.message.startswith("table t: Spark's JVM has ended")
    wrapped = ConnectError("commit failed")
    wrapped.__cause__ = ended[0]
    assert is_jvm_gone(wrapped)
    assert not is_jvm_gone(ValueError("An error occurred while calling o12.commit"))


@pytest.mark.parametrize("message", ["SparkContext was shut down", "No active or default Spark session found"])
@pytest.mark.parametrize(("master", "is_gone"), [("local[*]", True), ("spark://host:7077", False), (None, False)])
def test_spark_that_ends_in_an_orderly_way_was_ended_by_its_cluster_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, message: str, master: str | None, is_gone: bool
) -> None:
    from pyspark import SparkContext

    context = None if master is None else SimpleNamespace(master=master)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    error = RuntimeError(f"org.apache.spark.SparkException: Job 3 cancelled because {message}")
    assert is_jvm_gone(error) is is_gone
    explained = explain(error, "table t")
    assert isinstance(explained, RetriableError) is is_gone
    assert ("the cluster has ended the worker's application" in explained.message) is not is_gone


@pytest.mark.parametrize(
    "message",
    [
        "SparkSession.setActiveSession does not exist in the JVM",
        "An error occurred while calling o1.f. Trace:\npy4j.Py4JException: Method f() does not exist",
    ],
)
def test_name_that_java_does_not_know_is_an_error_unless_the_jvm_has_ended(monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark import SparkContext

    def answer() -> int:
        return 1

    def fail() -> int:
        raise Py4JNetworkError("An error occurred while trying to connect to the Java server (127.0.0.1:1)")

    for ask, is_gone in ((answer, False), (fail, True)):
        system = SimpleNamespace(System=SimpleNamespace(nanoTime=ask))
        gateway = SimpleNamespace(jvm=SimpleNamespace(java=SimpleNamespace(lang=system)))
        monkeypatch.setattr(SparkContext, "_gateway", gateway)
        assert is_jvm_gone(Py4JError(message)) is is_gone


def test_the_token_of_the_jvm_is_never_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("py4j"), "level", logging.DEBUG)
    with socket.create_server(("127.0.0.1", 0)) as listener, caplog.at_level(logging.DEBUG):

        def refuse() -> None:
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(1000))

        heard: list[bytes] = []
        jvm = threading.Thread(target=refuse)
        jvm.start()
        with pytest.raises(Exception, match=r".+"):
            connect_gateway(listener.getsockname()[1], "the-secret-token")
        jvm.join()
    assert b"the-secret-token" in heard[0]
    assert "the-secret-token" not in caplog.text


def test_fetched_jars_for_s3_come_last_so_that_the_class_archive_still_fits(
    plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = JAR_SETS["spark-s3"]
    folder = fetch(wanted)
    settings = SparkConfig("local[2]", "", (), (str(tmp_path / "delta.jar"),))
    planned = plan_launch(settings)
    before, after = jvm.class_path(plan), jvm.class_path(planned)
    assert after[: len(before)] == before
    assert set(after[len(before) :]) == {str(folder / jar.file_name) for jar in wanted.jars}
    assert jvm.class_path(plan_launch(settings, optional_jars=False)) == before
    own = tmp_path / "hadoop-aws-3.4.1.jar"
    own.touch()
    given = SparkConfig("local[2]", "", (), (str(tmp_path / "delta.jar"), str(own)))
    assert plan_launch(given).last_jars == []
    packages = (("spark.jars.packages", "org.apache.hadoop:hadoop-aws:3.4.1"),)
    assert plan_launch(SparkConfig("local[2]", "", packages, ())).last_jars == []


def test_spark_downloads_what_it_needs_for_s3_if_it_was_not_fetched(plan: LaunchPlan, tmp_path: Path) -> None:
    s3 = read_s3_settings({}, "s3a://bucket/lake")
    planned = plan_launch(SparkConfig("local[2]", "", (), (str(tmp_path / "delta.jar"),), s3=s3))
    assert "org.apache.hadoop:hadoop-aws:3.4.1" in planned.conf["spark.jars.packages"].split(",")
    assert "software.amazon.awssdk:bundle" in planned.conf["spark.jars.excludes"].split(",")
    assert planned.conf["spark.jars"] == str(tmp_path / "delta.jar")
    assert "spark.jars.packages" not in plan.conf
